"""The input of a partition's replay: rows in one order, read as a stream.

    LISTED    one row: the partition as it was listed
    FACTS     rows of `partitions`: for a replay those that an earlier one left, where it may start from that state
    COPIES    rows of `remote_log_segments`, the newest of each attempt
    WINDOW    of a partition that is replayed from the edge of a scan window: its decodes once more, ahead of them
    DECODES   rows of `segments`, ascending in base offset and part
    BATCHES   of a survey: headers of the newest batches of each producer, ascending in offset

Rows come sorted by INPUT_ORDER, by which Spark sorts them. A replay in another order is another replay, so the order is
checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.replay.segment_runs import Run
from tiersnap.snapshot.tables.deltas import from_lists
from tiersnap.snapshot.tables.facts import flat
from tiersnap.snapshot.tables.listed import LISTED
from tiersnap.snapshot.tables.schemas import (
    PARTITION_KEY,
    PARTITIONS,
    RECORD_BATCH_FIELDS,
    REMOTE_LOG_SEGMENTS,
    SEGMENTS,
    schema_of,
)

INPUT_ORDER = ("source", "offset", "part")


class Source(IntEnum):
    """The origin of a row."""

    LISTED = 0
    FACTS = 1
    COPIES = 2
    WINDOW = 3
    DECODES = 4
    BATCHES = 5


def _struct(schema: pa.Schema) -> pa.StructType:
    return pa.struct([field.with_nullable(True) for field in schema])


INPUT = schema_of(
    *(PARTITIONS.field(name) for name in PARTITION_KEY),
    ("source", pa.int32()),
    ("offset", pa.int64()),
    ("part", pa.int32()),
    ("listed", _struct(LISTED)),
    ("fact", _struct(PARTITIONS)),
    ("copy", _struct(REMOTE_LOG_SEGMENTS)),
    ("decode", _struct(SEGMENTS)),
)


# What a survey needs of a header, and how many headers the tables have of the partition: a row with nothing but that
# count comes first.
HEADER = pa.struct(
    [
        ("header_count", pa.int64()),
        *(
            (name, kind)
            for name, kind in RECORD_BATCH_FIELDS
            if name
            in (
                *("base_offset", "batch_length", "attributes", "last_offset_delta"),
                *("producer_id", "producer_epoch", "base_sequence"),
            )
        ),
    ]
)
SURVEY_INPUT = schema_of(
    *(PARTITIONS.field(name) for name in PARTITION_KEY),
    ("source", pa.int32()),
    ("offset", pa.int64()),
    ("part", pa.int32()),
    ("fact", _struct(PARTITIONS)),
    ("decode", _struct(SEGMENTS)),
    ("header", HEADER),
)


class PartitionInput:
    """The rows of one partition, once, from the first to the last; columns that none of them fills may be left out.

    Attributes:
        listed: the row of LISTED.
        facts: rows of PARTITIONS as `facts.flat` gives them, with `deltas` as arrays (DELTA_DTYPE).
        copies: rows of REMOTE_LOG_SEGMENTS.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Read up to the window or the first decode.

        Raises:
            ValueError: the rows are not in order; so `decode` does when it comes to them.
        """
        self._rows = _rows(batches)
        self._next = next(self._rows, None)
        self.listed: dict[str, Any] | None = None
        self.facts: list[dict[str, Any]] = []
        self.copies: list[dict[str, Any]] = []
        while self._next is not None and self._next[0] < Source.WINDOW:
            source, row = self._next
            if source is Source.LISTED:
                self.listed = row
            else:
                (self.facts if source is Source.FACTS else self.copies).append(row)
            self._next = next(self._rows, None)

    def begin_at(self, offset: int) -> None:
        """Nothing: below where a replay begins there are no deltas among the rows."""

    def window(self) -> Iterator[tuple[int, np.ndarray]]:
        """(base offset, deltas) of the parts of the window's decodes, ascending; once, before the first `decode`."""
        while self._next is not None and self._next[0] is Source.WINDOW:
            yield self._next[1]["base_offset"], self._next[1]["deltas"]
            self._next = next(self._rows, None)

    def decode(self, base_offset: int) -> tuple[dict[str, Any], Iterator[Run]] | None:
        """Return how the decode of a segment ended, and its runs; None if there is none. Ask in ascending order."""
        for _ in self.window():
            pass
        while (row := self._decode_row()) is not None and row["base_offset"] < base_offset:
            self._next = next(self._rows, None)
        return None if row is None or row["base_offset"] != base_offset else (row, self._runs(base_offset))

    def decodes(self) -> Iterator[tuple[dict[str, Any], Iterator[Run]]]:
        """Every decode in ascending order, as `decode` gives it; its runs are to be read before the next one."""
        while (row := self._decode_row()) is not None:
            yield row, self._runs(row["base_offset"])

    def headers(self) -> Iterator[dict[str, Any]]:
        """Rows of HEADER; once, behind the decodes."""
        while self._next is not None:
            yield self._next[1]
            self._next = next(self._rows, None)

    def _decode_row(self) -> dict[str, Any] | None:
        """The next row, if it is one of a decode."""
        return self._next[1] if self._next is not None and self._next[0] is Source.DECODES else None

    def _runs(self, base_offset: int) -> Iterator[Run]:
        while (first := self._decode_row()) is not None and first["base_offset"] == base_offset:
            start, parts = first["run_start_offset"], []
            while (
                (row := self._decode_row()) is not None
                and row["base_offset"] == base_offset
                and row["run_start_offset"] == start
            ):
                parts.append(row["deltas"])
                self._next = next(self._rows, None)
            deltas = parts[0] if len(parts) == 1 else np.concatenate(parts)
            yield Run(start, deltas, first["run_max_timestamp"])


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Source, dict[str, Any]]]:
    last = (-1, -1, -1)
    for batch in batches:
        places = [batch.column(name).to_pylist() for name in ("source", "offset", "part")]
        names = {
            Source.FACTS: "fact",
            Source.COPIES: "copy",
            Source.WINDOW: "decode",
            Source.DECODES: "decode",
            Source.BATCHES: "header",
        }
        rows = {source: _Structs(batch, name) for source, name in names.items()}
        for number, place in enumerate(zip(*places, strict=True)):
            source = Source(place[0])
            if place < last or (place == last and source >= Source.WINDOW):
                raise ValueError(f"row {place} after {last}: Spark did not keep the order of the sort")
            last = place
            if source is Source.LISTED:
                yield source, batch.column("listed")[number].as_py()
            else:
                yield source, rows[source].row(number)


class _Structs:
    """A struct column, its rows as dicts with `deltas` as arrays and a fact's fields flat; converted at first."""

    def __init__(self, batch: pa.RecordBatch, name: str) -> None:
        self._batch, self._name = batch, name
        self._columns: dict[str, list[Any]] | None = None

    def row(self, number: int) -> dict[str, Any]:
        if self._columns is None:
            self._columns = dict(_columns(cast(pa.StructArray, self._batch.column(self._name))))
        found = {name: values[number] for name, values in self._columns.items()}
        return flat(found) if self._name == "fact" else found


def _columns(array: pa.StructArray) -> Iterator[tuple[str, list[Any]]]:
    children: list[Any] = array.flatten()
    for field, child in zip(array.type, children, strict=True):
        if field.name == "deltas":
            yield field.name, from_lists(child)
        elif field.name == "state" and pa.types.is_struct(field.type):
            yield field.name, [{"deltas": deltas} for deltas in from_lists(child.field(0))]
        else:
            yield field.name, child.to_pylist()
