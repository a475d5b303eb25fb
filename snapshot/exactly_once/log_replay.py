"""A replay of a partition's files to the log end, with callbacks for simulations and searches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.examine import Examination, conclude
from tiersnap.snapshot.replay.partition_replay import replay_partition, snapshot_reader
from tiersnap.snapshot.replay.partition_state import Boundary
from tiersnap.snapshot.replay.replay_start import AS_BROKER, Beginning
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment


@dataclass(frozen=True, slots=True, eq=False)
class LogReplay:
    """The result of a replay."""

    examination: Examination
    log_end_offset: int  # exclusive; the offset of the first damage, if the log is damaged
    # Producer state at `log_end_offset`: ENTRY_DTYPE, ascending producer id, with expired producers. None if the log
    # cannot be replayed to its end.
    entries: np.ndarray | None
    lacks_start: bool  # whether the log begins in remote storage and the state at the first local segment is unknown


def replay_log(
    filesystem: FileSystem,
    partition: Partition,
    *,
    check_crc: bool = True,
    begins: Beginning = AS_BROKER,
    cuts: Collection[int] = (),
    on_segment: Callable[[Segment], None] | None = None,
    on_rows: Callable[[np.ndarray], None] | None = None,
    on_run: Callable[[Run], None] | None = None,
    on_boundary: Callable[[Boundary], None] | None = None,
) -> LogReplay:
    """Replay a partition to its log end, by default as a broker does when it opens the log.

    Args:
        begins: producer state at the first segment, as far as it is known.
        cuts: offsets at which a range of batches (Run) begins, in addition to the offsets that the replay needs.
        on_segment: called with each segment before it is read.
        on_rows: called with each array of batches (RECORD_BATCH_DTYPE) in offset order. The array is valid only during
            the call.
        on_run: called with each range of batches in offset order.
        on_boundary: called with the state at each boundary of the replay, ascending. See `replay_partition`.
    """

    def read_runs(segment: Segment, wanted: list[int]) -> tuple[Iterable[Run], SegmentEnd]:
        if on_segment is not None:
            on_segment(segment)
        offsets = sorted({*wanted, *cuts})
        runs, end = fold_segment(filesystem, segment, cuts=offsets, check_crc=check_crc, on_rows=on_rows)
        if on_run is not None:
            for run in runs:
                on_run(run)
        return runs, end

    replay, boundaries = replay_partition(partition, read_runs, snapshot_reader(filesystem, partition), begins=begins)
    compared: dict[int, Comparison] = {}
    entries: np.ndarray | None = None
    for boundary in boundaries:
        compared[boundary.offset] = boundary.found
        if on_boundary is not None:
            on_boundary(boundary)
        entries = boundary.entries if boundary.offset == replay.log_end else None
    if replay.damage is not None or replay.refusal is not None:
        entries = None
    elif entries is None:
        entries = replay.entries_of_no_batches()
    return LogReplay(conclude(replay, compared), replay.log_end, entries, replay.lacks_start)
