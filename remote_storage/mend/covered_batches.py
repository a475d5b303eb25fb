"""The batches in a range of offsets, independent of segment boundaries."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import Interval
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.replay.segment_runs import fold_segment


def batches_of(filesystem: FileSystem, segments: Iterable[Segment], within: Interval) -> np.ndarray:
    """Return (base offset, CRC) of the batches that begin in `within`, ascending, up to the first damage.

    The result is an int64 array of shape (n, 2).

    Args:
        segments: ascending. Only closed segments are read.
        within: [start, end).
    """
    found, (start, end) = [np.empty((0, 2), np.int64)], within

    def take(rows: np.ndarray) -> None:
        is_within = (rows["base_offset"] >= start) & (rows["base_offset"] < end)
        found.append(np.stack([rows["base_offset"][is_within], rows["crc"][is_within]], axis=1))

    for each in segments:
        if each.base_offset < end and (each.next_base_offset or 0) > start:
            fold_segment(filesystem, each, on_rows=take)
    return np.concatenate(found)


def are_among(some: np.ndarray, batches: np.ndarray) -> bool:
    """Return whether `batches` contains all of `some`. Both are results of `batches_of`."""
    padded = np.append(batches, [[-1, -1]], axis=0)
    return bool((padded[np.searchsorted(batches[:, 0], some[:, 0])] == some).all())
