"""CRC-32C of a batch's records, from its header alone: no record is read.

    position   0 .. 20   not covered by the stored CRC
    position  21 .. 60   the header that is: attributes to record count
    position  61 ..      records, compressed or not

A batch that a client sends again under another producer id, epoch or sequence has another CRC, and the same records.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tiersnap.snapshot.formats.crc32c import crc32c_behind, crc32c_of_rows
from tiersnap.snapshot.formats.record_batch import HEADER_LENGTH, LOG_OVERHEAD

# What the stored CRC covers of a header, as it lies on disk; names are those of RECORD_BATCH_DTYPE.
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
    """CRC-32C of the records of each batch, as uint32[n].

    Args:
        headers: columns `batch_length`, `crc`, and those of COVERED, of n batches of magic 2.
    """
    names = COVERED.names or ()
    covered = np.empty(len(headers["crc"]), COVERED)
    for name in names:
        covered[name] = headers[name]
    prefix = crc32c_of_rows(covered.view(np.uint8).reshape(-1, COVERED.itemsize))
    length = np.asarray(headers["batch_length"], np.int64) + (LOG_OVERHEAD - HEADER_LENGTH)
    return crc32c_behind(np.asarray(headers["crc"]), prefix, length)
