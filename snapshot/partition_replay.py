"""A whole partition on one host: scan, fold, carry and judge, without tables in between.

What `scan`, `verify` and `repair` share. The Spark job does the same with its stages spread over tasks; both go
through `replay.fold_segment`, `carry.carry` and `readiness.judge`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyarrow import fs

from snapshot.carry import Boundary, PartitionState, Refusal, carry
from snapshot.findings import Finding, FindingKind
from snapshot.log_dir import FileRef, Partition, Segment
from snapshot.replay import Run, fold_segment
from snapshot.segment_scan import SegmentEnd
from snapshot.trust import DEFAULT_PRODUCER_EXPIRATION_MS


@dataclass
class Replay:
    """What replaying a partition showed; filled while `boundaries` is iterated.

    Attributes:
        ends: how each segment file ended, by base offset, up to the first damaged one.
        log_end: exclusive end offset of what could be read.
        damage: the finding that stopped the replay, or None.
        unstable_from: first offset of the oldest transaction that is open at the high watermark, or None.
    """

    partition: Partition
    ends: dict[int, SegmentEnd] = field(default_factory=dict)
    log_end: int = 0
    damage: Finding | None = None
    refusal: Refusal | None = None
    unstable_from: int | None = None
    is_watched: bool = False

    def watch(self, first_open_offset: int) -> None:
        """Note the oldest open transaction (-1: none) where the replay stands at the high watermark."""
        self.is_watched = True
        self.unstable_from = first_open_offset if first_open_offset >= 0 else None

    @property
    def high_watermark(self) -> int | None:
        """From the checkpoint, bounded to [log start offset, log end offset] as a broker does when it opens."""
        if self.partition.high_watermark is None:
            return None
        return min(max(self.partition.high_watermark, self.partition.log_start_offset), self.log_end)

    @property
    def last_stable_offset(self) -> int | None:
        """Exclusive; None without a high watermark."""
        high_watermark = self.high_watermark
        if high_watermark is None or self.unstable_from is None:
            return high_watermark
        return min(high_watermark, max(self.unstable_from, self.partition.log_start_offset))


def replay_partition(
    filesystem: fs.FileSystem,
    partition: Partition,
    *,
    every_boundary: bool = True,
    check_crc: bool = True,
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS,
) -> tuple[Replay, Iterator[Boundary]]:
    """Replay a partition lazily: iterate the boundaries, then read the replay.

    Args:
        every_boundary: yield each base offset after the first and the log end, too; otherwise only the offsets of
            existing files.
    """
    replay = Replay(partition)
    return replay, _boundaries(filesystem, replay, every_boundary, check_crc, producer_expiration)


def _boundaries(
    filesystem: fs.FileSystem,
    replay: Replay,
    every_boundary: bool,
    check_crc: bool,
    producer_expiration: int | None,
) -> Iterator[Boundary]:
    partition = replay.partition
    if not partition.segments:
        return
    first = partition.segments[0].base_offset
    replay.log_end = first
    state = PartitionState(
        log_start=first, cleaned_below=partition.cleaner_offset, producer_expiration=producer_expiration
    )
    snapshots = sorted(partition.snapshots)
    cuts = sorted({*snapshots, *(() if partition.high_watermark is None else (partition.high_watermark,))})
    times = written_at(partition)

    def read(offset: int) -> bytes | None:
        ref = partition.snapshots.get(offset)
        return None if ref is None else read_bytes(filesystem, ref)

    for segment in partition.segments:
        runs, end = fold_segment(filesystem, segment, cuts=_inside(cuts, segment), check_crc=check_crc)
        replay.ends[segment.base_offset] = end
        replay.log_end = end.last_offset + 1
        times[segment.base_offset] = end.first_timestamp
        wanted = set(_inside(snapshots, segment))
        if every_boundary:
            wanted |= {segment.base_offset, replay.log_end if segment.is_active else segment.base_offset}
        wanted.discard(first)
        intact = end.finding is None or end.finding.kind is FindingKind.EMPTY_SEGMENT
        yield from carry(
            state,
            _watching(runs, replay, state),
            wanted if intact else wanted & {segment.base_offset},
            read_snapshot=read,
            written_at=times,
            log_end=replay.log_end if segment.is_active else segment.base_offset,
        )
        if state.refusal is not None or not intact:
            replay.refusal, replay.damage = state.refusal, end.finding
            break
    if replay.high_watermark is not None and not replay.is_watched:
        replay.watch(state.first_open_offset())


def _inside(offsets: list[int], segment: Segment) -> list[int]:
    """Those of the ascending offsets that lie in [base offset, next base offset)."""
    low = bisect_left(offsets, segment.base_offset)
    high = len(offsets) if segment.next_base_offset is None else bisect_left(offsets, segment.next_base_offset)
    return offsets[low:high]


def _watching(runs: list[Run], replay: Replay, state: PartitionState) -> Iterator[Run]:
    """The runs; remembers what is open when the replay stands at the high watermark."""
    for run in runs:
        if run.start_offset == replay.partition.high_watermark:
            replay.watch(state.first_open_offset())
        yield run


def written_at(partition: Partition) -> dict[int, int]:
    """Latest write time (ms) of snapshot files that are not aligned: a clean stop writes one at the log end.

    An aligned file is written when its segment is rolled, by the append of the segment's first batch, whose timestamp
    the caller adds; the file's own time would also excuse an empty one that a later clean start wrote.
    """
    bases = {segment.base_offset for segment in partition.segments}
    return {offset: ref.modified_ns // 1_000_000 for offset, ref in partition.snapshots.items() if offset not in bases}


def read_bytes(filesystem: fs.FileSystem, ref: FileRef) -> bytes:
    """The whole of a small file.

    Raises:
        OSError: it is gone or unreadable.
    """
    with filesystem.open_input_stream(ref.path) as file:
        return bytes(file.read())
