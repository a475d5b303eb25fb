"""One segment -> runs of producer deltas, cut wherever somebody will ask for the state.

A cut inside a segment is an offset at which a state is wanted although no segment begins there: the high watermark
(transactions open there hold the last stable offset) and the offsets of unaligned snapshots that are to be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from pyarrow import fs

from snapshot.log_dir import Segment
from snapshot.producer_state import ProducerFold
from snapshot.segment_scan import SegmentEnd, SegmentScan


@dataclass(frozen=True, slots=True)
class Run:
    """The deltas (DELTA_DTYPE) of the batches of one segment from `start_offset` up to the next run's."""

    start_offset: int
    deltas: np.ndarray


def fold_segment(
    filesystem: fs.FileSystem,
    segment: Segment,
    *,
    cuts: Sequence[int] = (),
    check_crc: bool = True,
    on_rows: Callable[[np.ndarray], None] | None = None,
) -> tuple[list[Run], SegmentEnd]:
    """Scan and fold one segment.

    Args:
        cuts: ascending offsets; those inside the segment start a new run.
        on_rows: also receives each array of decoded rows, valid during the call.
    Returns:
        At least one run (the first starts at the base offset), and how the file ended.
    """
    scan = SegmentScan(
        filesystem,
        segment.log.path,
        base_offset=segment.base_offset,
        next_base_offset=segment.next_base_offset,
        check_crc=check_crc,
    )
    limit = segment.next_base_offset
    pending = [cut for cut in cuts if cut > segment.base_offset and (limit is None or cut < limit)]
    runs: list[Run] = []
    start, producers = segment.base_offset, ProducerFold()
    for rows in scan:
        if on_rows is not None:
            on_rows(rows)
        while pending and rows.size and rows["base_offset"][-1] >= pending[0]:
            below = int(np.searchsorted(rows["base_offset"], pending[0]))
            producers.add_batches(rows[:below])
            runs.append(Run(start, producers.deltas()))
            start, producers = pending.pop(0), ProducerFold()
            rows = rows[below:]
        producers.add_batches(rows)
    runs.append(Run(start, producers.deltas()))
    log_end = scan.end.last_offset + 1 if limit is None else limit
    runs.extend(Run(cut, ProducerFold().deltas()) for cut in pending if cut <= log_end)
    return runs, scan.end
