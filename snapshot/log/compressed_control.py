"""Control records of compressed control batches: the compiled loops leave them to this module.

Brokers write control batches uncompressed, and read compressed ones all the same: the batch is decompressed, and its
first record says what it is. Follows org.apache.kafka.common.record.DefaultRecordBatch.iterator and
ProducerAppendInfo.append.
"""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.errors import CorruptRecordError
from tiersnap.snapshot.formats.compression import decompress
from tiersnap.snapshot.formats.record_batch import CODEC_MASK, CONTROL_MASK, HEADER_LENGTH
from tiersnap.snapshot.kernels.batch import MALFORMED, control_record

_LARGEST = 1 << 20  # bytes; a control record has less than a hundred
_ATTRIBUTES = 22  # the low byte


def compressed_control_record(batch: np.ndarray) -> tuple[int, int, int]:
    """Return type, coordinator epoch and timestamp delta (ms) of the first record; MALFORMED as type of a wrong one.

    Args:
        batch: uint8, the whole batch from its base offset on.
    """
    try:
        records = decompress(int(batch[_ATTRIBUTES]) & CODEC_MASK, batch[HEADER_LENGTH:].tobytes(), largest=_LARGEST)
    except CorruptRecordError:
        return MALFORMED, -1, 0
    return tuple(map(int, control_record(np.frombuffer(records, np.uint8), 0, len(records))))  # type: ignore[return-value]


def compressed_controls(rows: np.ndarray) -> np.ndarray:
    """Return the indexes of the compressed control batches that have a record.

    Args:
        rows: records with attributes and record_count.
    """
    is_control = (rows["attributes"] & CONTROL_MASK) != 0
    return np.flatnonzero(is_control & ((rows["attributes"] & CODEC_MASK) != 0) & (rows["record_count"] > 0))
