"""Producer deltas and batch headers as Arrow tables of the warehouse, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from snapshot.producer_state import DELTA_DTYPE
from snapshot.record_batch import RECORD_BATCH_FIELDS
from snapshot.tables import DELTA_FIELDS

DELTA_COLUMNS = [name for name, _ in DELTA_FIELDS]


def writable(schema: pa.Schema) -> pa.Schema:
    """The schema as tasks write it: text columns, constant within a row group, as dictionaries."""
    kind = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(kind) if pa.types.is_string(field.type) else field for field in schema])


def _table(identity: Mapping[str, object], columns: list[pa.Array], length: int, schema: pa.Schema) -> pa.Table:
    arrays: list[pa.Array] = []
    for value, field in zip(identity.values(), schema, strict=False):
        if isinstance(value, str):
            arrays.append(pa.DictionaryArray.from_arrays(np.zeros(length, np.int32), pa.array([value])))
        else:
            arrays.append(pa.repeat(pa.scalar(value, field.type), length))
    return pa.Table.from_arrays([*arrays, *columns], schema=writable(schema))


def deltas_to_table(deltas: np.ndarray, identity: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """Deltas (DELTA_DTYPE) under the constant `identity` columns, which come first in `schema`."""
    columns = [pa.array(np.ascontiguousarray(deltas[name])).cast(kind) for name, kind in DELTA_FIELDS]
    return _table(identity, columns, deltas.size, schema)


def table_to_deltas(table: pa.Table) -> np.ndarray:
    """The inverse of `deltas_to_table`, order kept; other columns are ignored."""
    deltas = np.empty(table.num_rows, DELTA_DTYPE)
    for name in DELTA_COLUMNS:
        deltas[name] = table.column(name).to_numpy()
    return deltas


def batches_to_table(rows: np.ndarray, identity: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """Decoded batches (RECORD_BATCH_DTYPE) under the constant `identity` columns."""
    columns = [pa.array(np.ascontiguousarray(rows[name])) for name, _ in RECORD_BATCH_FIELDS]
    return _table(identity, columns, rows.size, schema)
