"""Replay one partition, and return the facts about its segments, its findings and the comparisons of its snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.index_faults import faults_by_order, faults_by_size
from tiersnap.snapshot.log.log_dir import HIGH_WATERMARKS, LEADER_EPOCHS, Partition, Segment
from tiersnap.snapshot.log.log_start import log_start_of, unloaded_below, why_unknown
from tiersnap.snapshot.log.log_start_past_end import find_past_end
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
    """The result of the replay of a partition."""

    partition: Partition
    # Comparisons by ascending offset: one per segment end that the replay reached, and one per snapshot file.
    snapshots: Mapping[int, Comparison]
    reached: Mapping[int, SnapshotAt]  # the results to store, by offset, for each offset that the replay reached
    facts: PartitionFacts
    segments: tuple[SegmentFacts, ...]  # ascending
    ends: tuple[Comparison, ...]  # for each segment, the comparison of the snapshot at its end
    findings: tuple[Finding, ...]
    # State at the active segment's base offset, from which the next replay may start; None if it is unknown.
    closed: StartState | None = None
    lacks_start: bool = False  # the log begins in remote storage, and the state at the first local offset is unknown
    stopped_by: Finding | Refusal | None = None  # why the replay stopped below the log end; None if it did not

    @property
    def examined(self) -> tuple[ExaminedSegment, ...]:
        """Return the segments, ascending, each with the comparison of the snapshot at its end."""
        return tuple(map(ExaminedSegment, self.segments, self.ends))

    @property
    def has_index_faults(self) -> bool:
        """Return whether an index of a segment is wrong."""
        return any(each.index_faults for each in self.segments)


OnBoundary = Callable[[Boundary], SnapshotAt | None]
"""Called with each boundary, by ascending offset. Returns a result to store instead of `Boundary.snapshot`, or None."""
FindFaults = Callable[[Segment, SegmentEnd], tuple[str, ...]]
"""Reads the index files of a decoded segment, and returns a message for each wrong one; see faults_by_order."""


def examine(
    filesystem: FileSystem,
    partition: Partition,
    *,
    check_crc: bool = True,
    on_boundary: OnBoundary | None = None,
    begins: Beginning = NOT_LOOKED,
    fold: FoldSegment = fold_segment,
) -> Examination:
    """Replay a partition from its files, and return its facts, findings and snapshots. See `examine_decodes`.

    Args:
        fold: called to fold a segment. A FoldsAhead returns a fold that another thread computed.
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
        decodes: the decoded segments.
        on_boundary: see OnBoundary; a boundary's entries are valid only inside the call.
        begins: producer state at the first local offset, from remote storage.
        known: results of an earlier replay, for the snapshot offsets that this replay skips.
        largest_timestamps: ms by base offset, for segments that are not decoded.
        find_faults: finds the faults of a segment's indexes; None to read no index.
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
    """Return a SegmentEnd for a segment that was not decoded, because the replay starts above it."""
    end = segment.next_base_offset
    if end is None:
        end = segment.base_offset
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
    """Return the examination for a finished replay.

    Args:
        snapshots: comparisons by offset, for each offset that the replay reached. If no usable file exists there, the
            comparison describes the computed snapshot.
        reached: the results to store, for the same offsets as `snapshots`.
        find_faults: see `examine_decodes`; not called for topics that are never tiered.
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
    """Return the comparison at each offset of a snapshot file, and at each base offset that the replay reached.

    The offsets ascend.
    """
    bases = {segment.base_offset for segment in replay.partition.segments}
    known: dict[int, Comparison] = {}
    for offset in sorted({*reached, *replay.partition.snapshots}):
        found = reached.get(offset)
        # A broker writes a snapshot at the log end when it stops. No segment needs this file, so it is never missing.
        if found is not None and (offset in bases or found.compared is not SnapshotVerdict.MISSING):
            known[offset] = found
        elif offset in replay.partition.snapshots:
            known[offset] = unverified(replay, offset)
    return known


def _findings(replay: Replay) -> Iterator[Finding]:
    partition = replay.partition
    # A closed segment of 0 bytes is damage, except in a compacted topic: the cleaner may remove all records.
    may_be_empty = bool(never_tiered_reason(partition))
    # The listing already reported files that are no regular files.
    reported = {(each.finding_kind, each.path) for each in partition.findings}
    yield from partition.findings
    for end in replay.ends.values():
        damage = end.finding
        if damage is None or (damage.finding_kind, damage.path) in reported:
            continue
        is_expected = may_be_empty and damage.finding_kind is FindingKind.EMPTY_SEGMENT
        if not is_expected:
            yield damage
    yield from _past_end(replay)
    if replay.refusal is not None:
        yield Finding(FindingKind.NON_TRANSACTIONAL_IN_TRANSACTION, partition.path, -1, replay.refusal.message)


def _past_end(replay: Replay) -> Iterator[Finding]:
    if replay.damage is not None or replay.refusal is not None:
        return  # the log end is unknown
    if (past := find_past_end(replay.partition, replay.log_end)) is not None:
        yield past


def unverified(replay: Replay, offset: int) -> Comparison:
    """Return the comparison for the snapshot at `offset`, which the replay did not reach."""
    segments = replay.partition.segments
    if segments and offset <= unloaded_below(replay.partition):
        reason = (
            f"the offset is below the log, which begins at {segments[0].base_offset}: a broker deletes the file "
            "when it starts"
        )
    elif segments and offset <= segments[0].base_offset:
        return _of_earlier_log(replay)
    elif offset < replay.started_at:
        reason = f"not compared: the replay began at offset {replay.started_at}, after the tiered segments"
    elif replay.damage is not None:
        reason = f"not comparable: {_trouble(replay.damage)}"
    elif replay.refusal is not None:
        reason = f"not comparable: {replay.refusal.message}"
    else:
        reason = f"the offset is above the log end offset {replay.log_end}"
    return Comparison(SnapshotVerdict.UNVERIFIED, reason)


def _of_earlier_log(replay: Replay) -> Comparison:
    """Return the comparison for a snapshot at or below the first local offset, which no local batch can confirm."""
    begins = replay.begins
    why = NOT_LOCATED if begins.is_unlocated(replay.partition) else NOT_ASKED
    if begins.is_unasked(replay.partition):
        return Comparison(SnapshotVerdict.NOT_COMPARED, f"not compared: {why}")
    if why is NOT_ASKED:
        why = NOT_TOLD if begins.why else "the batches below this offset are in remote storage"
    return Comparison(SnapshotVerdict.UNVERIFIED, f"not comparable: {why}")


def _trouble(finding: Finding) -> str:
    if finding.finding_kind in (FindingKind.PERMISSION_DENIED, FindingKind.DELETED_FILE):
        return f"the log below this offset cannot be read ({finding.message})"
    return f"the log is damaged below this offset ({finding.finding_kind})"


def partition_facts(replay: Replay) -> PartitionFacts:
    """Return the facts about the replayed partition, from which `gate.judge` derives verdicts."""
    partition = replay.partition
    if partition.high_watermark is None:
        unstable = f"{HIGH_WATERMARKS} does not name the partition, or cannot be read"
    elif replay.unstable_from is not None:
        unstable = f"a transaction is open since offset {replay.unstable_from}"
    else:
        unstable = f"the high watermark is {replay.high_watermark}"
    start, log_start_unknown = replay.begins.start, ""
    if replay.begins.is_unlocated(partition):
        log_start_unknown = why_unknown(partition)
    return PartitionFacts(
        topic_id=partition.topic_id,
        internal=internal_reason(partition.topic),
        compacted=compaction_reason(partition),
        log_start=log_start_of(partition),
        log_start_unknown=log_start_unknown,
        transactions_unknown="" if start is None else start.transactions_unknown,
        log_start_offset=partition.log_start_offset,
        log_end_offset=replay.log_end,
        high_watermark=replay.high_watermark,
        last_stable_offset=replay.last_stable_offset,
        unstable_because=unstable,
    )


def rebuilt_parts(segment: Segment) -> tuple[str, ...]:
    """Return a phrase for each missing index. The upload rebuilds these indexes from the segment."""
    indexes = (("offset index", segment.offset_index), ("time index", segment.time_index))
    return tuple(f"no {name}" for name, file in indexes if file is None)


def has_leader_epoch(epochs: Iterable[tuple[int, int]] | None, next_base_offset: int | None) -> bool:
    """Return whether a leader epoch starts below the segment's end. A segment without an epoch cannot be uploaded."""
    return any(next_base_offset is None or start < next_base_offset for _, start in epochs or ())


def lost_epochs(partition: Partition, segment: Segment) -> tuple[str, ...]:
    """Return a message if leader-epoch-checkpoint lost epochs that the segment's batches have."""
    if segment.base_offset >= partition.epochs_lost_below:
        return ()
    return (f"{LEADER_EPOCHS} lacks leader epochs of the segment",)


def _at_end(segment: Segment, replay: Replay, snapshots: Mapping[int, Comparison]) -> Comparison:
    following = segment.next_base_offset
    if following is None:
        return unverified(replay, replay.log_end)
    return snapshots.get(following) or unverified(replay, following)


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
        return ("leader epochs of the partition's remote segments",)
    return ()


def _index_faults(segment: Segment, end: SegmentEnd | None, find_faults: FindFaults | None) -> tuple[str, ...]:
    by_size = faults_by_size(segment)
    if find_faults is None or end is None or not end.digest:
        return by_size
    return (*by_size, *find_faults(segment, end))


def _damage(end: SegmentEnd | None, replay: Replay) -> tuple[FindingKind | None, str]:
    """Return (kind, description) of the damage in a segment file, or (None, "")."""
    if end is None:
        return None, ""
    finding, refusal = end.finding, replay.refusal
    if finding is not None:
        if finding.position < 0:
            return finding.finding_kind, f"{finding.finding_kind}: {finding.message}"
        return finding.finding_kind, f"{finding.finding_kind} at byte {finding.position}: {finding.message}"
    if refusal is not None and refusal.offset <= end.last_offset:
        return FindingKind.NON_TRANSACTIONAL_IN_TRANSACTION, refusal.message
    return None, ""
