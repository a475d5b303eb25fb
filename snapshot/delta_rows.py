"""Producer deltas and batch headers as Arrow tables of the warehouse, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE, RECORD_BATCH_FIELDS
from tiersnap.snapshot.state.producer_state import DELTA_DTYPE
from tiersnap.snapshot.tables import DELTA_FIELDS

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


class BatchColumns:
    """Decoded batches gathered by column, up to `capacity` rows; used again after `take`.

    Rows are split while they are few and still in the processor's cache; a strided copy out of many costs more than
    their decode.
    """

    def __init__(self, capacity: int) -> None:
        self._columns = {name: np.empty(capacity, RECORD_BATCH_DTYPE[name]) for name, _ in RECORD_BATCH_FIELDS}
        self._capacity = capacity
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether no row fits any more."""
        return self._count == self._capacity

    def add(self, rows: np.ndarray) -> int:
        """Copy rows (RECORD_BATCH_DTYPE) from the first on while there is room; returns how many."""
        count = min(rows.size, self._capacity - self._count)
        for name, column in self._columns.items():
            column[self._count : self._count + count] = rows[name][:count]
        self._count += count
        return count

    def take(self, identity: Mapping[str, object], schema: pa.Schema) -> pa.Table:
        """The rows under the constant `identity` columns, valid until the next `add`."""
        columns = [pa.array(column[: self._count]) for column in self._columns.values()]
        table = _table(identity, columns, self._count, schema)
        self._count = 0
        return table
