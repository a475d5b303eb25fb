"""Compare the snapshots of remote segments with the log on this host."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.remote_log.log_head import ToldStart, start_by_files
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
class ToldLocally:
    """The answers of a local log about remote segments, by segment id.

    Attributes:
        snapshots: comparisons of their snapshots with the log.
        digests: over the headers of all batches, of those that are segments of the local log as well.
    """

    snapshots: Mapping[str, Comparison] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalLog:
    """The log of one partition on this host.

    Attributes:
        beginnings: state of the log before its first local file.
        findings: damaged and unreadable files of all logs; they grow as logs are read.
    """

    filesystem: FileSystem
    partition: Partition
    beginnings: Beginnings
    check_crc: bool = True
    findings: list[Finding] = field(default_factory=list)

    @cached_property
    def _segments(self) -> dict[int, Segment]:
        return {each.base_offset: each for each in self.partition.segments}

    def log_start(self, covered: Sequence[Interval]) -> ToldStart | None:
        """Return the log start as its checkpoints tell it, or the `covered` offsets; None if it is unknown."""
        return start_by_files(self.partition, covered)

    @property
    def is_running(self) -> bool:
        """Return whether a broker runs with its log directory."""
        return self.filesystem is LOCAL and is_in_use(Path(self.partition.path).parent)

    def segment_of(self, record: RemoteLogSegmentMetadata) -> Segment | None:
        """Return the local segment with the offsets and as many bytes as a record says; None without one."""
        found = self._segments.get(record.start_offset)
        end = record.end_offset + 1
        return found if found and (found.next_base_offset, found.log.size) == (end, record.segment_size) else None

    def compare(self, store: ObjectStore, copies: Sequence[RemoteSegment]) -> ToldLocally:
        """Replay the log and compare the snapshot of each remote segment of its lineage that ends in it.

        If several segments end at one offset, one snapshot is compared, and the logs of all segments.
        """
        own = list(self._of_log(copies))
        ending = {copy.end_offset: copy for copy in own}
        if not ending or not self.partition.segments:
            return ToldLocally()
        found = examine_decodes(
            replace(self.partition, snapshots=dict.fromkeys(ending, _ELSEWHERE)),
            LocalDecodes(self.filesystem, self.check_crc),
            partial(_read_snapshot, store, ending),
            begins=self.beginnings.of(self.partition),
        )
        self.findings.extend(each for each in found.findings if each not in self.partition.findings)
        snapshots = {copy.segment_id: found.snapshots[end] for end, copy in ending.items() if end in found.snapshots}
        return ToldLocally(snapshots, _own_digests(own, _digests_of(found.segments)))

    def _of_log(self, copies: Iterable[RemoteSegment]) -> Iterator[RemoteSegment]:
        epochs, first = self.partition.whole_epochs, self.partition.first_base_offset
        for copy in copies:
            if copy.end_offset > first and copy.facts.is_of(epochs):
                yield copy


def _digests_of(segments: Iterable[SegmentFacts]) -> dict[tuple[int, int | None], str]:
    """Return the digest of each undamaged segment by its base offset and exclusive end."""
    right = (each for each in segments if each.damage_kind is None)
    return {(each.base_offset, each.next_base_offset): each.digest for each in right}


def _own_digests(copies: Iterable[RemoteSegment], digests: Mapping[tuple[int, int | None], str]) -> dict[str, str]:
    """Return the local digests of remote segments by id; those without one are left out."""
    own = {}
    for copy in copies:
        digest = digests.get(copy.bounds)
        if digest:
            own[copy.segment_id] = digest
    return own


def _read_snapshot(store: ObjectStore, ending: Mapping[int, RemoteSegment], offset: int) -> bytes | None:
    """Return the producer snapshot of the remote segment that ends at an offset; b"" if it is damaged or missing."""
    if offset not in ending:
        return None
    wanted = (IndexType.PRODUCER_SNAPSHOT,)
    try:
        return read_indexes(store, ending[offset], wanted)[IndexType.PRODUCER_SNAPSHOT]
    except (CorruptDataError, ObjectNotFoundError):
        return b""


@dataclass(frozen=True)
class LocalLogs:
    """Logs on this host, by topic and partition."""

    logs: Mapping[TopicPartition, LocalLog] = field(default_factory=dict)
    _left_out: set[TopicIdPartition] = field(default_factory=set)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self.logs

    def of(self, partition: TopicIdPartition) -> LocalLog | None:
        """Return the log of a remote partition; None without one, without a segment, or of another topic id.

        A log with another id, or whose id is unknown, is logged once: its topic may have been made anew.
        """
        found = self.logs.get((partition.topic, partition.partition))
        if found is None or not found.partition.segments:
            return None
        if (topic_id := found.partition.topic_id) == partition.topic_id:
            return found
        if partition not in self._left_out:
            self._left_out.add(partition)
            has = f"its topic id is {topic_id}" if topic_id else "it has no partition.metadata"
            _log.warning("%s is left out: %s, remote storage has %s", found.partition.path, has, partition.topic_id)
        return None


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
        located: hands partitions on with the log start that a cluster tells, see cluster.log_starts.located.
        leading: URI of the log directory whose replica is read, by partition; None if each partition has one replica.
        findings: takes damaged and unreadable files, now and when a log is read.
        log_starts: as --log-start states them.

    Raises:
        SourceNotFoundError, NotALogDirError, UsageError: see `open_log_dirs`, `selected_of` and `with_stated`.
        PartitionTwiceError: see `refuse_twice`.
    """
    opened, logs = with_stated(open_log_dirs(log_dirs), log_starts), dict[TopicPartition, LocalLog]()
    told = [] if findings is None else findings
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
    """Return the logs of selected partitions of several replicas, with the producers of remote segments before.

    See `local_logs` for `leading`.

    Raises:
        SourceNotFoundError, NotALogDirError, UsageError, PartitionTwiceError: see `local_logs`.
    """
    begins = Beginnings(partial(beginning, Observe(location), expiry))
    return local_logs(log_dirs, selection, begins, check_crc=True, leading=leading) if log_dirs else LocalLogs()
