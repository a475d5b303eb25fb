"""Replay one partition, and return the facts of its segments, its findings and the comparisons of its snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.index_faults import faults_by_order, faults_by_size
from tiersnap.snapshot.log.log_dir import HIGH_WATERMARKS, LEADER_EPOCHS, LOG_START_OFFSETS, Partition, Segment
from tiersnap.snapshot.log.log_start import log_start_of, unloaded_below, why_unknown
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.log.selection import compaction_reason, internal_reason, never_tiered_reason
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.partition_replay import Replay, replay_partition, snapshot_reader
from tiersnap.snapshot.replay.partition_state import (
    NOT_ASKED,
    NOT_LOCATED,
    NOT_TOLD,
    Boundary,
    Refusal,
    SnapshotAt,
)
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning, StartState
from tiersnap.snapshot.replay.segment_runs import DecodeSource, FoldSegment, LocalDecodes, Run, fold_segment
from tiersnap.snapshot.replay.snapshot_comparison import ExaminedSegment, ReadSnapshot


@dataclass(frozen=True, slots=True, eq=False)
class Examination:
    """The result of a partition's replay."""

    partition: Partition
    # By ascending offset: of every aligned offset that was reached, and of every snapshot file.
    snapshots: Mapping[int, Comparison]
    reached: Mapping[int, SnapshotAt]  # the results to be stored, by offset, of every snapshot offset that was reached
    facts: PartitionFacts
    segments: tuple[SegmentFacts, ...]  # ascending
    ends: tuple[Comparison, ...]  # the comparison of the snapshot at each segment's end
    findings: tuple[Finding, ...]
    # State at the active segment's base offset, to start the next replay from; None if it is unknown.
    closed: StartState | None = None
    lacks_start: bool = False  # the log continues in remote storage below its files, and the state there is unknown
    stopped_by: Finding | Refusal | None = None  # the reason for which the replay ended before the log end

    @property
    def examined(self) -> tuple[ExaminedSegment, ...]:
        """Return the segments, ascending, each with the comparison of the snapshot at its end."""
        return tuple(map(ExaminedSegment, self.segments, self.ends))

    @property
    def has_index_faults(self) -> bool:
        """Return whether an index of a segment is wrong."""
        return any(each.index_faults for each in self.segments)


OnBoundary = Callable[[Boundary], SnapshotAt | None]
"""Receives each boundary, by ascending offset. It may return a result to store instead of `Boundary.snapshot`."""
FindFaults = Callable[[Segment, SegmentEnd], tuple[str, ...]]
"""Reads the index files of a segment that was decoded: a sentence for each that is wrong (faults_by_order)."""


def examine(
    filesystem: FileSystem,
    partition: Partition,
    *,
    check_crc: bool = True,
    on_boundary: OnBoundary | None = None,
    begins: Beginning = NOT_LOOKED,
    fold: FoldSegment = fold_segment,
) -> Examination:
    """Replay a partition from its files and judge its snapshots and segments; see `examine_decodes`.

    Args:
        fold: folds a segment, or returns what another thread folded (FoldsAhead).
    """
    decodes = LocalDecodes(filesystem, check_crc, fold)
    read_snapshot = snapshot_reader(filesystem, partition)
    return examine_decodes(
        partition,
        decodes,
        read_snapshot,
        on_boundary=on_boundary,
        begins=begins,
        find_faults=partial(faults_by_order, filesystem),
    )


def examine_decodes(
    partition: Partition,
    decodes: DecodeSource,
    read_snapshot: ReadSnapshot,
    *,
    on_boundary: OnBoundary | None = None,
    begins: Beginning = NOT_LOOKED,
    known: Mapping[int, SnapshotAt] = MappingProxyType({}),
    largest_timestamps: Mapping[int, int] = MappingProxyType({}),
    find_faults: FindFaults | None = None,
) -> Examination:
    """Replay a partition and return its facts, findings and snapshots.

    Args:
        on_boundary: see OnBoundary; a boundary's entries are valid only inside the call.
        begins: state of the log before its first local segment, from remote storage.
        known: earlier results of snapshot offsets up to where the replay begins.
        largest_timestamps: ms by base offset, of segments that may have no decode.
        find_faults: finds the faults of a segment's indexes; without it no index is read.
    """

    def read_runs(segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd]:
        largest = largest_timestamps.get(segment.base_offset) or -1
        return decodes.decode(segment, cuts) or ((), _undecoded(segment, largest))

    replay, boundaries = replay_partition(partition, read_runs, read_snapshot, begins=begins)
    reached = dict(known)
    for boundary in boundaries:
        boundary.gaps = replay.gaps
        remembered = None if on_boundary is None else on_boundary(boundary)
        reached[boundary.offset] = remembered or boundary.snapshot
    snapshots = {offset: each.comparison for offset, each in reached.items()}
    return conclude(replay, snapshots, reached=reached, find_faults=find_faults)


def _undecoded(segment: Segment, largest_timestamp: int) -> SegmentEnd:
    """Return the end of a segment that needed no decode, because the replay starts above it."""
    end = segment.base_offset if segment.next_base_offset is None else segment.next_base_offset
    return SegmentEnd(
        total_bytes=segment.log.size,
        valid_bytes=segment.log.size,
        batch_count=0,
        legacy_count=0,
        last_offset=end - 1,
        first_timestamp=-1,
        max_timestamp=largest_timestamp,
        has_gaps=False,
        digest="",
        crc_checked=False,
        finding=None,
    )


def conclude(
    replay: Replay,
    snapshots: Mapping[int, Comparison],
    *,
    reached: Mapping[int, SnapshotAt] = MappingProxyType({}),
    find_faults: FindFaults | None = None,
) -> Examination:
    """Return the examination of a finished replay.

    Args:
        snapshots: the comparison at each offset that was reached: of the file, or of the snapshot computed for it.
        reached: the results to be stored, of the same offsets.
        find_faults: see `examine_decodes`; not asked about topics that are never tiered.
    """
    partition = replay.partition
    known = _comparisons(replay, snapshots)
    finds = None if never_tiered_reason(partition) else find_faults
    return Examination(
        partition,
        known,
        reached,
        partition_facts(replay),
        tuple(_segment_facts(segment, replay, finds) for segment in partition.segments),
        tuple(_at_end(segment, replay, known) for segment in partition.segments),
        tuple(_findings(replay)),
        replay.closed_state,
        replay.lacks_start,
        replay.damage or replay.refusal,
    )


def _comparisons(replay: Replay, reached: Mapping[int, Comparison]) -> dict[int, Comparison]:
    """Return the comparison of each snapshot file and of each segment's snapshot, by ascending offset."""
    bases = {segment.base_offset for segment in replay.partition.segments}
    known: dict[int, Comparison] = {}
    for offset in sorted({*reached, *replay.partition.snapshots}):
        found = reached.get(offset)
        # A broker writes a snapshot at the log end when it stops. No segment needs it, so do not report it missing.
        if found is not None and (offset in bases or found.compared is not SnapshotVerdict.MISSING):
            known[offset] = found
        elif offset in replay.partition.snapshots:
            known[offset] = unverified(replay, offset)
    return known


def _findings(replay: Replay) -> Iterator[Finding]:
    partition = replay.partition
    # A closed segment of 0 bytes is damage, unless the cleaner removed all its records.
    may_be_empty = bool(never_tiered_reason(partition))
    reported = {(each.finding_kind, each.path) for each in partition.findings}  # the listing finds irregular files
    yield from partition.findings
    for end in replay.ends.values():
        damage = end.finding
        if damage is None or (damage.finding_kind, damage.path) in reported:
            continue
        is_expected = may_be_empty and damage.finding_kind is FindingKind.EMPTY_SEGMENT
        if not is_expected:
            yield damage
    yield from _log_start_behind_its_end(replay)
    if replay.refusal is not None:
        yield Finding(FindingKind.NON_TRANSACTIONAL_IN_TRANSACTION, partition.path, -1, replay.refusal.message)


def _log_start_behind_its_end(replay: Replay) -> Iterator[Finding]:
    """Yield a finding if the log starts behind its end (UnifiedLog, LogLoader.load).

    It does after an older copy of the disk was restored, but not the older checkpoint.
    """
    partition, start = replay.partition, replay.partition.log_start_checkpoint
    if start is None or not partition.segments:
        return
    is_read = replay.damage is None and replay.refusal is None
    if is_read and start > replay.log_end:
        path = f"{partition.path.rpartition('/')[0]}/{LOG_START_OFFSETS}"
        message = f"{partition.name} starts at {start} and ends at {replay.log_end}: a broker deletes it when it starts"
        yield Finding(FindingKind.CORRUPT_CHECKPOINT, path, -1, message)


def unverified(replay: Replay, offset: int) -> Comparison:
    """Return the comparison of the snapshot at `offset`, which the replay did not reach."""
    segments = replay.partition.segments
    if segments and offset <= unloaded_below(replay.partition):
        reason = f"lies below the log, which begins at {segments[0].base_offset}: a broker deletes it when it starts"
    elif segments and offset <= segments[0].base_offset:
        return _of_earlier_log(replay)
    elif offset < replay.started_at:
        reason = f"not compared: the replay began at {replay.started_at}, behind what remote storage holds"
    elif replay.damage is not None:
        reason = f"not comparable: {_trouble(replay.damage)}"
    elif replay.refusal is not None:
        reason = f"not comparable: {replay.refusal.message}"
    else:
        reason = f"lies above the log end offset {replay.log_end}"
    return Comparison(SnapshotVerdict.UNVERIFIED, reason)


def _of_earlier_log(replay: Replay) -> Comparison:
    """Return the comparison of a snapshot whose state comes from before the first local segment."""
    begins = replay.begins
    why = NOT_LOCATED if begins.is_unlocated(replay.partition) else NOT_ASKED
    if begins.is_unasked(replay.partition):
        return Comparison(SnapshotVerdict.NOT_COMPARED, f"not compared: {why}")
    if why is NOT_ASKED:
        why = NOT_TOLD if begins.why else "what it says is in remote storage"
    return Comparison(SnapshotVerdict.UNVERIFIED, f"not comparable: {why}")


def _trouble(finding: Finding) -> str:
    if finding.finding_kind in (FindingKind.PERMISSION_DENIED, FindingKind.DELETED_FILE):
        return f"the log below it cannot be read ({finding.message})"
    return f"the log is damaged below it ({finding.finding_kind})"


def partition_facts(replay: Replay) -> PartitionFacts:
    """Return the facts of the replayed partition, from which the gate judges it."""
    partition = replay.partition
    if partition.high_watermark is None:
        unstable = f"{HIGH_WATERMARKS} does not name this partition, or cannot be read"
    elif replay.unstable_from is not None:
        unstable = f"a transaction is open since offset {replay.unstable_from}"
    else:
        unstable = f"the high watermark is {replay.high_watermark}"
    return PartitionFacts(
        topic_id=partition.topic_id,
        internal=internal_reason(partition.topic),
        compacted=compaction_reason(partition),
        log_start=log_start_of(partition),
        log_start_unknown=why_unknown(partition) if replay.begins.is_unlocated(partition) else "",
        transactions_unknown="" if replay.begins.start is None else replay.begins.start.transactions_unknown,
        log_start_offset=partition.log_start_offset,
        log_end_offset=replay.log_end,
        high_watermark=replay.high_watermark,
        last_stable_offset=replay.last_stable_offset,
        unstable_because=unstable,
    )


def rebuilt_parts(segment: Segment) -> tuple[str, ...]:
    """Return a phrase for each missing index; the upload makes it from the segment."""
    indexes = (("offset index", segment.offset_index), ("time index", segment.time_index))
    return tuple(f"no {name}" for name, file in indexes if file is None)


def has_leader_epoch(epochs: Iterable[tuple[int, int]] | None, next_base_offset: int | None) -> bool:
    """Return whether a leader epoch began below the segment's end, so that the segment has at least one."""
    return any(next_base_offset is None or start < next_base_offset for _, start in epochs or ())


def lost_epochs(partition: Partition, segment: Segment) -> tuple[str, ...]:
    """Return a sentence if leader-epoch-checkpoint lacks epochs of the segment that its batches have."""
    is_lost = segment.base_offset < partition.epochs_lost_below
    return (f"leader epochs: {LEADER_EPOCHS} lacks them",) if is_lost else ()


def _at_end(segment: Segment, replay: Replay, snapshots: Mapping[int, Comparison]) -> Comparison:
    following = segment.next_base_offset
    found = snapshots.get(following) if following is not None else None
    return found or unverified(replay, following or replay.log_end)


def _segment_facts(segment: Segment, replay: Replay, find_faults: FindFaults | None) -> SegmentFacts:
    end = replay.ends.get(segment.base_offset)
    damage_kind, damage = _damage(end, replay)
    return SegmentFacts(
        base_offset=segment.base_offset,
        next_base_offset=segment.next_base_offset,
        size_bytes=segment.log.size,
        modified_ns=segment.log.modified_ns,
        digest="" if end is None else end.digest,
        crc_checked=end is not None and end.crc_checked,
        largest_timestamp=-1 if end is None else end.largest_timestamp(segment.log.modified_ns),
        damage_kind=damage_kind,
        damage=damage,
        has_gaps=end is not None and end.has_gaps,
        missing_parts=_missing_parts(segment, replay),
        rebuilt_parts=rebuilt_parts(segment),
        index_faults=(*lost_epochs(replay.partition, segment), *_index_faults(segment, end, find_faults)),
    )


def _missing_parts(segment: Segment, replay: Replay) -> tuple[str, ...]:
    partition = replay.partition
    if not has_leader_epoch(partition.leader_epochs, segment.next_base_offset):
        return ("leader epochs",)
    if partition.epochs_lost_below and replay.begins.goes_back(partition):
        return ("leader epochs of its remote segments",)
    return ()


def _index_faults(segment: Segment, end: SegmentEnd | None, find_faults: FindFaults | None) -> tuple[str, ...]:
    by_size = faults_by_size(segment)
    if find_faults is None or end is None or not end.digest:
        return by_size
    return (*by_size, *find_faults(segment, end))


def _damage(end: SegmentEnd | None, replay: Replay) -> tuple[FindingKind | None, str]:
    """Return the kind and the text of the damage of a segment file."""
    if end is None:
        return None, ""
    finding, refusal = end.finding, replay.refusal
    if finding is not None:
        where = f" at byte {finding.position}" if finding.position >= 0 else ""
        return finding.finding_kind, f"{finding.finding_kind}{where}: {finding.message}"
    if refusal is not None and refusal.offset <= end.last_offset:
        return FindingKind.NON_TRANSACTIONAL_IN_TRANSACTION, refusal.message
    return None, ""
