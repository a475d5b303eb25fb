"""The joins of jobs.pipeline.surveying in plain Python over rows: the readable reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.reference.fact_rows import offset_of
from tests.reference.fleet_joins import Row, Tables, key_of, newest
from tiersnap.jobs.pipeline.partition_input import HEADER, SURVEY_INPUT, Source
from tiersnap.snapshot.formats.record_batch import CONTROL_MASK
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.replay.segment_runs import fold_segment
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

FACTS = ("REPLAYED", "STATE", "BOUNDARY", "SEGMENT", "GONE")


def headers_of(log_dir: Path, topic: str = ".*") -> list[Row]:
    """Rows of `record_batches` of the topics that match, as one `tiersnap decode` writes them."""
    opened = open_log_dir(str(log_dir))
    found: list[Row] = []
    for partition in selected(opened, str(log_dir), re.compile(topic)):
        key = {"log_dir": str(log_dir), "topic": partition.topic, "partition": partition.partition, "run": 1}
        for segment in partition.segments:
            file = {
                "segment_base_offset": segment.base_offset,
                "topic_id": partition.topic_id,
                "segment_size_bytes": segment.log.size,
                "segment_modified_ns": segment.log.modified_ns,
            }

            def add(rows: Any, of: Row = key | file) -> None:
                names = rows.dtype.names
                found.extend(of | dict(zip(names, row, strict=True)) for row in rows.tolist())

            fold_segment(opened.filesystem, segment, on_rows=add)
    return found


def survey_input(tables: Tables, key: tuple[Any, ...], record_batches: list[Row] | None) -> list[Row]:
    """Rows of SURVEY_INPUT of one partition, in order."""
    facts = [row for row in tables.facts(key) if row["kind"] in FACTS]
    segments = {row["base_offset"]: row for row in facts if row["kind"] == "SEGMENT"}
    decodes = [row for base in sorted(segments) for row in tables.decodes(key, base)]
    rows = [
        *sorted((_row(key, Source.FACTS, offset_of(row), row["part"], fact=row) for row in facts), key=_place),
        *sorted(
            (_row(key, Source.DECODES, row["base_offset"], row["part"], decode=row) for row in decodes), key=_place
        ),
    ]
    if record_batches is not None:
        rows += _headers(key, segments, [row for row in record_batches if key_of(row) == key])
    return rows


def _headers(key: tuple[Any, ...], segments: dict[int, Row], record_batches: list[Row]) -> Iterator[Row]:
    mine = []
    for base, segment in segments.items():
        rows = newest(row for row in record_batches if row["segment_base_offset"] == base)
        of_file = segment["size_bytes"], segment["modified_ns"]
        mine += [row for row in rows if (row["segment_size_bytes"], row["segment_modified_ns"]) == of_file]
    names = [field.name for field in HEADER if field.name != "header_count"]
    if mine:
        count = {"header_count": len(mine), **dict.fromkeys(names)}
        yield _row(key, Source.BATCHES, -1, 0, header=count)
    kept: list[Row] = []
    for producer_id in {row["producer_id"] for row in mine}:
        data = [
            row
            for row in mine
            if row["producer_id"] == producer_id >= 0
            and row["base_sequence"] >= 0
            and not row["attributes"] & CONTROL_MASK
        ]
        kept += sorted(data, key=lambda row: row["base_offset"])[-5:]
    for row in sorted(kept, key=lambda row: row["base_offset"]):
        header = {"header_count": None, **{name: row[name] for name in names}}
        yield _row(key, Source.BATCHES, row["base_offset"], 0, header=header)


def input_batches(rows: list[Row], *, size: int = 5) -> Iterator[pa.RecordBatch]:
    """Rows of SURVEY_INPUT as Spark hands them to a task; small batches, so that parts of one thing lie in several."""
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], schema=SURVEY_INPUT)


def _row(key: tuple[Any, ...], source: Source, offset: int, part: int, **filled: Row) -> Row:
    of_key = dict(zip(PARTITION_KEY, key, strict=True))
    return {**of_key, "source": int(source), "offset": offset, "part": part, **filled}


def _part(row: Row) -> tuple[int, int]:
    return row["base_offset"], row["part"]


def _place(row: Row) -> tuple[int, int]:
    return row["offset"], row["part"]
