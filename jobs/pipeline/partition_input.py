"""The input of a partition's replay: rows in one order, read as a stream.

    LISTED    one row: the partition as it was listed
    FACTS     rows of `partitions` that hold; of a replay that may not start from their state, without that state
    COPIES    rows of `remote_log_segments`, the newest of each attempt; to judge within a scan window also refusals
    WINDOW    of a partition that is replayed from the edge of a scan window: its decodes once more, ahead of them
    DECODES   rows of `segments`, ascending in base offset and part
    BATCHES   of a survey: headers of the newest batches of each producer, ascending in offset

Rows come sorted by INPUT_ORDER, by which Spark sorts them. A replay in another order is another replay, so the order is
checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.snapshot.replay.segment_runs import Run, WindowDecode
from tiersnap.snapshot.tables.decodes import SEGMENTS, StoredDecode, read_decodes
from tiersnap.snapshot.tables.deltas import columns_of
from tiersnap.snapshot.tables.facts import PARTITIONS, StoredResults, read_facts
from tiersnap.snapshot.tables.listed import LISTED, LISTED_ROWS
from tiersnap.snapshot.tables.remote_log_segments import REMOTE_LOG_SEGMENTS, read_refusals, read_states
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY, RECORD_BATCH_FIELDS, schema_of

INPUT_ORDER = ("source", "offset", "part")


class Source(IntEnum):
    """The origin of a row."""

    LISTED = 0
    FACTS = 1
    COPIES = 2
    WINDOW = 3
    DECODES = 4
    BATCHES = 5


_KEY = (("log_dir", pa.string()), ("topic", pa.string()), ("partition", pa.int32()))
_ORDER = (("source", pa.int32()), ("offset", pa.int64()), ("part", pa.int32()))


_TYPES = {"source": "int", "offset": "long", "part": "int"}


def _struct(schema: pa.Schema) -> pa.StructType:
    return pa.struct([field.with_nullable(True) for field in schema])


INPUT = schema_of(
    *_KEY,
    *_ORDER,
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
    *_KEY,
    *_ORDER,
    ("fact", _struct(PARTITIONS)),
    ("decode", _struct(SEGMENTS)),
    ("header", HEADER),
)


class PartitionInput:
    """The rows of one partition, read once, in order. A column that no row fills may be absent.

    Attributes:
        listed, results: None if no row has them.
        facts: the facts of `results`.
        copies: finished copies, and copies under way.
        refusals: uploads that refused a segment whose snapshot lacks a transaction.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Read up to the window or the first decode.

        Raises:
            ValueError: the rows are not in order; so `decode` does when it comes to them.
        """
        self._slices = _slices(batches)
        self._slice = next(self._slices, None)
        self._part: tuple[StoredDecode, Run] | None = None
        self._decodes = self._parts(Source.DECODES)
        self.listed = next(iter(list(LISTED_ROWS.read(self._of(Source.LISTED)))), None)
        facts = [fact for rows in self._of(Source.FACTS) for fact in read_facts(rows)]
        self.facts = [fact for fact, _ in facts]
        self.results = StoredResults.of(facts) if facts else None
        copies = list(self._of(Source.COPIES))
        self.copies = [state.attempt for rows in copies for state in read_states(rows) if state.is_there]
        self.refusals = [refusal for rows in copies for refusal in read_refusals(rows)]

    def _of(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a source, if they come next."""
        while self._slice is not None and self._slice[0] is source:
            yield self._slice[1]
            self._slice = next(self._slices, None)

    def _parts(self, source: Source) -> Iterator[tuple[StoredDecode, Run]]:
        return (part for rows in self._of(source) for part in read_decodes(rows))

    def window(self) -> Iterator[WindowDecode]:
        """Yield the parts of the window's decodes, ascending; once, before the first `decode`."""
        for decode, run in self._parts(Source.WINDOW):
            yield WindowDecode(decode.file.base_offset, decode.end.last_offset + 1, run.deltas)

    def decode(self, base_offset: int) -> tuple[StoredDecode, Iterator[Run]] | None:
        """Return how the decode of a segment ended, and its runs; None if there is none. Ask in ascending order."""
        for _ in self.window():
            pass
        while (part := self._next()) is not None and part[0].file.base_offset < base_offset:
            self._part = None
        return None if part is None or part[0].file.base_offset != base_offset else (part[0], self._runs(base_offset))

    def decodes(self) -> Iterator[tuple[StoredDecode, Iterator[Run]]]:
        """Every decode in ascending order, as `decode` gives it; its runs are to be read before the next one."""
        while (part := self._next()) is not None:
            yield part[0], self._runs(part[0].file.base_offset)

    def headers(self) -> Iterator[pa.RecordBatch]:
        """Rows with the columns of HEADER; once, behind the decodes."""
        return self._of(Source.BATCHES)

    def _next(self) -> tuple[StoredDecode, Run] | None:
        """Return the next part of a decode without taking it; `_part = None` takes it."""
        if self._part is None:
            self._part = next(self._decodes, None)
        return self._part

    def _runs(self, base_offset: int) -> Iterator[Run]:
        while (first := self._next()) is not None and first[0].file.base_offset == base_offset:
            start, parts = first[1].start_offset, []
            while (part := self._next()) is not None and (part[0].file.base_offset, part[1].start_offset) == (
                base_offset,
                start,
            ):
                parts.append(part[1].deltas)
                self._part = None
            yield Run(start, parts[0] if len(parts) == 1 else np.concatenate(parts), first[1].max_timestamp)


_STRUCTS = {
    Source.LISTED: "listed",
    Source.FACTS: "fact",
    Source.COPIES: "copy",
    Source.WINDOW: "decode",
    Source.DECODES: "decode",
    Source.BATCHES: "header",
}


def _slices(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Source, pa.RecordBatch]]:
    """Yield neighbouring rows of one source, with the columns of its struct."""
    last = (-1, -1, -1)
    for batch in batches:
        sources, offsets, parts = (batch.column(name).to_numpy().tolist() for name in INPUT_ORDER)
        places = list(zip(sources, offsets, parts, strict=True))
        for before, place in pairwise([last, *places]):
            if place < before or (place == before and place[0] >= Source.WINDOW):
                raise ValueError(f"row {place} after {before}: Spark did not keep the order of the sort")
        last, start = [last, *places][-1], 0
        for number, group in groupby(sources):
            source, count = Source(number), sum(1 for _ in group)
            yield source, columns_of(batch.column(_STRUCTS[source]).slice(start, count))
            start += count


def input_rows(
    rows: DataFrame, source: Source, names: Sequence[str], *, offset: Column | None = None, part: Column | None = None
) -> DataFrame:
    """Rows of INPUT with the struct of their source, of the columns that are named; 0 for an offset or part of None."""
    places = {"source": F.lit(int(source)), "offset": offset, "part": part}
    place = ((name, F.lit(0) if column is None else column) for name, column in places.items())
    typed = (column.cast(_TYPES[name]).alias(name) for name, column in place)
    return rows.select(*PARTITION_KEY, *typed, F.struct(*names).alias(_STRUCTS[source]))


def fact_rows(facts: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows of `partitions` as rows of INPUT, each at its place among those of its replay."""
    offset = F.coalesce("snapshot_offset", "base_offset", F.lit(0))
    return input_rows(facts, Source.FACTS, names, offset=offset, part=F.col("part"))


def decode_rows(decodes: DataFrame, source: Source = Source.DECODES) -> DataFrame:
    """Rows of `segments` as rows of INPUT."""
    return input_rows(decodes, source, SEGMENTS.names, offset=F.col("base_offset"), part=F.col("part"))


def united(rows: Sequence[DataFrame]) -> DataFrame:
    """Return the rows as rows of INPUT, without the columns that none of them has."""
    first, *others = rows
    for each in others:
        first = first.unionByName(each, allowMissingColumns=True)
    return first
