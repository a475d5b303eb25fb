"""Record batch headers of a log segment -> one Arrow table, without a Python step per batch.

A segment file is a sequence of entries. All formats share the first 17 bytes up to the magic:

    off len type    field                  note
      0   8 int64   baseOffset
      8   4 int32   batchLength            bytes after this field; the entry is 12 + batchLength long
     12   4 int32   partitionLeaderEpoch   not covered by the CRC (magic 0 and 1: their CRC is here)
     16   1 int8    magic                  0 and 1: message sets before 0.11, counted and not decoded
     17   4 uint32  crc                    CRC-32C of bytes 21 .. end
     21   2 int16   attributes             0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
     23   4 int32   lastOffsetDelta        last offset = baseOffset + this
     27   8 int64   baseTimestamp          ms
     35   8 int64   maxTimestamp           ms
     43   8 int64   producerId             -1 = none
     51   2 int16   producerEpoch
     53   4 int32   baseSequence           -1 = none
     57   4 int32   recordCount            0 in a batch that compaction emptied
     61   .         records

Big-endian. Follows org.apache.kafka.common.record.DefaultRecordBatch and FileLogInputStream: reading stops quietly
when fewer than 18 bytes remain or an entry is longer than what remains (a partial tail); an entry shorter than its
smallest header, an unknown magic or a wrong CRC is where a broker's recovery would cut the segment, so it is a finding
and the decode ends there.
"""

from __future__ import annotations

import numba
import numpy as np
import pyarrow as pa

from snapshot.crc32c import checksum

HEADER_LENGTH = 61
LOG_OVERHEAD = 12
MAGIC_POSITION = 16
_SMALLEST_READ = 18
_SMALLEST_LEGACY_SIZE = 14
_SMALLEST_V2_SIZE = HEADER_LENGTH - LOG_OVERHEAD
_CRC_START = 21

TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
CODEC_MASK = 0x07

NO_CONTROL_TYPE = -1
ABORT = 0
COMMIT = 1

RECORD_BATCH_FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    ("position", pa.int64()),  # byte position of the batch in its segment file
    ("base_offset", pa.int64()),
    ("batch_length", pa.int32()),
    ("partition_leader_epoch", pa.int32()),
    ("magic", pa.int8()),
    ("crc", pa.int64()),  # unsigned on disk; Spark has no unsigned types
    ("attributes", pa.int16()),
    ("last_offset_delta", pa.int32()),
    ("base_timestamp", pa.int64()),  # ms
    ("max_timestamp", pa.int64()),  # ms
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int16()),
    ("base_sequence", pa.int32()),
    ("record_count", pa.int32()),
    ("control_type", pa.int16()),  # of the first record of a control batch, else -1
    ("coordinator_epoch", pa.int32()),  # of a transaction marker, else -1
    ("control_timestamp", pa.int64()),  # ms, record timestamp of a control record, else -1
)
RECORD_BATCH_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in RECORD_BATCH_FIELDS])
RECORD_BATCH_DTYPE = np.dtype([(name, kind.to_pandas_dtype()) for name, kind in RECORD_BATCH_FIELDS], align=True)

# Why the walk over a buffer stopped.
END, PARTIAL, FULL, BAD_SIZE, BAD_MAGIC, BAD_CRC, BAD_OFFSET, BAD_CONTROL, ZEROS = range(9)


@numba.njit(inline="always")
def _int16(b, p):
    return np.int16((np.uint16(b[p]) << np.uint16(8)) | np.uint16(b[p + 1]))


@numba.njit(inline="always")
def _uint32(b, p):
    return (
        (np.uint32(b[p]) << np.uint32(24))
        | (np.uint32(b[p + 1]) << np.uint32(16))
        | (np.uint32(b[p + 2]) << np.uint32(8))
        | np.uint32(b[p + 3])
    )


@numba.njit(inline="always")
def _int32(b, p):
    return np.int32(_uint32(b, p))


@numba.njit(inline="always")
def _int64(b, p):
    return np.int64((np.uint64(_uint32(b, p)) << np.uint64(32)) | np.uint64(_uint32(b, p + 4)))


@numba.njit(cache=True)
def _varint(b, p, end):
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
def _control_record(b, p, end):
    """First record of a control batch: (type, coordinator epoch, timestamp delta), type -2 when malformed.

    key: version int16, type int16. Value of a transaction marker: version int16, coordinatorEpoch int32.
    """
    bad = (np.int16(-2), np.int32(-1), np.int64(0))
    length, p = _varint(b, p, end)
    if p < 0 or length < 1 or p + length > end:
        return bad
    end = p + length
    delta, p = _varint(b, p + 1, end)  # one byte of record attributes first
    if p < 0:
        return bad
    _, p = _varint(b, p, end)
    if p < 0:
        return bad
    key, p = _varint(b, p, end)
    if p < 0 or key < 4 or p + key > end:
        return bad
    version, kind = _int16(b, p), _int16(b, p + 2)
    value, p = _varint(b, p + key, end)
    if version < 0 or kind < 0 or p < 0:
        return bad
    if kind > COMMIT:
        return kind, np.int32(-1), delta
    if value < 6 or p + value > end or _int16(b, p) < 0:
        return bad
    return kind, _int32(b, p + 2), delta


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
        if p + _SMALLEST_READ > size:
            return rows, p, legacy, last_offset, END if p == size else PARTIAL, 0, 0
        length = np.int64(_int32(b, p + 8))
        if length < _SMALLEST_LEGACY_SIZE:
            offset_and_length_are_zero = length == 0 and _int64(b, p) == 0
            return (
                rows,
                p,
                legacy,
                last_offset,
                ZEROS if offset_and_length_are_zero else BAD_SIZE,
                _SMALLEST_LEGACY_SIZE,
                length,
            )
        magic = np.int8(b[p + MAGIC_POSITION])
        if magic < 0 or magic > 2:
            return rows, p, legacy, last_offset, BAD_MAGIC, 2, np.int64(magic)
        if magic == 2 and length < _SMALLEST_V2_SIZE:
            return rows, p, legacy, last_offset, BAD_SIZE, _SMALLEST_V2_SIZE, length
        end = p + LOG_OVERHEAD + length
        if end > size:
            return rows, p, legacy, last_offset, PARTIAL, 0, 0
        base_offset = _int64(b, p)
        if magic < 2:
            if base_offset <= last_offset:
                return rows, p, legacy, last_offset, BAD_OFFSET, last_offset + 1, base_offset
            last_offset = base_offset
            legacy += 1
            p = end
            continue
        if rows == out.size:
            return rows, p, legacy, last_offset, FULL, 0, 0
        crc = _uint32(b, p + 17)
        if check_crc:
            actual = checksum(b, p + _CRC_START, end - p - _CRC_START)
            if actual != crc:
                return rows, p, legacy, last_offset, BAD_CRC, np.int64(crc), np.int64(actual)
        last_offset_delta = _int32(b, p + 23)
        if base_offset <= last_offset or last_offset_delta < 0:
            return rows, p, legacy, last_offset, BAD_OFFSET, last_offset + 1, base_offset
        row = out[rows]
        attributes = _int16(b, p + 21)
        row.position = position_of_buffer + p
        row.base_offset = base_offset
        row.batch_length = length
        row.partition_leader_epoch = _int32(b, p + 12)
        row.magic = magic
        row.crc = crc
        row.attributes = attributes
        row.last_offset_delta = last_offset_delta
        row.base_timestamp = _int64(b, p + 27)
        row.max_timestamp = _int64(b, p + 35)
        row.producer_id = _int64(b, p + 43)
        row.producer_epoch = _int16(b, p + 51)
        row.base_sequence = _int32(b, p + 53)
        row.record_count = _int32(b, p + 57)
        row.control_type = NO_CONTROL_TYPE
        row.coordinator_epoch = -1
        row.control_timestamp = -1
        if attributes & CONTROL_MASK and row.record_count > 0:
            if attributes & CODEC_MASK:
                return rows, p, legacy, last_offset, BAD_CONTROL, 0, np.int64(attributes & CODEC_MASK)
            kind, coordinator_epoch, delta = _control_record(b, p + HEADER_LENGTH, end)
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


def to_arrow(rows: np.ndarray) -> pa.RecordBatch:
    """Decoded rows (RECORD_BATCH_DTYPE) as one Arrow record batch of RECORD_BATCH_SCHEMA."""
    columns = [pa.array(np.ascontiguousarray(rows[name])) for name, _ in RECORD_BATCH_FIELDS]
    return pa.record_batch(columns, schema=RECORD_BATCH_SCHEMA)
