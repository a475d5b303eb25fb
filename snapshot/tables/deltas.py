"""Producer deltas as list columns of the tables, in parts of at most PART_DELTAS."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.producer_fold import DELTA_DTYPE
from tiersnap.snapshot.rows import list_ends
from tiersnap.snapshot.tables.schema_parts import DELTA, DELTA_FIELDS, PART_DELTAS

NO_DELTAS = np.empty(0, DELTA_DTYPE)


def parts(deltas: np.ndarray) -> Iterator[np.ndarray]:
    """Yield slices (DELTA_DTYPE) of at most PART_DELTAS. Empty deltas give one empty slice, so every run has a row."""
    for start in range(0, max(deltas.size, 1), PART_DELTAS):
        yield deltas[start : start + PART_DELTAS]


def columns_of(structs: pa.Array[pa.Scalar[pa.DataType]]) -> pa.RecordBatch:
    """Return the fields of a struct column as columns. The column may be a slice."""
    assert isinstance(structs, pa.StructArray)
    # RecordBatch.from_struct_array of pyarrow 19 ignores a slice and returns the fields of the whole array.
    return pa.RecordBatch.from_arrays(structs.flatten(), schema=pa.schema(list(structs.type)))


def to_lists(many: list[np.ndarray]) -> pa.ListArray[pa.ListScalar[pa.StructType]]:
    """Return a list<struct> array with one element for each array of deltas (DELTA_DTYPE)."""
    offsets = np.concatenate([[0], np.cumsum([deltas.size for deltas in many])]).astype(np.int32)
    flat = np.concatenate([NO_DELTAS, *many])
    columns = [pa.array(np.ascontiguousarray(flat[name])).cast(kind) for name, kind in DELTA_FIELDS]
    return pa.ListArray.from_arrays(offsets.tolist(), pa.StructArray.from_arrays(columns, fields=list(DELTA)))


def from_lists(lists: pa.Array[pa.Scalar[pa.DataType]]) -> list[np.ndarray]:
    """Return an array of deltas (DELTA_DTYPE) for each list. The column may be a slice; null gives no deltas."""
    assert isinstance(lists, pa.ListArray)
    ends = list_ends(lists)
    values = lists.values.slice(ends[0], ends[-1] - ends[0])
    assert isinstance(values, pa.StructArray)
    ends = ends - ends[0]
    flat = np.empty(len(values), DELTA_DTYPE)
    for name, _ in DELTA_FIELDS:
        flat[name] = values.field(name).to_numpy(zero_copy_only=False)
    return [
        flat[start:end] if is_valid else NO_DELTAS
        for start, end, is_valid in zip(ends[:-1], ends[1:], lists.is_valid().to_pylist(), strict=True)
    ]
