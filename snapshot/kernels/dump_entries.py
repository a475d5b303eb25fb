"""Compiled loops of `tiersnap dump`: a walk over all entries (dump.log_entries) and a printer (dump.columns.lines)."""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.kernels.batch import (
    BAD_CONTROL,
    BAD_CRC,
    BAD_MAGIC,
    BAD_OFFSET,
    BAD_SIZE,
    END,
    MALFORMED,
    PARTIAL,
    ROWS_FULL,
    ZEROS,
    control_record,
)
from tiersnap.snapshot.kernels.crc import checksum
from tiersnap.snapshot.kernels.memory import read_int16, read_int32, read_int64, read_uint32
from tiersnap.snapshot.kernels.native import kernel, part

MORE = 101  # stop reason: the window ends inside the entry
# Bytes of an entry that are read if no checksum is verified: the header, and the first record of a control batch.
PEEK = 4096

_HEADER_LENGTHS = (18, 26, rb.HEADER_LENGTH)


# The fields of RECORD_BATCH_DTYPE; the computed checksum if it differs from the stored one, else -1; and the problem, a
# stop reason of batch.walk or 0.
LOG_ENTRY_DTYPE = np.dtype(
    [(name, rb.RECORD_BATCH_DTYPE[name]) for name in rb.RECORD_BATCH_DTYPE.names or ()]
    + [("computed_crc", "<i8"), ("problem", "<i8")],
    align=True,
)


@kernel(np.uint8, int, int, int, int, int, int, LOG_ENTRY_DTYPE, returns=5)
def walk_all(
    b: np.ndarray,
    start: int,
    window_position: int,
    limit: int,
    file_size: int,
    last_offset: int,
    check_crc: bool,
    out: np.ndarray,
) -> tuple[int, int, int, int, int]:
    """Decode entries from `b[start:]` into `out` (LOG_ENTRY_DTYPE), up to the end or an incomplete entry.

    Args:
        b: uint8; `b[0]` is byte `window_position` of the file.
        limit: byte position in the file at which to stop.
        file_size: bytes of the file. If an entry's length is smaller than its header, the walk still reads the whole
            header, even beyond `limit`. It never reads beyond the end of the file.
        last_offset: last offset of the last valid entry before `b[start]`.
        check_crc: whether to verify the CRC-32C of batches of magic 2. If so, `b` must contain the complete entry. The
            caller verifies the CRC-32 of entries of magic 0 and 1.

    Returns:
        Rows written, next position in `b`, last offset, stop reason, and the length field of the last entry if that is
            wrong (else 0).
    """
    p = start
    count = 0
    while True:
        left = limit - (window_position + p)
        if left < rb.SMALLEST_READ:
            return count, p, last_offset, END if left <= 0 else PARTIAL, 0
        if p + rb.SMALLEST_READ > b.size:
            return count, p, last_offset, MORE, 0
        length = int(read_int32(b, p + 8))
        offset = read_int64(b, p)
        if length < rb.SMALLEST_LEGACY_SIZE:
            return count, p, last_offset, ZEROS if length == 0 and offset == 0 else BAD_SIZE, length
        if rb.LOG_OVERHEAD + length > left:
            return count, p, last_offset, PARTIAL, 0
        magic = np.int8(b[p + rb.MAGIC_POSITION])
        header = _HEADER_LENGTHS[0] if magic == 0 else _HEADER_LENGTHS[2] if magic >= 2 else _HEADER_LENGTHS[1]
        if window_position + p + header > file_size:
            return count, p, last_offset, BAD_SIZE, length
        end = p + rb.LOG_OVERHEAD + length
        if max(p + header, end if check_crc else min(end, p + PEEK)) > b.size:
            return count, p, last_offset, MORE, 0
        if count == out.size:
            return count, p, last_offset, ROWS_FULL, 0
        row = out[count]
        row.position = window_position + p
        row.base_offset = offset
        row.batch_length = length
        row.magic = magic
        row.problem = BAD_MAGIC if magic < 0 or magic > 2 else 0
        row.computed_crc = -1
        row.control_type = rb.NO_CONTROL_TYPE
        row.coordinator_epoch = -1
        row.control_timestamp = -1
        if magic >= 2:
            _decode_batch(b, p, min(end, b.size), row)
            if end - p < rb.HEADER_LENGTH:
                row.problem = BAD_SIZE
            elif check_crc:
                crc = checksum(b, p + rb.CRC_START, end - p - rb.CRC_START)
                if crc != row.crc:
                    row.computed_crc = crc
                    if row.problem == 0 or row.problem == BAD_CONTROL:
                        row.problem = BAD_CRC
        else:
            _decode_legacy(b, p, row)
        if offset <= last_offset or row.last_offset_delta < 0:
            if row.problem == 0:
                row.problem = BAD_OFFSET
        elif row.problem == 0:
            last_offset = offset + row.last_offset_delta
        count += 1
        p = end


@part
def _decode_batch(b, p, end, row):
    attributes = read_int16(b, p + 21)
    row.partition_leader_epoch = read_int32(b, p + 12)
    row.crc = read_uint32(b, p + 17)
    row.attributes = attributes
    row.last_offset_delta = read_int32(b, p + 23)
    row.base_timestamp = read_int64(b, p + 27)
    row.max_timestamp = read_int64(b, p + 35)
    producer_id, record_count = read_int64(b, p + 43), read_int32(b, p + 57)
    row.producer_id = producer_id
    row.producer_epoch = read_int16(b, p + 51)
    row.base_sequence = read_int32(b, p + 53)
    row.record_count = record_count
    # The caller decodes compressed control records.
    if not attributes & rb.CONTROL_MASK or record_count <= 0 or attributes & rb.CODEC_MASK:
        return
    kind, coordinator_epoch, delta = control_record(b, p + rb.HEADER_LENGTH, end)
    if kind == MALFORMED or (kind > rb.COMMIT and producer_id >= 0):
        if row.problem == 0:
            row.problem = BAD_CONTROL
        return
    row.control_type = kind
    row.coordinator_epoch = coordinator_epoch
    row.control_timestamp = row.max_timestamp if attributes & rb.TIMESTAMP_TYPE_MASK else row.base_timestamp + delta


@part
def _decode_legacy(b, p, row):
    row.partition_leader_epoch = -1
    row.crc = read_uint32(b, p + 12)
    row.attributes = np.int16(np.int8(b[p + 17]))
    row.last_offset_delta = 0
    row.base_timestamp = -1
    row.max_timestamp = -1 if row.magic == 0 else read_int64(b, p + 18)
    row.producer_id = -1
    row.producer_epoch = -1
    row.base_sequence = -1
    row.record_count = -1


LONGEST_NUMBER = 20


@kernel(int, np.int64, np.int32, np.int64, np.uint8, np.int64, np.uint8, np.int64, np.uint8, np.uint8, returns=1)
def write(
    count: int,
    values: np.ndarray,
    codes: np.ndarray,
    widths: np.ndarray,
    words: np.ndarray,
    word_starts: np.ndarray,
    texts: np.ndarray,
    text_starts: np.ndarray,
    digits: np.ndarray,
    out: np.ndarray,
) -> int:
    """Write lines of text into `out`, and return the number of bytes written.

    Args:
        count: number of lines.
        values: int64; the values of field j are `values[j * count:(j + 1) * count]`.
        codes: int32, laid out like `values`: index of the word to print, or -1 to print the value.
        widths: int64, one for each field; see dump.columns.Field.
        words: uint8, all words concatenated; word i is `words[word_starts[i]:word_starts[i + 1]]`.
        texts: uint8, laid out like `words`; text 0 precedes the first field, text j + 1 follows field j.
        digits: uint8, working memory of LONGEST_NUMBER bytes.
        out: uint8; the caller makes it large enough for all lines.
    """
    fields = widths.size
    at = 0
    for i in range(count):
        for k in range(text_starts[0], text_starts[1]):
            out[at] = texts[k]
            at += 1
        for j in range(fields):
            start = at
            code = codes[j * count + i]
            first = LONGEST_NUMBER
            if code >= 0:
                length = word_starts[code + 1] - word_starts[code]
            else:
                value = values[j * count + i]
                rest = np.uint64(value) if value >= 0 else np.uint64(0) - np.uint64(value)
                while True:
                    quotient = rest // np.uint64(10)
                    first -= 1
                    digits[first] = 48 + rest - quotient * np.uint64(10)
                    rest = quotient
                    if rest == 0:
                        break
                if value < 0:
                    first -= 1
                    digits[first] = 45
                length = LONGEST_NUMBER - first
            for _ in range(widths[j] - length):
                out[at] = 32
                at += 1
            if code >= 0:
                for k in range(word_starts[code], word_starts[code + 1]):
                    out[at] = words[k]
                    at += 1
            else:
                for k in range(first, LONGEST_NUMBER):
                    out[at] = digits[k]
                    at += 1
            for _ in range(at - start, -widths[j]):
                out[at] = 32
                at += 1
            for k in range(text_starts[j + 1], text_starts[j + 2]):
                out[at] = texts[k]
                at += 1
    return at
