"""Rebuild the offset index and the time index of a segment from its batches.

Follows org.apache.kafka.storage.internals.log.LogSegment.recover. The offset index gets an entry for a batch that
starts more than 4096 bytes (`index.interval.bytes`) after the last indexed batch. At the same batch, the time index
gets an entry if the segment's largest timestamp so far exceeds the last entry's timestamp. Under the same condition,
the time index gets a final entry at the end of the segment.

A running broker may have written other entries. This happens if it was restarted while the segment was active, if it
appended several batches in one call (followers, the log cleaner), or if it has another `index.interval.bytes`. Lookups
in the broker's index and in the rebuilt index return the same results.
"""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.formats.indexes import OFFSET_ENTRY_DTYPE, TIME_ENTRY_DTYPE, relative_offsets
from tiersnap.snapshot.kernels import index as kernels
from tiersnap.snapshot.kernels.index import HEADER_DTYPE


class IndexRebuild:
    """A builder of the offset index and the time index of one segment."""

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        # Position of the last indexed batch, largest timestamp and its offset, timestamp of the last time entry.
        self._state = np.array([0, -1, -1, -1], np.int64)
        self._offset_parts: list[np.ndarray] = []
        self._time_parts: list[np.ndarray] = []

    def add(self, rows: np.ndarray) -> None:
        """Add the next decoded batches, in offset order.

        Args:
            rows: any dtype with position, base_offset, last_offset_delta and max_timestamp, such as RECORD_BATCH_DTYPE.
                Entries of magic 0 and 1 are indexed like batches.

        Raises:
            CorruptIndexError: an offset is 2^31 or more above the base offset; a broker would start a new segment at
                this offset.
        """
        if rows.size == 0:
            return
        relative_offsets(rows["base_offset"] + rows["last_offset_delta"], self._base_offset)
        if rows.dtype != HEADER_DTYPE:
            given, rows = rows, np.empty(rows.size, HEADER_DTYPE)
            for name in ("position", "base_offset", "last_offset_delta", "max_timestamp"):
                rows[name] = given[name]
        offset_entries = np.empty(rows.size, OFFSET_ENTRY_DTYPE)
        time_entries = np.empty(rows.size, TIME_ENTRY_DTYPE)
        offset_count, time_count = kernels.index(rows, self._state, offset_entries, time_entries)
        self._offset_parts.append(offset_entries[:offset_count].copy())
        self._time_parts.append(time_entries[:time_count].copy())

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of the offset index (OFFSET_ENTRY_DTYPE) and of the time index (TIME_ENTRY_DTYPE)."""
        _, max_timestamp, max_timestamp_offset, last_entry = self._state.tolist()
        last = np.empty(0, TIME_ENTRY_DTYPE)
        if max_timestamp > last_entry:
            last = np.array([(max_timestamp, max_timestamp_offset)], TIME_ENTRY_DTYPE)
        return (
            np.concatenate([*self._offset_parts, np.empty(0, OFFSET_ENTRY_DTYPE)]),
            np.concatenate([*self._time_parts, last]),
        )
