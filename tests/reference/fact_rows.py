"""Rows of the table `partitions` as dicts, judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tiersnap.jobs.pipeline.partition_input import INPUT, Source
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.snapshot.tables.facts import JUDGED

Row = dict[str, Any]


def offset_of(row: Mapping[str, Any]) -> int:
    """Where a fact stands among those of its replay."""
    return next((row[name] for name in ("snapshot_offset", "base_offset") if row.get(name) is not None), 0)


def judged(task: JudgePartition, facts: Iterable[Mapping[str, Any]], copies: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows of JUDGED of one partition; of its `copies` the newest states."""
    places = [(Source.FACTS, offset_of(row), row["part"], "fact", dict(row)) for row in facts if row["kind"] in JUDGED]
    places += [(Source.COPIES, row["base_offset"], 0, "copy", dict(row)) for row in copies]
    rows = [
        {"source": int(source), "offset": offset, "part": part, column: row}
        for source, offset, part, column, row in sorted(places, key=lambda each: each[:3])
    ]
    batches = task(iter([pa.RecordBatch.from_pylist(rows, schema=INPUT)]))
    return [row for batch in batches for row in batch.to_pylist()]
