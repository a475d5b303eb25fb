"""Scan or repair a log directory with one call, for scripts and notebooks: `tiersnap.scan` and `tiersnap.repair`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from itertools import starmap
from types import MappingProxyType

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.host.scanned import Scanned, Scanner
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected, selected_of
from tiersnap.snapshot.repair.partition import Repaired, repair_partition
from tiersnap.snapshot.repair.repair_plan import PlanOptions
from tiersnap.snapshot.replay.expiry import ReplayOptions

DEFAULTS = ReplayOptions()


def scan(
    log_dir: str,
    *,
    topic: str | None = None,
    options: ReplayOptions = DEFAULTS,
    now: int | None = None,
    check_crc: bool = True,
) -> Iterator[Scanned]:
    """Replay and judge the partitions of a log directory one by one, ascending by name, as `tiersnap scan` does.

    A partition is scanned again if retention deletes one of its segments during the scan.

    Nothing is written, and no broker, cluster or remote storage is asked. So no segment is TIERED, and snapshots of a
    log that begins in remote storage are NOT_COMPARED. Damage is a finding of the partition.

    Args:
        log_dir: an entry of `log.dirs`: a path, or a file:, s3: or hdfs: URI.
        topic: a regular expression for whole topic names; None for all topics.
        options: only `producer_expiration` is used.
        now: time of the judgement, ms since the epoch; None for the current time.
        check_crc: whether to verify the CRC-32C of each batch.

    Raises:
        SourceNotFoundError: the directory does not exist, or may not be read.
        NotALogDirError: the directory is no log directory; or, at the end of the iteration, it has no segments.
        UsageError: `topic` is no regular expression; or, at the end of the iteration, no topic matches.
    """
    scanner = Scanner(None, options.broker_expiry(clock(now)), check_crc)
    selection = Selection(compiled(topic))
    return starmap(scanner.scan, selected_of(open_log_dirs([log_dir]), selection))


def repair(
    log_dir: str,
    *,
    topic: str | None = None,
    topic_ids: Mapping[str, str] = MappingProxyType({}),
    options: ReplayOptions = DEFAULTS,
    now: int | None = None,
    apply: bool = False,
    check_crc: bool = True,
) -> Iterator[Repaired]:
    """Plan the missing snapshots of a log directory, and write them if `apply` is True. Yield each partition's result.

    Args:
        log_dir, topic, now, check_crc: see `scan`.
        topic_ids: id (22 characters) by topic, for partitions whose partition.metadata is lost.
        options: the fields `scan` and `every_boundary` are not used.
        apply: whether to write into the log directory, which must be local. Its broker must be stopped.

    Raises:
        LogDirInUseError: a broker holds the lock.
        NoSpaceError: the disk is full; no file of the partition was written.
        UsageError: no topic matches, the directory is on another host, or this user may not write to it. Also raised if
            `options.expiration` is so short that snapshots would lack producers which brokers still keep.
        SourceNotFoundError, NotALogDirError: see `scan`.
    """
    expiry = options.expiry(clock(now)).checked(options.producer_expiration)
    plan = PlanOptions(expiry, options.producer_expiration, replace=options.replace)
    opened = open_log_dir(log_dir)
    return (
        repair_partition(opened.filesystem, each, plan, apply=apply, check_crc=check_crc, topic_ids=topic_ids)
        for each in selected(opened, log_dir, compiled(topic))
    )


def clock(now: int | None) -> int:
    """Return `now` if it is given, else the current time, in ms since the epoch."""
    if now is not None:
        return now
    return time.time_ns() // 1_000_000


def compiled(topic: str | None) -> re.Pattern[str] | None:
    """Return the compiled regular expression for topic names; None for all topics.

    Raises:
        UsageError: `topic` is no regular expression.
    """
    try:
        return None if topic is None else re.compile(topic)
    except re.error as error:
        raise UsageError(
            f"topic {topic!r}: {error}", hint="give a regular expression, such as 'orders|payments-.*'"
        ) from error
