"""Batch headers as rows of `record_batches`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_FIELDS
from tiersnap.snapshot.tables.schemas import RECORD_BATCHES

IDENTITY = ("log_dir", "topic", "partition", "segment_base_offset")


def to_batch(rows: np.ndarray, identity: Mapping[str, object]) -> pa.RecordBatch:
    """Decoded batches (RECORD_BATCH_DTYPE) under the constant columns of IDENTITY."""
    constants = [pa.repeat(pa.scalar(identity[name], RECORD_BATCHES.field(name).type), rows.size) for name in IDENTITY]
    columns = [pa.array(np.ascontiguousarray(rows[name])) for name, _ in RECORD_BATCH_FIELDS]
    return pa.RecordBatch.from_arrays([*constants, *columns], schema=RECORD_BATCHES)
