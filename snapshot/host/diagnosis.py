"""Diagnose a log directory in seconds, by the names and sizes of its files. Segments and snapshots are not read.

If a closed segment of a topic that can be tiered is blocked, it gets one of these verdicts:

    GAP_IN_REMOTE      remote storage lacks a part of the segment, and has later segments
    MISSING_SNAPSHOT   no snapshot exists at the segment's end
    TOPIC_ID_UNKNOWN   the partition has no partition.metadata
    MISSING_INDEX      leader-epoch-checkpoint has no epoch for the segment
    UNKNOWN_LOG_START  no snapshot exists at the segment's end, and the log start is unknown
    INDEX_DAMAGED      an index has an impossible size, or leader epochs of the segment are lost

Only a comparison with the log (`examine`) shows whether an existing snapshot or index is right.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.formats import meta_properties
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES, MetaProperties
from tiersnap.snapshot.gate.judge import judge_by_remote
from tiersnap.snapshot.gate.verdict import IN_REMOTE_STORAGE, RANK, Verdict
from tiersnap.snapshot.host.waiting import WaitingPartition
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE, RemoteCoverage
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding, corrupt_checkpoint, unreadable
from tiersnap.snapshot.log.index_faults import faults_by_size
from tiersnap.snapshot.log.log_dir import LogDir, Partition, Segment, read_text
from tiersnap.snapshot.log.log_start import LogStarts, begins_below
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.repair.undone import lost_below_log_start, lost_index
from tiersnap.snapshot.replay.examine import has_leader_epoch, lost_epochs

_SHORTEST_MS, DAY_MS = 15 * 60_000, 86_400_000


@dataclass
class SegmentCounts:
    """Counts for one log directory."""

    partitions: int = 0
    segments: int = 0
    bytes: int = 0  # total size of the `.log` files
    blocked: Counter[Verdict] = field(default_factory=Counter)  # blocked closed segments, by verdict
    in_remote: Counter[Verdict] = field(default_factory=Counter)  # closed segments in remote storage, by verdict
    waiting: list[WaitingPartition] = field(default_factory=list)
    log_starts: LogStarts = field(default_factory=LogStarts)  # of the partitions that can be tiered
    lost_indexes: int = 0  # partitions that have a closed segment without an .index
    lost_below_log_start: int = 0  # partitions that have a segment without an .index below the log start
    has_topic_ids: bool = False  # whether a partition has a partition.metadata file, which brokers write since 2.8
    now: int = 0  # ms since the epoch, the end of the day that `bytes_per_day` counts
    recent_bytes: int = 0  # total size of segments that were modified within that day
    recent_ms: int = _SHORTEST_MS  # age of the oldest segment; at most a day
    findings: list[Finding] = field(default_factory=list)

    def add(self, partition: Partition, tiered: RemoteCoverage = NOTHING_REMOTE) -> None:
        """Count one partition. A segment that `tiered` covers does not count as blocked, even if files are missing."""
        self._add_sizes(partition)
        self.has_topic_ids |= partition.topic_id is not None
        self.findings.extend(partition.findings)
        if not never_tiered_reason(partition):
            self.lost_indexes += lost_index(partition) is not None
            self.lost_below_log_start += lost_below_log_start(partition)
            self._add_verdicts(partition, tiered)

    def _add_sizes(self, partition: Partition) -> None:
        self.partitions += 1
        self.segments += len(partition.segments)
        self.bytes += partition.log_bytes
        for segment in partition.segments:
            age = max(0, self.now - segment.log.modified_ns // 1_000_000)
            if age < DAY_MS:
                self.recent_bytes += segment.log.size
            self.recent_ms = max(self.recent_ms, min(age, DAY_MS))

    def _add_verdicts(self, partition: Partition, tiered: RemoteCoverage) -> None:
        """Count the closed segments by verdict, and the bytes from the first blocked segment on."""
        is_located = self.log_starts.add(partition, tiered.covered) is not None
        blocked: list[Verdict] = []
        waiting_bytes = 0
        for segment in partition.segments:
            end = segment.next_base_offset
            if end is None:
                continue
            by_remote, _ = judge_by_remote(segment.base_offset, end, partition.log_start_offset, tiered) or (None, "")
            if by_remote in IN_REMOTE_STORAGE:
                self.in_remote[by_remote] += 1
            elif by_remote is Verdict.GAP_IN_REMOTE:
                blocked.append(by_remote)
            elif verdict := _verdict(partition, segment, is_located=is_located):
                blocked.append(verdict)
            if blocked:
                waiting_bytes += segment.log.size
        self.blocked.update(blocked)
        if blocked:
            verdict = min(blocked, key=RANK.__getitem__)
            self.waiting.append(WaitingPartition(partition.name, verdict, len(blocked), waiting_bytes))

    @property
    def blocked_bytes(self) -> int:
        """Return the total size of the blocked segments and of the closed segments after them."""
        return sum(each.bytes for each in self.waiting)

    @property
    def bytes_per_day(self) -> int:
        """Return the bytes written in the last day.

        If the oldest segment is younger than a day, extrapolate to a day.
        """
        return self.recent_bytes * DAY_MS // self.recent_ms


def _verdict(partition: Partition, segment: Segment, *, is_located: bool) -> Verdict | None:
    """Return the verdict that blocks a closed segment, or None. `is_located`: whether the log start is known."""
    if partition.topic_id is None:
        return Verdict.TOPIC_ID_UNKNOWN
    if not has_leader_epoch(partition.leader_epochs, segment.next_base_offset):
        return Verdict.MISSING_INDEX
    if segment.next_base_offset not in partition.snapshots:
        return Verdict.MISSING_SNAPSHOT if is_located else Verdict.UNKNOWN_LOG_START
    if lost_epochs(partition, segment) or faults_by_size(segment):
        return Verdict.INDEX_DAMAGED
    return None


def _has(tiered: RemoteCoverage, partition: Partition, segment: Segment) -> bool:
    end = segment.next_base_offset
    return end is not None and tiered.has_segment(segment.base_offset, end, partition.log_start_offset)


def missing_snapshots(partition: Partition, tiered: RemoteCoverage = NOTHING_REMOTE) -> int:
    """Return the number of missing snapshots that `repair` would write.

    `repair` writes none for `tiered` segments, and none for a log whose start is unknown.
    """
    if never_tiered_reason(partition) or begins_below(partition, tiered.covered) is None:
        return 0
    missing = 0
    for segment in partition.segments:
        end = segment.next_base_offset
        if end is not None and end not in partition.snapshots and not _has(tiered, partition, segment):
            missing += 1
    return missing


def read_meta_properties(filesystem: FileSystem, log_dir: LogDir) -> tuple[MetaProperties | None, Finding | None]:
    """Return (meta.properties, None), or (None, finding) if the file is damaged, or (None, None) without a file."""
    path = f"{log_dir.path}/{META_PROPERTIES}"
    try:
        return meta_properties.parse(read_text(filesystem, path), name=path), None
    except FileNotFoundError:
        return None, None
    except CorruptCheckpointError as error:
        return None, corrupt_checkpoint(path, error)
    except OSError as error:
        return None, unreadable(path, error)


def at_least(meta: MetaProperties | None, *, has_topic_ids: bool) -> str:
    """Return a text about the lowest possible version of the broker that wrote the files."""
    if meta is not None and meta.directory_id is not None:
        return "3.7 or newer: meta.properties has a directory.id"
    if meta is not None and meta.is_kraft:
        return "2.8 or newer: meta.properties was written in KRaft mode"
    if has_topic_ids:
        return "2.8 or newer: partitions have a partition.metadata"
    return "unknown: no partition has a partition.metadata, which brokers write since 2.8"
