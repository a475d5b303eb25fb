"""Batch headers as rows: of `record_batches`, or of a data source without the table's columns of identity."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.tables.schemas import RECORD_BATCHES


def to_batch(rows: np.ndarray, identity: Mapping[str, object], schema: pa.Schema = RECORD_BATCHES) -> pa.RecordBatch:
    """Decoded batches (RECORD_BATCH_DTYPE) in the columns of `schema`; those that no header has are of `identity`."""
    headers = RECORD_BATCH_DTYPE.names or ()
    columns = [
        pa.array(np.ascontiguousarray(rows[field.name]))
        if field.name in headers
        else pa.repeat(pa.scalar(identity[field.name], field.type), rows.size)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
