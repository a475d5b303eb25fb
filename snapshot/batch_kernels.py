"""Compiled walk over the bytes of a segment; see record_batch for the layout and batch_kernels' only caller.

Arguments are NumPy arrays and records, which have no static types worth writing; docstrings say what they hold.
"""

from __future__ import annotations

import numba
import numpy as np

from snapshot.crc32c import checksum, legacy_checksum
from snapshot.record_batch import (
    CODEC_MASK,
    COMMIT,
    CONTROL_MASK,
    CRC_START,
    HEADER_LENGTH,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_CONTROL_TYPE,
    SMALLEST_LEGACY_SIZE,
    SMALLEST_READ,
    SMALLEST_V2_SIZE,
    TIMESTAMP_TYPE_MASK,
)

# Why the walk over a buffer stopped.
END, PARTIAL, FULL, BAD_SIZE, BAD_MAGIC, BAD_CRC, BAD_OFFSET, BAD_CONTROL, ZEROS = range(9)


@numba.njit(inline="always")
def read_int16(b, p):
    """A big-endian int16 at `p`."""
    return np.int16((np.uint16(b[p]) << np.uint16(8)) | np.uint16(b[p + 1]))


@numba.njit(inline="always")
def read_uint32(b, p):
    """A big-endian uint32 at `p`."""
    return (
        (np.uint32(b[p]) << np.uint32(24))
        | (np.uint32(b[p + 1]) << np.uint32(16))
        | (np.uint32(b[p + 2]) << np.uint32(8))
        | np.uint32(b[p + 3])
    )


@numba.njit(inline="always")
def read_int32(b, p):
    """A big-endian int32 at `p`."""
    return np.int32(read_uint32(b, p))


@numba.njit(inline="always")
def read_int64(b, p):
    """A big-endian int64 at `p`."""
    return np.int64((np.uint64(read_uint32(b, p)) << np.uint64(32)) | np.uint64(read_uint32(b, p + 4)))


@numba.njit(cache=True)
def varint(b, p, end):
    """Zig-zag varint of at most 10 bytes at `p`: (value, next position), position -1 when it runs past `end`."""
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


@numba.njit(cache=True)
def control_record(b, p, end):
    """First record of a control batch: (type, coordinator epoch, timestamp delta), type -2 when malformed.

    key: version int16, type int16. Value of a transaction marker: version int16, coordinatorEpoch int32.
    """
    bad = (np.int16(-2), np.int32(-1), np.int64(0))
    length, p = varint(b, p, end)
    if p < 0 or length < 1 or p + length > end:
        return bad
    end = p + length
    delta, p = varint(b, p + 1, end)  # one byte of record attributes first
    if p < 0:
        return bad
    _, p = varint(b, p, end)
    if p < 0:
        return bad
    key, p = varint(b, p, end)
    if p < 0 or key < 4 or p + key > end:
        return bad
    version, kind = read_int16(b, p), read_int16(b, p + 2)
    value, p = varint(b, p + key, end)
    if version < 0 or kind < 0 or p < 0:
        return bad
    if kind > COMMIT:
        return kind, np.int32(-1), delta
    if value < 6 or p + value > end or read_int16(b, p) < 0:
        return bad
    return kind, read_int32(b, p + 2), delta


@numba.njit(cache=True)
def walk(b, start, position_of_buffer, last_offset, check_crc, out):
    """Decode headers from `b[start:]` into `out` (RECORD_BATCH_DTYPE) until something stops it.

    Args:
        b: uint8, read-only; `b[0]` lies at byte `position_of_buffer` of the segment.
        last_offset: last offset of the entry before, for the check that offsets increase.
    Returns:
        rows written, next position in `b`, legacy entries passed, last offset, stop reason, expected, found.
    """
    size = b.size
    p = start
    rows = 0
    legacy = 0
    while True:
        if p + SMALLEST_READ > size:
            return rows, p, legacy, last_offset, END if p == size else PARTIAL, 0, 0
        length = np.int64(read_int32(b, p + 8))
        if length < SMALLEST_LEGACY_SIZE:
            offset_and_length_are_zero = length == 0 and read_int64(b, p) == 0
            return (
                rows,
                p,
                legacy,
                last_offset,
                ZEROS if offset_and_length_are_zero else BAD_SIZE,
                SMALLEST_LEGACY_SIZE,
                length,
            )
        magic = np.int8(b[p + MAGIC_POSITION])
        if magic < 0 or magic > 2:
            return rows, p, legacy, last_offset, BAD_MAGIC, 2, np.int64(magic)
        if magic == 2 and length < SMALLEST_V2_SIZE:
            return rows, p, legacy, last_offset, BAD_SIZE, SMALLEST_V2_SIZE, length
        end = p + LOG_OVERHEAD + length
        if end > size:
            return rows, p, legacy, last_offset, PARTIAL, 0, 0
        base_offset = read_int64(b, p)
        if magic < 2:
            if check_crc:
                stored = read_uint32(b, p + 12)
                computed = legacy_checksum(b, p + MAGIC_POSITION, end - p - MAGIC_POSITION)
                if computed != stored:
                    return rows, p, legacy, last_offset, BAD_CRC, np.int64(stored), np.int64(computed)
            if base_offset <= last_offset:
                return rows, p, legacy, last_offset, BAD_OFFSET, last_offset + 1, base_offset
            last_offset = base_offset
            legacy += 1
            p = end
            continue
        if rows == out.size:
            return rows, p, legacy, last_offset, FULL, 0, 0
        crc = read_uint32(b, p + 17)
        if check_crc:
            actual = checksum(b, p + CRC_START, end - p - CRC_START)
            if actual != crc:
                return rows, p, legacy, last_offset, BAD_CRC, np.int64(crc), np.int64(actual)
        last_offset_delta = read_int32(b, p + 23)
        if base_offset <= last_offset or last_offset_delta < 0:
            return rows, p, legacy, last_offset, BAD_OFFSET, last_offset + 1, base_offset
        row = out[rows]
        attributes = read_int16(b, p + 21)
        row.position = position_of_buffer + p
        row.base_offset = base_offset
        row.batch_length = length
        row.partition_leader_epoch = read_int32(b, p + 12)
        row.magic = magic
        row.crc = crc
        row.attributes = attributes
        row.last_offset_delta = last_offset_delta
        row.base_timestamp = read_int64(b, p + 27)
        row.max_timestamp = read_int64(b, p + 35)
        row.producer_id = read_int64(b, p + 43)
        row.producer_epoch = read_int16(b, p + 51)
        row.base_sequence = read_int32(b, p + 53)
        row.record_count = read_int32(b, p + 57)
        row.control_type = NO_CONTROL_TYPE
        row.coordinator_epoch = -1
        row.control_timestamp = -1
        if attributes & CONTROL_MASK and row.record_count > 0:
            if attributes & CODEC_MASK:
                return rows, p, legacy, last_offset, BAD_CONTROL, 0, np.int64(attributes & CODEC_MASK)
            kind, coordinator_epoch, delta = control_record(b, p + HEADER_LENGTH, end)
            if kind == -2 or (kind > COMMIT and row.producer_id >= 0):
                return rows, p, legacy, last_offset, BAD_CONTROL, COMMIT, np.int64(kind)
            row.control_type = kind
            row.coordinator_epoch = coordinator_epoch
            row.control_timestamp = (
                row.max_timestamp if attributes & TIMESTAMP_TYPE_MASK else row.base_timestamp + delta
            )
        last_offset = base_offset + last_offset_delta
        rows += 1
        p = end


@numba.njit(cache=True)
def totals(rows, last_offset):
    """Of decoded rows after `last_offset`: largest timestamp (ms), whether records are missing, whether batches are."""
    greatest = np.int64(-1)
    missing_records = False
    missing_batches = False
    for i in range(rows.size):
        row = rows[i]
        greatest = max(greatest, row.max_timestamp)
        missing_records |= row.record_count <= row.last_offset_delta
        missing_batches |= row.base_offset != last_offset + 1
        last_offset = row.base_offset + row.last_offset_delta
    return greatest, missing_records, missing_batches
