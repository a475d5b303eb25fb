"""Rows of the table `partitions`: facts of one partition by kind, and small helpers to make and read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.tables.deltas import to_lists
from tiersnap.snapshot.tables.schemas import PARTITIONS

Row = dict[str, Any]


class FactKind(StrEnum):
    """What a row of `partitions` says; they sort in this order."""

    CARRIED = "CARRIED"  # one a carry: what it was made of, and where the next one may start
    STATE = "STATE"  # a part of the state to start from
    BOUNDARY = "BOUNDARY"  # the state at an offset, beside the file that was found there
    SEGMENT = "SEGMENT"  # what the gate must know of a segment
    FINDING = "FINDING"
    ERROR = "ERROR"


# What `readiness` is a view of.
JUDGED = (FactKind.CARRIED, FactKind.BOUNDARY, FactKind.SEGMENT)


def fact(
    key: Mapping[str, object], kind: FactKind, *, run: int, offset: int = 0, part: int = 0, **values: object
) -> Row:
    """A row of PARTITIONS as a dict; what is not named is null."""
    return {**key, "kind": str(kind), "offset": offset, "part": part, "run": run, **values}


def to_batches(rows: Iterable[Row], *, size: int = 4096) -> Iterator[pa.RecordBatch]:
    """Rows of PARTITIONS, `deltas` as arrays (DELTA_DTYPE), in batches."""
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == size or "deltas" in row:
            yield _batch(waiting)
            waiting = []
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = []
    for field in PARTITIONS:
        if field.name == "deltas":
            has_deltas = any("deltas" in row for row in rows)
            column = to_lists([row["deltas"] for row in rows]) if has_deltas and len(rows) == 1 else None
            columns.append(column if column is not None else _with_deltas(rows, field.type))
        else:
            columns.append(pa.array([row.get(field.name) for row in rows], field.type))
    return pa.RecordBatch.from_arrays(columns, schema=PARTITIONS)


def _with_deltas(rows: list[Row], kind: pa.ListType) -> pa.Array:
    return pa.concat_arrays(
        [to_lists([row["deltas"]]) if "deltas" in row else pa.nulls(1, kind) for row in rows]
    ) if any("deltas" in row for row in rows) else pa.nulls(len(rows), kind)  # fmt: skip
