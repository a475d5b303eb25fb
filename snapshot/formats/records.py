"""The layout of decompressed records inside a batch of magic 2, and the CRC-32C of the records without the header.

    varint length         bytes after this field
    int8   attributes
    varint timestampDelta ms, to the batch's base timestamp
    varint offsetDelta    to the batch's base offset
    varint key length     -1 = null; the key
    varint value length   -1 = null; the value
    varint header count   the headers, not decoded here

Varints are zig-zag. Follows org.apache.kafka.common.record.DefaultRecord.

The header of a batch determines the CRC-32C of its records, because the stored CRC covers header fields and records:

    position   0 .. 20   not covered by the stored CRC
    position  21 .. 60   covered part of the header: attributes to record count
    position  61 ..      covered records, compressed or not

If a client resends a batch with another producer id, epoch or sequence, the stored CRC differs, but the CRC of the
records is the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tiersnap.snapshot.formats.crc32c import crc32c_behind, crc32c_of_rows
from tiersnap.snapshot.formats.record_batch import HEADER_LENGTH, LOG_OVERHEAD

# A record, with the positions of key and value in the buffer that a kernel walked. A negative length means null.
SPAN_DTYPE = np.dtype(
    [
        ("position", "<i8"),  # byte position of its batch in the segment
        ("offset", "<i8"),
        ("timestamp", "<i8"),  # ms
        ("key_start", "<i8"),
        ("key_length", "<i8"),
        ("value_start", "<i8"),
        ("value_length", "<i8"),
    ]
)


# The header fields that the stored CRC covers, in their layout on disk; names as in RECORD_BATCH_DTYPE.
COVERED = np.dtype(
    [
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)


def records_crc(headers: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the CRC-32C of the records of each batch, as uint32[n].

    Args:
        headers: arrays by name for n batches of magic 2: `batch_length`, `crc` and the fields of COVERED.
    """
    names = COVERED.names or ()
    covered = np.empty(len(headers["crc"]), COVERED)
    for name in names:
        covered[name] = headers[name]
    prefix = crc32c_of_rows(covered.view(np.uint8).reshape(-1, COVERED.itemsize))
    length = np.asarray(headers["batch_length"], np.int64) + (LOG_OVERHEAD - HEADER_LENGTH)
    return crc32c_behind(np.asarray(headers["crc"]), prefix, length)
