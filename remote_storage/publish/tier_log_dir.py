"""The function `tiersnap.tier`, for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.metadata.recorded import read_replicas
from tiersnap.remote_storage.publish.broker_evidence import beside_brokers
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.probe import check_lists
from tiersnap.remote_storage.stores.store_settings import DEFAULT_LAYOUT, StoreSettings
from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.snapshot.gate.copy_task import LEFT_FOR_MS, ClusterAnswer
from tiersnap.snapshot.host.whole_log_dir import DEFAULTS, clock, compiled
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, open_log_dirs, selected_of
from tiersnap.snapshot.replay.expiry import ReplayOptions, Scan
from tiersnap.snapshot.report.run_info import new_run_id


def tier(
    log_dir: str,
    remote: str,
    *,
    topic: str | None = None,
    topic_ids: Mapping[str, str] = MappingProxyType({}),
    options: ReplayOptions = DEFAULTS,
    now: int | None = None,
    layout: str = DEFAULT_LAYOUT,
    stores: StoreSettings | None = None,
    check_crc: bool = True,
    apply: bool = False,
) -> Iterator[HostPartition]:
    """Yield each partition of a log directory with its verdicts. With `apply`, upload READY segments first.

    The function asks no cluster and publishes nothing. Uploaded segments are UPLOADED until `tiersnap publish` makes
    them TIERED. If one partition fails, its error is in `HostPartition.errors`, and the iteration continues.

    Args:
        log_dir: an entry of `log.dirs`: a path, or a file:, s3: or hdfs: URI.
        remote: `s3://bucket/prefix`, or a directory.
        topic: a regular expression that must match a whole topic name; None for all topics.
        topic_ids: topic ids (22 characters) by topic name, for topics without partition.metadata.
        options: options of the replay. The field `scan` is ignored: Scan.EXACT is always used.
        now: time (ms since the epoch) for which producers and segments are judged; None for the system clock.
        layout: `aiven` or `local-tiered-storage`.
        stores: endpoint and region of S3; None takes them from the environment.
        check_crc: verify the CRC-32C of each batch.
        apply: write snapshots and segments to remote storage; False only plans.

    Raises:
        SourceNotFoundError, NotALogDirError: see `tiersnap.scan`.
        UsageError: no topic matches, the layout or store is unknown, or a snapshot would omit active producers.
        MissingExtraError: S3 without the extra `s3`.
        WrongPlaceError: the running broker of the log directory reads another location.
        ConditionsIgnoredError: the store ignores the conditions of conditional writes.
        RemoteStorageError, TransientError: remote storage refuses a request, or does not answer.
        UnknownStateError: remote storage lacks the beginning of a log; raised at the end of the iteration.
    """
    now, pattern = clock(now), compiled(topic)
    options.expiry(now).checked(options.producer_expiration)
    location = open_location(open_store(remote, stores, writes=apply), layout)
    beside_brokers([log_dir], location).refuse_contradiction()
    check_lists(location.store)  # report a location that does not answer before the work
    opened = open_log_dirs([log_dir])
    host = HostTier(
        location,
        replace(options, scan=Scan.EXACT),
        Tierer(new_run_id(), now),
        topic_ids=topic_ids,
        check_crc=check_crc,
        apply=apply,
    )
    host.prepare_store(pattern)
    host = host.with_answer(ClusterAnswer(records=read_replicas(each.log_dir for each in opened)), LEFT_FOR_MS)
    return _tiered(host, selected_of(opened, Selection(pattern)))


def _tiered(host: HostTier, found: Iterator[tuple[NamedLogDir, Partition]]) -> Iterator[HostPartition]:
    """Yield the partitions. At the end raise the first error about the location, if there is one."""
    yield from host.partitions(found)
    for doubt in host.place_errors():
        raise doubt
