"""Rows of the table `partitions` as dicts, the fields of their kind beside the key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.tables.facts import JUDGED
from tiersnap.snapshot.tables.schemas import PARTITIONS
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.partition_input import INPUT, Source

Row = dict[str, Any]

_COLUMN_OF = {
    "REPLAYED": "replayed",
    "STATE": "state",
    "BOUNDARY": "boundary",
    "SEGMENT": "segment",
    "FINDING": "problem",
    "ERROR": "problem",
}
_STRUCTS = frozenset(_COLUMN_OF.values())


def flat(row: Mapping[str, Any]) -> Row:
    """A row of PARTITIONS with the fields of its struct beside the key."""
    column = _COLUMN_OF.get(row["kind"])
    found = {name: value for name, value in row.items() if name not in _STRUCTS}
    return found if column is None else found | (row.get(column) or {})


def nested(row: Mapping[str, Any]) -> Row:
    """The inverse of `flat`."""
    found = {name: row[name] for name in PARTITIONS.names if name not in _STRUCTS}
    column = _COLUMN_OF.get(row["kind"])
    if column is None:
        return found
    return found | {column: {field.name: row.get(field.name) for field in PARTITIONS.field(column).type}}


def judged(task: JudgePartition, facts: Iterable[Mapping[str, Any]], copies: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows of JUDGED of one partition; `facts` are flat, and of its `copies` the newest states."""
    places = [(Source.FACTS, row["offset"], row["part"], "fact", nested(row)) for row in facts if row["kind"] in JUDGED]
    places += [(Source.COPIES, row["start_offset"], 0, "copy", dict(row)) for row in copies]
    rows = [
        {"source": int(source), "offset": offset, "part": part, column: row}
        for source, offset, part, column, row in sorted(places, key=lambda each: each[:3])
    ]
    batches = task(iter([pa.RecordBatch.from_pylist(rows, schema=INPUT)]))
    return [row for batch in batches for row in batch.to_pylist()]
