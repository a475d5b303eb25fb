"""Compiled loops that rebuild the offset and time index of a segment, and check existing ones."""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.formats.indexes import OFFSET_ENTRY_DTYPE, TIME_ENTRY_DTYPE
from tiersnap.snapshot.formats.record_batch import (
    CODEC_MASK,
    CONTROL_MASK,
    HEADER_LENGTH,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_CONTROL_TYPE,
    SMALLEST_LEGACY_SIZE,
    SMALLEST_READ,
    SMALLEST_V2_SIZE,
)
from tiersnap.snapshot.kernels.batch import control_record
from tiersnap.snapshot.kernels.memory import read_int16, read_int32, read_int64
from tiersnap.snapshot.kernels.native import kernel

# The fields of a log entry, of any magic, that indexes depend on. Entries of magic 0 and 1 have no producer; the
# timestamp of magic 0 is -1.
HEADER_DTYPE = np.dtype(
    [
        ("position", "<i8"),
        ("base_offset", "<i8"),
        ("max_timestamp", "<i8"),
        ("producer_id", "<i8"),
        ("last_offset_delta", "<i4"),
        ("record_count", "<i4"),
        ("attributes", "<i2"),
        ("control_type", "<i2"),
    ],
    align=True,
)

INDEX_INTERVAL_BYTES = 4096
_SMALLEST_MAGIC_1_SIZE = 22

# Why `headers` stopped.
END, PARTIAL, ROWS_FULL, BROKEN = range(4)

# Faults of an index; NO_FAULT if the entries up to now agree with the batches.
NO_FAULT, NO_BATCH_THERE, NO_SUCH_OFFSET, NOT_ITS_BATCH, NOT_LARGEST_TIMESTAMP, TOO_SPARSE = range(6)


@kernel(np.uint8, int, int, HEADER_DTYPE, returns=3)
def headers(b: np.ndarray, start: int, position_of_buffer: int, out: np.ndarray) -> tuple[int, int, int]:
    """Read the headers of entries of any magic. Return (next position in `b`, rows in `out`, stop reason).

    Args:
        b: uint8, read-only; `b[0]` is byte `position_of_buffer` of the segment.
        out: HEADER_DTYPE, filled from row 0 on.
    """
    size, rows, p = b.size, 0, start
    while True:
        if p + SMALLEST_READ > size:
            return p, rows, END if p == size else PARTIAL
        length = np.int64(read_int32(b, p + 8))
        magic = np.int8(b[p + MAGIC_POSITION])
        smallest = SMALLEST_V2_SIZE if magic == 2 else SMALLEST_LEGACY_SIZE
        if length < smallest or magic < 0 or magic > 2:
            return p, rows, BROKEN
        end = p + LOG_OVERHEAD + length
        if end > size:
            return p, rows, PARTIAL
        if rows == out.size:
            return p, rows, ROWS_FULL
        row = out[rows]
        row.position = position_of_buffer + p
        row.base_offset = read_int64(b, p)
        row.control_type = NO_CONTROL_TYPE
        if magic == 2:
            row.last_offset_delta = read_int32(b, p + 23)
            row.max_timestamp = read_int64(b, p + 35)
            row.producer_id = read_int64(b, p + 43)
            row.attributes = read_int16(b, p + 21)
            row.record_count = read_int32(b, p + 57)
            # The caller decodes compressed control records.
            if row.attributes & CONTROL_MASK and row.record_count > 0 and not row.attributes & CODEC_MASK:
                row.control_type = control_record(b, p + HEADER_LENGTH, end)[0]
        else:
            row.last_offset_delta = 0
            has_timestamp = magic == 1 and length >= _SMALLEST_MAGIC_1_SIZE
            row.max_timestamp = read_int64(b, p + 18) if has_timestamp else np.int64(-1)
            row.producer_id = -1
            row.attributes = 0
            row.record_count = 1
        rows += 1
        p = end


@kernel(HEADER_DTYPE, np.int64, OFFSET_ENTRY_DTYPE, TIME_ENTRY_DTYPE, returns=2)
def index(rows: np.ndarray, state: np.ndarray, offset_entries: np.ndarray, time_entries: np.ndarray) -> tuple[int, int]:
    """Write the index entries of one window. Return (number of offset entries, number of time entries).

    Args:
        rows: HEADER_DTYPE; position, base_offset, last_offset_delta and max_timestamp are used.
        state: int64, updated for the next window: position of the last indexed batch, largest timestamp, the offset of
            this timestamp, timestamp of the last time entry.
        offset_entries, time_entries: arrays as long as `rows`. The function fills them from row 0 on.
    """
    last_position, max_timestamp, max_timestamp_offset, last_timestamp = state[0], state[1], state[2], state[3]
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
    state[0], state[1], state[2], state[3] = last_position, max_timestamp, max_timestamp_offset, last_timestamp
    return offset_count, time_count


@kernel(HEADER_DTYPE, OFFSET_ENTRY_DTYPE, int, np.int64, returns=1)
def check_offsets(rows: np.ndarray, entries: np.ndarray, largest_scan: int, state: np.ndarray) -> int:
    """Compare the next window of batches with an offset index; return NO_FAULT or the fault.

    Args:
        rows: HEADER_DTYPE.
        entries: OFFSET_ENTRY_DTYPE, both fields ascending.
        largest_scan: maximum distance in bytes from a batch back to the last indexed batch.
        state: int64, two counts that are updated for the next window: entries whose position was reached, and entries
            whose offset was reached.
    """
    positions, offsets = state[0], state[1]
    count = entries.size
    for i in range(rows.size):
        row = rows[i]
        if positions < count and entries[positions].position <= row.position:
            if entries[positions].position < row.position:
                return NO_BATCH_THERE
            positions += 1
        last_offset = row.base_offset + row.last_offset_delta
        if offsets < count and entries[offsets].offset <= last_offset:
            if entries[offsets].offset < last_offset:
                return NO_SUCH_OFFSET
            if positions <= offsets:
                return NOT_ITS_BATCH
            offsets += 1
        indexed = entries[positions - 1].position if positions else 0
        if row.position - indexed > largest_scan:
            return TOO_SPARSE
    state[0], state[1] = positions, offsets
    return NO_FAULT


@kernel(HEADER_DTYPE, TIME_ENTRY_DTYPE, int, np.int64, returns=1)
def check_times(rows: np.ndarray, entries: np.ndarray, largest_scan: int, state: np.ndarray) -> int:
    """Compare the next window of batches with a time index; return NO_FAULT or the fault.

    Args:
        rows: HEADER_DTYPE.
        entries: TIME_ENTRY_DTYPE, offsets ascending.
        largest_scan: bytes. A batch with a new largest timestamp must have an index entry within this distance after
            it.
        state: int64, updated for the next window: number of entries reached, largest timestamp, position of the first
            batch whose timestamp exceeds the last entry's (-1 if none does).
    """
    met, largest, since = state[0], state[1], state[2]
    count = entries.size
    for i in range(rows.size):
        row = rows[i]
        has_grown = row.max_timestamp > largest
        largest = max(largest, row.max_timestamp)
        while met < count and entries[met].offset <= row.base_offset + row.last_offset_delta:
            if entries[met].offset < row.base_offset:
                return NO_SUCH_OFFSET
            # An entry must name the first batch with its timestamp, because lookups start reading at the entry.
            if entries[met].timestamp != row.max_timestamp or not has_grown:
                return NOT_LARGEST_TIMESTAMP
            met += 1
        said = entries[met - 1].timestamp if met else np.int64(-1)
        if largest <= said:
            since = -1
        elif since < 0:
            since = row.position
        elif row.position - since > largest_scan:
            return TOO_SPARSE
    state[0], state[1], state[2] = met, largest, since
    return NO_FAULT
