"""Replay a partition: apply its runs in offset order, and compare each snapshot file with the state at its offset.

A run (segment_runs.Run) contains the producer deltas of consecutive batches. `scan`, `verify` and `repair` compute the
runs when they are needed. The Spark job passes runs that earlier tasks computed. If no older segment changed, the job
also passes the state at which the previous replay of the partition ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.producer_fold import DELTA_DTYPE, to_entries
from tiersnap.snapshot.replay.lost_offsets import LostOffsets, LostOffsetsSearch, gap_between
from tiersnap.snapshot.replay.partition_state import Boundary, Refusal, ReplayState, replay_runs
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning, StartState
from tiersnap.snapshot.replay.segment_runs import Run
from tiersnap.snapshot.replay.snapshot_comparison import ReadSnapshot

# Called with a segment and the ascending offsets at which a new run must begin. The returned runs may be lazy.
ReadRuns = Callable[[Segment, list[int]], tuple[Iterable[Run], SegmentEnd]]


@dataclass
class Replay:
    """The results of a partition's replay. They are complete at the end of the iteration over the boundaries."""

    partition: Partition
    begins: Beginning = NOT_LOOKED  # the state at the first local offset
    # The end of each segment's scan by base offset, up to the first damaged segment.
    ends: dict[int, SegmentEnd] = field(default_factory=dict)
    log_end: int = 0  # exclusive end offset of the batches that could be read
    damage: Finding | None = None  # the damage that stopped the replay, or None
    refusal: Refusal | None = None  # the batch at which a broker's replay would fail, or None
    # First offset of the oldest transaction that is open at the high watermark, or None.
    unstable_from: int | None = None
    is_watched: bool = False  # whether `watch` was called
    closed_state: StartState | None = None  # state at the active segment's base offset, for the start of a later replay
    lacks_start: bool = False  # the log begins in remote storage, and the state at the first local offset is unknown

    @property
    def started_at(self) -> int:
        """Return the offset of the state from which the replay started; 0 if it started without a state."""
        return 0 if self.begins.start is None else self.begins.start.offset

    def watch(self, first_open_offset: int) -> None:
        """Record the first offset of the oldest transaction that is open at the high watermark, or -1."""
        self.is_watched = True
        self.unstable_from = None
        if first_open_offset >= 0:
            self.unstable_from = first_open_offset

    def entries_of_no_batches(self) -> np.ndarray:
        """Return the producer state (ENTRY_DTYPE) at the end of a log without local batches.

        The state has the entries of the snapshot at the first local offset. Without such a snapshot, it is empty.

        A broker has the same state after it loads an idle log whose segments are all in remote storage.
        """
        state = self.closed_state
        if state is None or state.offset != self.log_end:
            return _ascending(np.empty(0, DELTA_DTYPE))
        return _ascending(state.deltas)

    def gaps(self) -> Iterator[LostOffsets]:
        """Yield each gap between two segments that were read, except in the part that the log cleaner has compacted.

        The offsets of a gap need not be lost.
        """
        for segment in self.partition.segments:
            end = self.ends.get(segment.base_offset)
            if end is None:
                return
            if gap := gap_between(self.partition, end.last_offset + 1, segment.next_base_offset):
                yield gap

    @property
    def high_watermark(self) -> int | None:
        """Return the high watermark, bounded to [log start offset, log end offset] as a broker does."""
        if self.partition.high_watermark is None:
            return None
        return min(max(self.partition.high_watermark, self.partition.log_start_offset), self.log_end)

    @property
    def last_stable_offset(self) -> int | None:
        """Return the exclusive last stable offset; None without a high watermark."""
        high_watermark = self.high_watermark
        if high_watermark is None or self.unstable_from is None:
            return high_watermark
        return min(high_watermark, max(self.unstable_from, self.partition.log_start_offset))


def cut_offsets(partition: Partition) -> list[int]:
    """Return the ascending offsets at which a new run must begin: snapshot offsets of files, and the high watermark."""
    wanted = set(partition.snapshots)
    if partition.high_watermark is not None:
        wanted.add(partition.high_watermark)
    return sorted(wanted)


def may_be_stored(partition: Partition, offset: int) -> bool:
    """Return whether a snapshot computed at `offset` may be stored: only up to the high watermark.

    A leader change can truncate and rewrite unreplicated batches. A snapshot above the high watermark would then
    contradict the log forever.
    """
    return partition.high_watermark is not None and offset <= partition.high_watermark


def inside(offsets: list[int], segment: Segment) -> list[int]:
    """Return the offsets, which must ascend, that are in [base offset, next base offset) of the segment."""
    low = bisect_left(offsets, segment.base_offset)
    if segment.next_base_offset is None:
        return offsets[low:]
    return offsets[low : bisect_left(offsets, segment.next_base_offset)]


def replay_partition(
    partition: Partition, read_runs: ReadRuns, read_snapshot: ReadSnapshot, *, begins: Beginning = NOT_LOOKED
) -> tuple[Replay, Iterator[Boundary]]:
    """Return the replay of a partition, and an iterator over its boundaries. The iteration fills the Replay.

    The boundaries are at each base offset except the first, at each snapshot file, and at the log end. Boundaries at or
    below the start of the replay are omitted, with one exception. If the replay starts at the first base offset, and a
    snapshot file exists there, the first base offset is a boundary.
    """
    replay = Replay(partition, begins)
    return replay, _boundaries(replay, _state_at_first(partition, begins), read_runs, read_snapshot)


def _state_at_first(partition: Partition, begins: Beginning) -> ReplayState:
    return ReplayState(
        log_start=partition.first_base_offset,
        cleaned_below=partition.cleaner_offset,
        start=begins.start,
        is_continued=begins.goes_back(partition),
        is_asked=bool(begins.why),
        is_unlocated=begins.is_unlocated(partition),
    )


def entries_at_first(partition: Partition, begins: Beginning) -> np.ndarray:
    """Return the state at the first local offset: ENTRY_DTYPE, ascending producer id; empty if it is unknown."""
    return _ascending(_state_at_first(partition, begins).state(partition.first_base_offset).deltas)


def _ascending(deltas: np.ndarray) -> np.ndarray:
    entries = to_entries(deltas)
    return entries.take(np.argsort(entries["producer_id"]))


def _boundaries(
    replay: Replay, state: ReplayState, read_runs: ReadRuns, read_snapshot: ReadSnapshot
) -> Iterator[Boundary]:
    partition, begins = replay.partition, replay.begins
    if not partition.segments:
        return
    started_at = -1 if begins.start is None else begins.start.offset
    first = partition.segments[0].base_offset
    snapshots, cuts = sorted(partition.snapshots), cut_offsets(partition)
    if begins.as_broker:
        state.begin(read_snapshot=read_snapshot)
    elif started_at == first and first in partition.snapshots:
        yield state.boundary(first, read_snapshot=read_snapshot)
    search = LostOffsetsSearch(partition, read_snapshot)
    lost: LostOffsets | None = None
    for segment in partition.segments:
        runs, end = read_runs(segment, inside(cuts, segment))
        replay.ends[segment.base_offset] = end
        replay.log_end = end.last_offset + 1
        if segment.base_offset < started_at:
            continue
        if lost is not None:
            state.lose(lost)
        if begins.copy is not None and begins.copy.offset == segment.base_offset:
            state.take(begins.copy)
        # A replay that started above lost offsets would not find the gap, so keep no state after one.
        if segment.is_active and not state.lacks_start and state.lost is None:
            replay.closed_state = state.state(segment.base_offset)
        is_intact = end.finding is None or end.finding.finding_kind is FindingKind.EMPTY_SEGMENT
        wanted = {segment.base_offset}
        if is_intact:
            wanted |= _offsets_after_base(segment, snapshots, replay.log_end)
        yield from replay_runs(
            state,
            _watching(runs, replay, state),
            wanted - {first, started_at},
            read_snapshot=read_snapshot,
            log_end=replay.log_end if segment.is_active else segment.base_offset,
        )
        if state.refusal is not None or not is_intact:
            replay.refusal, replay.damage = state.refusal, end.finding
            break
        lost = search.between(replay.log_end, segment.next_base_offset)
        if lost is not None and end.finding is None:
            finding = Finding(FindingKind.OFFSETS_MISSING, segment.log.path, -1, f"{lost}, and {lost.proof}")
            replay.ends[segment.base_offset] = replace(end, finding=finding)
    replay.lacks_start = state.lacks_start
    if replay.high_watermark is not None and not replay.is_watched:
        replay.watch(state.first_open_offset())


def _offsets_after_base(segment: Segment, snapshots: list[int], log_end: int) -> set[int]:
    """Return the offsets of the snapshot files inside a segment, and the log end if the segment is active."""
    found = set(inside(snapshots, segment))
    if segment.is_active:
        found.add(log_end)
    return found


def _watching(runs: Iterable[Run], replay: Replay, state: ReplayState) -> Iterator[Run]:
    """Yield the runs, and call `Replay.watch` when the replay reaches the high watermark."""
    for run in runs:
        if run.start_offset == replay.partition.high_watermark:
            replay.watch(state.first_open_offset())
        yield run


def snapshot_reader(filesystem: FileSystem, partition: Partition) -> ReadSnapshot:
    """Return a function that reads the partition's snapshot files by offset."""

    def read(offset: int) -> bytes | None:
        ref = partition.snapshots.get(offset)
        return None if ref is None else read_bounded(filesystem, ref.path)

    return read
