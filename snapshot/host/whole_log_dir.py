"""Scan or repair a log directory by one call, for scripts and notebooks: `tiersnap.scan` and `tiersnap.repair`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tiersnap.snapshot.host.scanned import Scanned, Scanner
from tiersnap.snapshot.log.log_dir import LogDir, Partition, open_log_dir
from tiersnap.snapshot.log.selection import selected
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

    Nothing is written, and no broker, cluster or remote storage is asked. So no verdict is TIERED, and a log that
    begins in remote storage has snapshots that are NOT_COMPARED. Damage is a finding of the partition.

    Args:
        log_dir: an entry of `log.dirs`: a path, or a file:, s3: or hdfs: URI.
        topic: a regular expression for whole topic names; None for all topics.
        options: only `producer_expiration` counts here.
        now: ms since the epoch, the time to judge at; None for the clock.
        check_crc: verify the CRC-32C of each batch.

    Raises:
        SourceNotFoundError: the directory does not exist, or may not be read.
        NotALogDirError: it is no log directory.
        UsageError: no topic matches. Like NotALogDirError for folders without a segment, at the end of the iteration.
    """
    scanner = Scanner(None, options.broker_expiry(clock(now)), check_crc)
    opened = open_log_dir(log_dir)
    return (scanner.scan(opened.filesystem, each) for each in _partitions(opened, log_dir, topic))


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
    """Plan the missing snapshots of a log directory; with `apply` write them. Each item is one partition.

    Args:
        log_dir, topic, now, check_crc: see `scan`.
        topic_ids: id (22 characters) by topic, for partitions whose partition.metadata is lost.
        options: `scan` and `every_boundary` do not count here.
        apply: write into the log directory, which must be local; its broker must be stopped.

    Raises:
        LogDirInUseError: a broker holds the lock.
        NoSpaceError: the disk is full; nothing of the partition was written.
        UsageError: no topic matches, the directory is on another host, this user may not write there, or the written
            files would lack producers that brokers keep.
        SourceNotFoundError, NotALogDirError: see `scan`.
    """
    expiry = options.expiry(clock(now)).checked(options.producer_expiration)
    plan = PlanOptions(expiry, options.producer_expiration, replace=options.replace)
    opened = open_log_dir(log_dir)
    return (
        repair_partition(opened.filesystem, each, plan, apply=apply, check_crc=check_crc, topic_ids=topic_ids)
        for each in _partitions(opened, log_dir, topic)
    )


def clock(now: int | None) -> int:
    """Return the time (ms) that a caller gave, else that of the clock."""
    if now is not None:
        return now
    return time.time_ns() // 1_000_000


def compiled(topic: str | None) -> re.Pattern[str] | None:
    """Return the regular expression for whole topic names; None for all topics."""
    if topic is None:
        return None
    return re.compile(topic)


def _partitions(opened: LogDir, uri: str, topic: str | None) -> Iterator[Partition]:
    return selected(opened, uri, compiled(topic))
