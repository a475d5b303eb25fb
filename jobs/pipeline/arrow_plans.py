"""Arrow steps that the stages' plans share: keys, look-ups, nesting, packing. No Python step a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Cannot occur in a URI, a topic name or a number.
_SEPARATOR = "\x1f"


def key_of(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """The named columns of each row as one text."""
    parts = [rows.column(name).cast(pa.string()).combine_chunks() for name in columns]
    return pc.binary_join_element_wise(*parts, _SEPARATOR)


def positions(keys: pa.Array, among: pa.Array) -> pa.Array:
    """For each key its row in `among` (unique keys), null where it has none."""
    return pc.index_in(keys, value_set=among)


def explode(rows: pa.Table, column: str, keep: Sequence[str]) -> pa.Table:
    """One row an element of a list<struct> column: the `keep` columns of its row, then the struct's fields."""
    lists = rows.column(column).combine_chunks()
    parents = pc.list_parent_indices(lists)
    elements = pc.list_flatten(lists)
    arrays = [rows.column(name).combine_chunks().take(parents) for name in keep]
    fields = [elements.field(index) for index in range(elements.type.num_fields)]
    names = [*keep, *(field.name for field in elements.type)]
    return pa.Table.from_arrays([*arrays, *fields], names=names)


def to_structs(rows: pa.Table, kind: pa.StructType) -> pa.StructArray:
    """Rows as structs of exactly `kind`, fields by name."""
    arrays = [rows.column(field.name).combine_chunks().cast(field.type) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def nest(rows: pa.Table, key: Sequence[str], order: str, kind: pa.StructType) -> tuple[pa.Array, pa.ListArray]:
    """Group rows: the distinct keys (as key_of gives them), and for each its rows as list<kind> in `order`."""
    if rows.num_rows == 0:
        return pa.array([], pa.string()), pa.array([], pa.list_(kind))
    keyed = rows.append_column("__key", key_of(rows, key))
    keyed = keyed.sort_by([("__key", "ascending"), (order, "ascending")])
    runs = pc.run_end_encode(keyed.column("__key").combine_chunks())
    ends = pa.concat_arrays([pa.array([0], pa.int32()), runs.run_ends])
    return runs.values, pa.ListArray.from_arrays(ends, to_structs(keyed, kind))


def pack(items: pa.StructArray, weights: np.ndarray, *, target: int, column: str) -> pa.Table:
    """One row a task: `items` cut, in order, into lists of about `target` weight each."""
    if len(items) == 0:
        return pa.table({column: pa.array([], pa.list_(items.type))})
    before = np.concatenate([[0], np.cumsum(weights)[:-1]])
    task = before // max(target, 1)
    starts = np.flatnonzero(np.concatenate([[True], task[1:] != task[:-1]]))
    offsets = pa.array(np.concatenate([starts, [len(items)]]), pa.int32())
    return pa.table({column: pa.ListArray.from_arrays(offsets, items)})


def spread_target(total: int, *, parallelism: int, least: int, most: int) -> int:
    """Weight a task should get: some tasks for each core so that none waits long, within [least, most]."""
    return int(min(max(total // max(parallelism * 3, 1), least), most))
