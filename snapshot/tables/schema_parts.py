"""The parts that tables share: key columns, the format version, and helpers for Arrow schemas with comments."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tiersnap.snapshot.producer_fold import DELTA_DTYPE

FORMAT_VERSION = 1
VERSION_KEY = "tiersnap.format"  # in the metadata of a table's first column
PART_DELTAS = 2_000
PARTITION_KEY = ("log_dir", "topic", "partition")
SEGMENT_KEY = (*PARTITION_KEY, "base_offset")


def field_of(name: str, kind: pa.DataType, comment: str, *, nullable: bool = False) -> pa.Field[pa.DataType]:
    """Return a column with its comment."""
    return pa.field(name, kind, nullable=nullable, metadata={"comment": comment})


def with_comment(schema: pa.Schema, comment: str) -> pa.Schema:
    """Return the schema of a table with the table's comment."""
    return schema.with_metadata({"comment": comment})


def comment_of(described: pa.Schema | pa.Field[pa.DataType]) -> str:
    """Return the comment of a table or a column; KeyError if it has none."""
    metadata: Mapping[bytes, bytes] = described.metadata or {}
    return metadata[b"comment"].decode()


def schema_of(
    *fields: pa.Field[pa.DataType] | tuple[str, pa.DataType], metadata: dict[bytes | str, bytes | str] | None = None
) -> pa.Schema:
    """Return a schema. A column that is given as (name, type) is nullable."""
    return pa.schema([_as_field(each) for each in fields], metadata=metadata)


def _as_field(each: pa.Field[pa.DataType] | tuple[str, pa.DataType]) -> pa.Field[pa.DataType]:
    if isinstance(each, pa.Field):
        return each
    return pa.field(*each)


def _delta_type(name: str) -> pa.DataType:
    kind = DELTA_DTYPE[name]
    if kind.kind == "i":
        return pa.from_numpy_dtype(kind)
    return pa.int16()  # Delta Lake has no unsigned types


DELTA_FIELDS: tuple[tuple[str, pa.DataType], ...] = tuple((name, _delta_type(name)) for name in DELTA_DTYPE.names or ())
DELTA = pa.struct(DELTA_FIELDS)
