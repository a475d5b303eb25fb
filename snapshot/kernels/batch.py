"""Compiled walk over the batches of a segment.

The module formats.record_batch describes the layout; log.segment_walk calls the walk. Arguments are NumPy arrays and
records, whose content static types cannot describe. So docstrings give the dtypes.
"""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.formats.record_batch import (
    CODEC_MASK,
    COMMIT,
    CONTROL_MASK,
    CRC_START,
    HEADER_LENGTH,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_CONTROL_TYPE,
    RECORD_BATCH_DTYPE,
    SMALLEST_LEGACY_SIZE,
    SMALLEST_READ,
    SMALLEST_V2_SIZE,
    TIMESTAMP_TYPE_MASK,
)
from tiersnap.snapshot.kernels.crc import add_batch, add_legacy_entry, checksum, legacy_checksum
from tiersnap.snapshot.kernels.fold import DELTA_DTYPE, FoldedBatch, append_batch, find_delta
from tiersnap.snapshot.kernels.memory import read_int16, read_int32, read_int64, read_uint32
from tiersnap.snapshot.kernels.native import kernel, part

# Why the walk over a buffer stopped.
END, PARTIAL, ROWS_FULL, TABLE_FULL, CUT, BAD_SIZE, BAD_MAGIC, BAD_CRC, BAD_OFFSET, BAD_CONTROL, ZEROS = range(11)
# The caller must decompress the control batch at `valid_bytes`, and set the fields of its record in the state.
COMPRESSED_CONTROL = 11
# Type of a control record that cannot be parsed.
MALFORMED = -2

# The state of a walk over one segment. A later call continues with it.
WALK_DTYPE = np.dtype(
    [
        ("valid_bytes", "<i8"),  # byte position in the segment where the last valid entry ends
        ("last_offset", "<i8"),  # of the last valid entry
        ("batch_count", "<i8"),
        ("legacy_count", "<i8"),  # entries of magic 0 and 1
        ("first_timestamp", "<i8"),  # ms, max timestamp of the first batch
        ("max_timestamp", "<i8"),  # ms, largest of all entries; an entry of magic 0 counts as -1
        ("digest", "<u8"),  # of the headers of the valid entries
        ("row_count", "<i8"),  # rows in `out`
        ("producer_count", "<i8"),  # deltas in the table
        ("expected", "<i8"),  # `expected` and `found` of the finding, if the walk stopped at damage
        ("found", "<i8"),
        ("is_missing_records", "u1"),  # a batch has fewer records than offsets
        ("is_missing_batches", "u1"),  # a batch does not begin at the offset after the previous batch
        # The first record of a compressed control batch, and that batch's byte position in the segment (-1: none).
        ("control_position", "<i8"),
        ("control_delta", "<i8"),  # ms
        ("coordinator_epoch", "<i4"),
        ("control_type", "<i2"),
    ],
    align=True,
)
NO_ROWS = np.empty(0, RECORD_BATCH_DTYPE)
NO_SLOTS = np.empty(0, np.int32)
# The CRC does not cover the base offset, so it may be any number. The offset after the last one must fit into int64.
LARGEST_OFFSET = 2**63 - 1
NO_CUT = LARGEST_OFFSET


@part
def varint(b, p, end):
    """Return (value, next position) of a zig-zag varint of at most 10 bytes at `p`.

    The position is -1 if the varint ends after `end` or has more than 10 bytes.
    """
    raw = np.uint64(0)
    shift = np.uint64(0)
    while p < end and shift < 70:
        byte = np.uint64(b[p])
        p += 1
        raw |= (byte & np.uint64(0x7F)) << shift
        if byte < 128:
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), p
        shift += np.uint64(7)
    return np.int64(0), -1


@kernel(np.uint8, int, int, returns=3)
def control_record(b: np.ndarray, p: int, end: int) -> tuple[int, int, int]:
    """Return (type, coordinator epoch, timestamp delta) of a control batch's first record, or type MALFORMED.

    key: version int16, type int16. Value of a transaction marker: version int16, coordinatorEpoch int32.
    """
    bad = (np.int16(MALFORMED), np.int32(-1), np.int64(0))
    length, p = varint(b, p, end)
    if p < 0 or length < 1 or length > end - p:
        return bad
    end = p + length
    delta, p = varint(b, p + 1, end)  # one byte of record attributes first
    if p < 0:
        return bad
    _, p = varint(b, p, end)
    if p < 0:
        return bad
    key, p = varint(b, p, end)
    if p < 0 or key < 4 or key > end - p:
        return bad
    version, kind = read_int16(b, p), read_int16(b, p + 2)
    value, p = varint(b, p + key, end)
    if version < 0 or kind < 0 or p < 0:
        return bad
    if kind > COMMIT:
        return kind, np.int32(-1), delta
    if value < 6 or value > end - p or read_int16(b, p) < 0:
        return bad
    return kind, read_int32(b, p + 2), delta


@kernel(np.uint8, int, int, int, int, WALK_DTYPE, RECORD_BATCH_DTYPE, np.int32, DELTA_DTYPE, returns=2, unlocked=True)
def walk(
    b: np.ndarray,
    start: int,
    position_of_buffer: int,
    stop_at: int,
    check_crc: bool,
    states: np.ndarray,
    out: np.ndarray,
    slots: np.ndarray,
    deltas: np.ndarray,
) -> tuple[int, int]:
    """Decode the batches in `b[start:]` into `out`, and fold them into `deltas`.

    Args:
        b: uint8, read-only; `b[0]` is byte `position_of_buffer` of the segment.
        stop_at: offset; the walk stops with CUT at the first batch at or above it.
        check_crc: whether to verify the CRC of each entry.
        states: array with one WALK_DTYPE, the state of the walk. The walk continues from this state and updates it.
        out: RECORD_BATCH_DTYPE. The state's `row_count` is the index of the first row to write. If `out` is NO_ROWS, no
            rows are written.
        slots, deltas: the hash table of a ProducerFold. The state's `producer_count` is the number of deltas in the
            table. If `slots` is NO_SLOTS, the batches are not folded.

    Returns:
        The next position in `b`, and the reason for the stop.
    """
    size, state = b.size, states[0]
    keep, fold = out.size > 0, slots.size > 0
    rows, producers = state.row_count, state.producer_count
    batches, legacy = state.batch_count, state.legacy_count
    last_offset = state.last_offset
    max_timestamp_of_all = state.max_timestamp
    digest = state.digest
    is_missing_records, is_missing_batches = state.is_missing_records, state.is_missing_batches
    expected = found = np.int64(0)
    p = start
    while True:
        if p + SMALLEST_READ > size:
            reason = END if p == size else PARTIAL
            break
        length = np.int64(read_int32(b, p + 8))
        magic = np.int8(b[p + MAGIC_POSITION])
        if length < SMALLEST_LEGACY_SIZE:
            reason = ZEROS if length == 0 and read_int64(b, p) == 0 else BAD_SIZE
            expected, found = np.int64(SMALLEST_LEGACY_SIZE), length
            break
        if magic < 0 or magic > 2:
            reason, expected, found = BAD_MAGIC, np.int64(2), np.int64(magic)
            break
        if magic == 2 and length < SMALLEST_V2_SIZE:
            reason, expected, found = BAD_SIZE, np.int64(SMALLEST_V2_SIZE), length
            break
        end = p + LOG_OVERHEAD + length
        if end > size:
            reason = PARTIAL
            break
        base_offset = read_int64(b, p)
        if magic < 2:
            if check_crc:
                stored = read_uint32(b, p + 12)
                computed = legacy_checksum(b, p + MAGIC_POSITION, end - p - MAGIC_POSITION)
                if computed != stored:
                    reason, expected, found = BAD_CRC, np.int64(stored), np.int64(computed)
                    break
            if base_offset <= last_offset or base_offset == LARGEST_OFFSET:
                reason, expected, found = BAD_OFFSET, last_offset + 1, base_offset
                break
            if base_offset >= stop_at:
                reason = CUT
                break
            if magic == 1:  # a wrapper has the largest timestamp of its entries
                max_timestamp_of_all = max(max_timestamp_of_all, read_int64(b, p + 18))
            digest = add_legacy_entry(digest, b, p, position_of_buffer + p)
            last_offset = base_offset
            legacy += 1
            p = end
            continue
        if keep and rows == out.size:
            reason = ROWS_FULL
            break
        if fold and producers == deltas.size:
            reason = TABLE_FULL
            break
        crc = read_uint32(b, p + 17)
        if check_crc:
            computed = checksum(b, p + CRC_START, end - p - CRC_START)
            if computed != crc:
                reason, expected, found = BAD_CRC, np.int64(crc), np.int64(computed)
                break
        last_offset_delta = read_int32(b, p + 23)
        if base_offset <= last_offset or last_offset_delta < 0 or base_offset >= LARGEST_OFFSET - last_offset_delta:
            reason, expected, found = BAD_OFFSET, last_offset + 1, base_offset
            break
        attributes = read_int16(b, p + 21)
        base_timestamp, max_timestamp = read_int64(b, p + 27), read_int64(b, p + 35)
        producer_id, producer_epoch = read_int64(b, p + 43), read_int16(b, p + 51)
        base_sequence, record_count = read_int32(b, p + 53), read_int32(b, p + 57)
        control_type, coordinator_epoch, control_timestamp = np.int16(NO_CONTROL_TYPE), np.int32(-1), np.int64(-1)
        if attributes & CONTROL_MASK and record_count != 0:
            if record_count < 0:
                reason, found = BAD_CONTROL, np.int64(record_count)
                break
            if not attributes & CODEC_MASK:
                control_type, coordinator_epoch, delta = control_record(b, p + HEADER_LENGTH, end)
            elif state.control_position == position_of_buffer + p:
                control_type, coordinator_epoch = state.control_type, state.coordinator_epoch
                delta = state.control_delta
            else:
                reason = COMPRESSED_CONTROL
                break
            if control_type == MALFORMED or (control_type > COMMIT and producer_id >= 0):
                reason, expected, found = BAD_CONTROL, np.int64(COMMIT), np.int64(control_type)
                break
            control_timestamp = max_timestamp if attributes & TIMESTAMP_TYPE_MASK else base_timestamp + delta
        if base_offset >= stop_at:
            reason = CUT
            break
        if keep:
            row = out[rows]
            row.position = position_of_buffer + p
            row.base_offset = base_offset
            row.batch_length = length
            row.partition_leader_epoch = read_int32(b, p + 12)
            row.magic = magic
            row.crc = crc
            row.attributes = attributes
            row.last_offset_delta = last_offset_delta
            row.base_timestamp = base_timestamp
            row.max_timestamp = max_timestamp
            row.producer_id = producer_id
            row.producer_epoch = producer_epoch
            row.base_sequence = base_sequence
            row.record_count = record_count
            row.control_type = control_type
            row.coordinator_epoch = coordinator_epoch
            row.control_timestamp = control_timestamp
            rows += 1
        if fold and producer_id >= 0:
            index, producers = find_delta(slots, deltas, producers, producer_id)
            batch = FoldedBatch(
                base_offset,
                attributes,
                last_offset_delta,
                max_timestamp,
                producer_id,
                producer_epoch,
                base_sequence,
                record_count,
                control_type,
                coordinator_epoch,
                control_timestamp,
            )
            append_batch(deltas[index], batch)
        if batches == 0:
            state.first_timestamp = max_timestamp
        # The first batch may begin above the segment's base offset. Gaps after it come only from the log cleaner, which
        # removes batches, and records inside batches.
        elif legacy == 0 and base_offset != last_offset + 1:
            is_missing_batches = 1
        if record_count <= last_offset_delta:
            is_missing_records = 1
        max_timestamp_of_all = max(max_timestamp_of_all, max_timestamp)
        digest = add_batch(digest, b, p, position_of_buffer + p)
        last_offset = base_offset + last_offset_delta
        batches += 1
        p = end
    state.row_count, state.producer_count = rows, producers
    state.batch_count, state.legacy_count = batches, legacy
    state.valid_bytes = position_of_buffer + p
    state.last_offset = last_offset
    state.max_timestamp = max_timestamp_of_all
    state.digest = digest
    state.is_missing_records, state.is_missing_batches = is_missing_records, is_missing_batches
    state.expected, state.found = expected, found
    return p, reason
