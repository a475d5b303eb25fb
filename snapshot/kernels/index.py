"""The compiled loop of `indexes.IndexRebuild`."""

from __future__ import annotations

import numba
import numpy as np

INDEX_INTERVAL_BYTES = 4096


@numba.njit(cache=True)
def index(rows: np.ndarray, state: np.ndarray, offset_entries: np.ndarray, time_entries: np.ndarray) -> tuple[int, int]:
    """Entries of one window: counts of those written to `offset_entries` and `time_entries`, each as long as `rows`.

    Args:
        rows: records with position, base_offset, last_offset_delta and max_timestamp.
        state: int64, carried from window to window: position of the last indexed batch, largest timestamp and its
            offset, timestamp of the last time entry.
    """
    last_position, max_timestamp, max_timestamp_offset, last_timestamp = state
    offset_count = 0
    time_count = 0
    for i in range(rows.size):
        row = rows[i]
        last_offset = row.base_offset + row.last_offset_delta
        if row.max_timestamp > max_timestamp:
            max_timestamp = row.max_timestamp
            max_timestamp_offset = last_offset
        if row.position - last_position > INDEX_INTERVAL_BYTES:
            offset_entries[offset_count].offset = last_offset
            offset_entries[offset_count].position = row.position
            offset_count += 1
            if max_timestamp > last_timestamp:
                time_entries[time_count].timestamp = max_timestamp
                time_entries[time_count].offset = max_timestamp_offset
                time_count += 1
                last_timestamp = max_timestamp
            last_position = row.position
    state[:] = last_position, max_timestamp, max_timestamp_offset, last_timestamp
    return offset_count, time_count
