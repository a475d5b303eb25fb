"""Compiled walk over the records inside batches. The module formats.records describes the layout."""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.formats.records import SPAN_DTYPE
from tiersnap.snapshot.kernels.batch import varint
from tiersnap.snapshot.kernels.native import kernel

SMALLEST_RECORD = 7  # one byte each for length, attributes, two deltas, no key, no value, no headers
_COMPRESSED_OR_CONTROL = rb.CODEC_MASK | rb.CONTROL_MASK


@kernel(np.uint8, int, int, rb.RECORD_BATCH_DTYPE, int, int, SPAN_DTYPE, returns=1)
def records_of_batch(
    b: np.ndarray, p: int, end: int, batches: np.ndarray, index: int, count: int, out: np.ndarray
) -> int:
    """Write the records of `batches[index]` to `out` (SPAN_DTYPE), from row `count` on.

    Args:
        b: uint8; `b[p:end]` contains the decompressed records.

    Returns:
        `count` plus the number of records; -1 if the bytes are not exactly the records of the batch.
    """
    batch = batches[index]
    left = batch.record_count
    if left < 0 or left > (end - p) // SMALLEST_RECORD:
        return -1
    is_append_time = (batch.attributes & rb.TIMESTAMP_TYPE_MASK) != 0
    while left > 0:
        length, p = varint(b, p, end)
        if p < 0 or length < 1 or length > end - p:
            return -1
        last = p + length
        timestamp_delta, p = varint(b, p + 1, last)
        if p < 0:
            return -1
        offset_delta, p = varint(b, p, last)
        if p < 0:
            return -1
        key_length, p = varint(b, p, last)
        if p < 0 or key_length > last - p:
            return -1
        key_start = p
        value_length, p = varint(b, p + max(key_length, 0), last)
        if p < 0 or value_length > last - p:
            return -1
        span = out[count]
        span.position = batch.position
        span.offset = batch.base_offset + offset_delta
        span.timestamp = batch.max_timestamp if is_append_time else batch.base_timestamp + timestamp_delta
        span.key_start, span.key_length = key_start, key_length
        span.value_start, span.value_length = p, value_length
        p = last
        count += 1
        left -= 1
    return count if p == end else -1


@kernel(np.uint8, int, rb.RECORD_BATCH_DTYPE, SPAN_DTYPE, np.uint8, returns=1)
def records_of_batches(
    b: np.ndarray, window_position: int, batches: np.ndarray, out: np.ndarray, is_wrong: np.ndarray
) -> int:
    """Write to `out` (SPAN_DTYPE) the records of all batches that are neither compressed nor control batches.

    Args:
        b: uint8; `b[0]` is byte `window_position` of the segment.
        batches: RECORD_BATCH_DTYPE; `b` contains each of them completely.
        is_wrong: uint8, one for each batch; set to 1 if the batch has invalid records. `out` omits such a batch.

    Returns:
        The number of records.
    """
    count = 0
    for index in range(batches.size):
        batch = batches[index]
        if batch.attributes & _COMPRESSED_OR_CONTROL:
            continue
        start = batch.position - window_position
        end = start + rb.LOG_OVERHEAD + batch.batch_length
        found = records_of_batch(b, start + rb.HEADER_LENGTH, end, batches, index, count, out)
        is_wrong[index] = found < 0
        count = max(count, found)
    return count


def most_records(batches: np.ndarray) -> int:
    """Return an upper bound for the number of records in uncompressed batches.

    The bound also holds if a header has a wrong record count.
    """
    fitting = batches["batch_length"].astype(np.int64) // SMALLEST_RECORD
    return int(np.clip(batches["record_count"], 0, fitting).sum())
