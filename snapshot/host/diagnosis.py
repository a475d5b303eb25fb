"""Diagnose a log directory by the names and sizes of its files, in seconds: no segment is read.

    MISSING_SNAPSHOT   closed segments without a snapshot at their end, of topics that can be tiered
    TOPIC_ID_UNKNOWN   closed segments of partitions without partition.metadata
    MISSING_INDEX      closed segments of partitions without leader epochs
    UNKNOWN_LOG_START  closed segments without a snapshot at their end, of logs whose start is unknown
    INDEX_DAMAGED      closed segments with an index of a size that no index beside such a log has, or whose leader
                       epochs are lost

A file that is there is counted as there; whether it is right only the log says (`examine`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.formats import meta_properties
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES, MetaProperties
from tiersnap.snapshot.gate.judge import judge_remote
from tiersnap.snapshot.gate.verdict import Verdict
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
    """Counts of one log directory."""

    partitions: int = 0
    segments: int = 0
    bytes: int = 0  # of all `.log` files
    blocked: Counter[Verdict] = field(default_factory=Counter)  # closed segments by what stands in their way, by name
    in_remote: Counter[Verdict] = field(
        default_factory=Counter
    )  # closed segments that remote storage holds, by verdict
    blocked_bytes: int = 0  # of the segments that wait, those behind a blocked one among them
    log_starts: LogStarts = field(default_factory=LogStarts)  # of the partitions that can be tiered
    lost_indexes: int = 0  # partitions that can be tiered with a closed segment without an .index
    lost_below_log_start: int = 0  # those with such a segment below the log start
    has_topic_ids: bool = False  # some partition has a partition.metadata file, which brokers write since 2.8
    now: int = 0  # epoch ms, from which `bytes_per_day` counts back
    recent_bytes: int = 0  # of segments that were written within a day
    recent_ms: int = _SHORTEST_MS  # how long ago the first of them was
    findings: list[Finding] = field(default_factory=list)

    def add(self, partition: Partition, tiered: RemoteCoverage = NOTHING_REMOTE) -> None:
        """Count one partition; a segment that remote storage holds, by `tiered`, waits for no file here."""
        self.partitions += 1
        self.segments += len(partition.segments)
        self.bytes += sum(segment.log.size for segment in partition.segments)
        for segment in partition.segments:
            age = max(0, self.now - segment.log.modified_ns // 1_000_000)
            self.recent_bytes += segment.log.size if age < DAY_MS else 0
            self.recent_ms = max(self.recent_ms, min(age, DAY_MS))
        self.has_topic_ids |= partition.topic_id is not None
        self.findings.extend(partition.findings)
        if never_tiered_reason(partition):
            return
        is_below = self.log_starts.add(partition, tiered.covered)
        self.lost_indexes += lost_index(partition) is not None
        self.lost_below_log_start += lost_below_log_start(partition)
        is_waiting = False
        for segment in partition.segments:
            if segment.next_base_offset is None:
                continue
            if _has(tiered, partition, segment):
                start = max(segment.base_offset, partition.log_start_offset)
                self.in_remote[judge_remote(start, segment.next_base_offset, tiered)[0]] += 1
                verdict = None
            else:
                verdict = _verdict(partition, segment)
            if verdict is Verdict.MISSING_SNAPSHOT and is_below is None:
                verdict = Verdict.UNKNOWN_LOG_START
            if verdict is not None:
                self.blocked[verdict] += 1
                is_waiting = True
            self.blocked_bytes += segment.log.size if is_waiting else 0

    @property
    def bytes_per_day(self) -> int:
        """Return the bytes written per day: by the last day, or by all behind the oldest segment if that is younger."""
        return self.recent_bytes * DAY_MS // self.recent_ms


def _verdict(partition: Partition, segment: Segment) -> Verdict | None:
    if partition.topic_id is None:
        return Verdict.TOPIC_ID_UNKNOWN
    if not has_leader_epoch(partition.leader_epochs, segment.next_base_offset):
        return Verdict.MISSING_INDEX
    if segment.next_base_offset not in partition.snapshots:
        return Verdict.MISSING_SNAPSHOT
    return Verdict.INDEX_DAMAGED if lost_epochs(partition, segment) or faults_by_size(segment) else None


def _has(tiered: RemoteCoverage, partition: Partition, segment: Segment) -> bool:
    end = segment.next_base_offset
    return end is not None and tiered.has_segment(segment.base_offset, end, partition.log_start_offset)


def missing_snapshots(partition: Partition, tiered: RemoteCoverage = NOTHING_REMOTE) -> int:
    """Return how many snapshots `repair` would find missing; none of segments that are `tiered`.

    None of a log whose start is unknown: `repair` makes none there.
    """
    if never_tiered_reason(partition) or begins_below(partition, tiered.covered) is None:
        return 0
    ends = {each.next_base_offset for each in partition.segments if not _has(tiered, partition, each)} - {None}
    return len(ends - partition.snapshots.keys())


def read_meta_properties(filesystem: FileSystem, log_dir: LogDir) -> tuple[MetaProperties | None, Finding | None]:
    """Return whose disk it is; a finding where the file is damaged or may not be read, neither where there is none."""
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
    """Return the least version of the broker that wrote the files last."""
    if meta is not None and meta.directory_id is not None:
        return "3.7 or newer: meta.properties has a directory.id"
    if meta is not None and meta.is_kraft:
        return "2.8 or newer: meta.properties is of KRaft"
    if has_topic_ids:
        return "2.8 or newer: partitions have a partition.metadata"
    return "unknown: no partition has a partition.metadata, which brokers write since 2.8"
