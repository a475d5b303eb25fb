"""Compare remote segments with the log on this host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.remote_log.log_head import KnownLogStart, start_by_files
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_indexes
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.file_system import LOCAL, FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.leader_epochs import Interval
from tiersnap.snapshot.log.listed_again import Locate
from tiersnap.snapshot.log.lock import is_in_use
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment
from tiersnap.snapshot.log.log_start import with_stated
from tiersnap.snapshot.log.selection import (
    Selection,
    findings_of,
    open_log_dirs,
    refuse_twice,
    selected_of,
)
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.examine import examine_decodes
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.facts import SegmentFacts
from tiersnap.snapshot.replay.replay_start import Beginnings, beginning
from tiersnap.snapshot.replay.segment_runs import LocalDecodes

_log = logging.getLogger(__name__)

_ELSEWHERE = FileRef("", 0, 0)


@dataclass(frozen=True, slots=True)
class LocalComparison:
    """The comparison of remote segments with a local log, by segment id.

    Attributes:
        snapshots: comparisons of the remote snapshots with the log.
        digests: digest over all batch headers of the local segment with the bounds of the remote segment, if it exists.
    """

    snapshots: Mapping[str, Comparison] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


CompareLocally = Callable[[ObjectStore, Sequence[RemoteSegment]], LocalComparison]
"""Compares remote segments with the local log."""


@dataclass(frozen=True)
class LocalLog:
    """The log of one partition on this host.

    Attributes:
        beginnings: producer states at the first local offset.
        check_crc: verify the CRC-32C of each batch.
        findings: damaged and unreadable files. `compare` adds to this list, which several logs may share.
    """

    filesystem: FileSystem
    partition: Partition
    beginnings: Beginnings
    check_crc: bool = True
    findings: list[Finding] = field(default_factory=list)

    @cached_property
    def _segments(self) -> dict[int, Segment]:
        return {each.base_offset: each for each in self.partition.segments}

    def log_start(self, covered: Sequence[Interval]) -> KnownLogStart | None:
        """Return the log start offset according to the files of the log directory; None if unknown.

        Args:
            covered: offsets of the log's lineage that remote segments cover.
        """
        return start_by_files(self.partition, covered)

    @property
    def is_running(self) -> bool:
        """Return whether a broker on this host has locked the log directory."""
        return self.filesystem is LOCAL and is_in_use(Path(self.partition.path).parent)

    def segment_of(self, record: RemoteLogSegmentMetadata) -> Segment | None:
        """Return the local segment with the same bounds and size as a record; None without such a segment."""
        found = self._segments.get(record.start_offset)
        end = record.end_offset + 1
        if found and (found.next_base_offset, found.log.size) == (end, record.segment_size):
            return found
        return None

    def compare(self, store: ObjectStore, copies: Sequence[RemoteSegment]) -> LocalComparison:
        """Replay the local log, and compare the remote segments with it.

        Segments of another lineage, and segments that end at or below the first local offset, are skipped. If several
        remote segments end at one offset, the snapshot of only one is compared.
        """
        own = list(self._of_log(copies))
        ending = {copy.end_offset: copy for copy in own}
        if not ending or not self.partition.segments:
            return LocalComparison()
        found = examine_decodes(
            replace(self.partition, snapshots=dict.fromkeys(ending, _ELSEWHERE)),
            LocalDecodes(self.filesystem, self.check_crc),
            partial(_read_snapshot, store, ending),
            begins=self.beginnings.of(self.partition),
        )
        self.findings.extend(each for each in found.findings if each not in self.partition.findings)
        snapshots = {ending[end].segment_id: each for end, each in found.snapshots.items() if end in ending}
        return LocalComparison(snapshots, _own_digests(own, _digests_of(found.segments)))

    def _of_log(self, copies: Iterable[RemoteSegment]) -> Iterator[RemoteSegment]:
        epochs, first = self.partition.whole_epochs, self.partition.first_base_offset
        for copy in copies:
            if copy.end_offset > first and copy.facts.is_of(epochs):
                yield copy


def _digests_of(segments: Iterable[SegmentFacts]) -> dict[tuple[int, int | None], str]:
    """Return the digest of each undamaged segment, by base offset and exclusive end offset."""
    digests = {}
    for each in segments:
        if each.damage_kind is None:
            digests[each.base_offset, each.next_base_offset] = each.digest
    return digests


def _own_digests(copies: Iterable[RemoteSegment], digests: Mapping[tuple[int, int | None], str]) -> dict[str, str]:
    """Return, by remote segment id, the digest of the local segment with the bounds of that remote segment."""
    own = {}
    for copy in copies:
        digest = digests.get(copy.bounds)
        if digest:
            own[copy.segment_id] = digest
    return own


def _read_snapshot(store: ObjectStore, ending: Mapping[int, RemoteSegment], offset: int) -> bytes | None:
    """Return the snapshot of the remote segment that ends at an offset; b"" if it is damaged or missing."""
    if offset not in ending:
        return None
    wanted = (IndexType.PRODUCER_SNAPSHOT,)
    try:
        return read_indexes(store, ending[offset], wanted)[IndexType.PRODUCER_SNAPSHOT]
    except (CorruptDataError, ObjectNotFoundError):
        return b""


@dataclass(frozen=True)
class LocalLogs:
    """The logs on this host, by topic and partition."""

    logs: Mapping[TopicPartition, LocalLog] = field(default_factory=dict)
    _left_out: set[TopicIdPartition] = field(default_factory=set)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self.logs

    def of(self, partition: TopicIdPartition) -> LocalLog | None:
        """Return the log of a partition; None if this host has no log with segments and with this topic id.

        If the local topic id differs or is unknown, a warning is logged once, because the topic may have been
        recreated.
        """
        found = self.logs.get((partition.topic, partition.partition))
        if found is None or not found.partition.segments:
            return None
        if (topic_id := found.partition.topic_id) == partition.topic_id:
            return found
        if partition not in self._left_out:
            self._left_out.add(partition)
            has = "the folder has no partition.metadata"
            if topic_id:
                has = f"its topic id is {topic_id}"
            _log.warning(
                "%s: not compared: %s, but remote storage has %s", found.partition.path, has, partition.topic_id
            )
        return None

    def compare_of(self, partition: TopicIdPartition) -> CompareLocally | None:
        """Return the method that compares segments with the local log of a partition; None if `of` returns None."""
        local = self.of(partition)
        if local is None:
            return None
        return local.compare


def local_logs(
    log_dirs: Sequence[str],
    selection: Selection,
    beginnings: Beginnings,
    *,
    check_crc: bool,
    findings: list[Finding] | None = None,
    log_starts: Mapping[TopicPartition, int] = MappingProxyType({}),
    leading: Mapping[TopicPartition, str] | None = None,
    located: Locate = iter,
) -> LocalLogs:
    """Return the logs of selected partitions in log directories.

    Args:
        log_dirs: paths or URIs of log directories.
        selection: selects partitions.
        beginnings: producer states at the first local offset.
        check_crc: verify the CRC-32C of each batch.
        findings: receives damaged and unreadable files, during this call and whenever a log is read later.
        log_starts: log start offsets from --log-start.
        leading: URI of the log directory whose replica is read, by partition; None if each partition has one replica.
        located: adds the cluster's log starts to partitions; see cluster.log_starts.located.

    Raises:
        SourceNotFoundError, NotALogDirError, UsageError: see `open_log_dirs`, `selected_of` and `with_stated`.
        PartitionTwiceError: see `refuse_twice`.
    """
    opened, logs = with_stated(open_log_dirs(log_dirs), log_starts), dict[TopicPartition, LocalLog]()
    told = findings
    if told is None:
        told = []
    if leading is None:
        refuse_twice(opened)
    told.extend(findings_of(opened))
    for named, partition in located(selected_of(opened, selection)):
        if leading is not None and leading.get((partition.topic, partition.partition)) != named.source:
            continue
        told.extend(partition.findings)
        log = LocalLog(named.log_dir.filesystem, partition, beginnings, check_crc, told)
        logs[partition.topic, partition.partition] = log
    return LocalLogs(logs)


def logs_of_replicas(
    location: RemoteLocation,
    log_dirs: Sequence[str],
    selection: Selection,
    expiry: BrokerExpiry,
    leading: Mapping[TopicPartition, str] | None = None,
) -> LocalLogs:
    """Return the logs of selected partitions. Producer states at the first local offset come from remote storage.

    See `local_logs` for `leading`.

    Raises:
        SourceNotFoundError, NotALogDirError, UsageError, PartitionTwiceError: see `local_logs`.
    """
    if not log_dirs:
        return LocalLogs()
    return local_logs(log_dirs, selection, _beginnings(location, expiry), check_crc=True, leading=leading)


def log_of_replica(
    location: RemoteLocation, filesystem: FileSystem, partition: Partition, expiry: BrokerExpiry
) -> LocalLog:
    """Return the log of a listed partition. The producer state at its first offset comes from remote storage."""
    return LocalLog(filesystem, partition, _beginnings(location, expiry))


def _beginnings(location: RemoteLocation, expiry: BrokerExpiry) -> Beginnings:
    return Beginnings(partial(beginning, Observe(location), expiry))
