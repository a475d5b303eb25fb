"""The input of a partition's replay: a stream of rows from several tables, sorted by INPUT_ORDER.

    LISTED    one row: the listed partition
    FACTS     current rows of the table `partitions`; without the stored state if the replay may not start from it
    COPIES    the newest row of each copy attempt in `remote_log_segments`; if a scan has a window, also refused uploads
    WINDOW    only for a replay that starts inside the log: the rows of DECODES, a second time
    DECODES   rows of the table `segments`, ascending in base offset and part
    BATCHES   only for a survey: headers of the newest batches of each producer, ascending in offset

If the rows came in another order, the replay would compute a wrong state. Spark does not guarantee the order, so
PartitionInput checks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain, groupby, pairwise

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
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, schema_of
from tiersnap.snapshot.tables.spark_made_tables import RECORD_BATCH_FIELDS

INPUT_ORDER = ("source", "offset", "part")


class Source(IntEnum):
    """The kind of an input row; the value is its rank in INPUT_ORDER."""

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


_SURVEYED = {
    *("base_offset", "batch_length", "attributes", "last_offset_delta"),
    *("producer_id", "producer_epoch", "base_sequence"),
}
# The header fields that a survey needs. In the first row of a partition only `header_count` has a value: the number of
# the partition's headers in the tables.
HEADER = pa.struct(
    [("header_count", pa.int64()), *(field for field in RECORD_BATCH_FIELDS if field[0] in _SURVEYED)],
)
SURVEY_INPUT = schema_of(
    *_KEY,
    *_ORDER,
    ("fact", _struct(PARTITIONS)),
    ("decode", _struct(SEGMENTS)),
    ("header", HEADER),
)


class PartitionInput:
    """The rows of one partition. They can be read once, in order. A column may be absent if all its values are null.

    Attributes:
        listed: the listed partition; None if no row has the source LISTED.
        results: the results of the last replay; None if no row has the source FACTS.
        facts: the rows of the source FACTS, from which `results` is made.
        copies: complete remote segments and running copy attempts.
        refusals: uploads that failed because the segment's snapshot lacks a transaction.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Read the rows that come before the rows of WINDOW and DECODES.

        Raises:
            ValueError: the rows are not in order. The other methods raise it too, for the rows that they read.
        """
        self._slices = _slices(batches)
        self._slice = next(self._slices, None)
        self._part: tuple[StoredDecode, Run] | None = None
        self._decodes = self._parts(Source.DECODES)
        self.listed = next(iter(list(LISTED_ROWS.read(self._of(Source.LISTED)))), None)
        facts = list(chain.from_iterable(map(read_facts, self._of(Source.FACTS))))
        self.facts = [fact for fact, _ in facts]
        self.results = StoredResults.of(facts) if facts else None
        copies = list(self._of(Source.COPIES))
        states = chain.from_iterable(map(read_states, copies))
        self.copies = [state.attempt for state in states if state.is_there]
        self.refusals = list(chain.from_iterable(map(read_refusals, copies)))

    def _of(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Yield the next rows, as long as they are of this source."""
        while self._slice is not None and self._slice[0] is source:
            yield self._slice[1]
            self._slice = next(self._slices, None)

    def _parts(self, source: Source) -> Iterator[tuple[StoredDecode, Run]]:
        return chain.from_iterable(map(read_decodes, self._of(source)))

    def window(self) -> Iterator[WindowDecode]:
        """Yield the decoded parts from rows of the source WINDOW, in order. Call it once, before the first `decode`."""
        for decode, run in self._parts(Source.WINDOW):
            yield WindowDecode(decode.file.base_offset, decode.end.last_offset + 1, run.deltas)

    def decode(self, base_offset: int) -> tuple[StoredDecode, Iterator[Run]] | None:
        """Return the decode of a segment, and its parts as Run objects; None if the tables have no decode.

        Call this method in ascending order of `base_offset`.
        """
        for _ in self.window():
            pass
        while (part := self._next()) is not None and part[0].file.base_offset < base_offset:
            self._part = None
        if part is None or part[0].file.base_offset != base_offset:
            return None
        return part[0], self._runs(base_offset)

    def decodes(self) -> Iterator[tuple[StoredDecode, Iterator[Run]]]:
        """Yield every decode, and its parts as Run objects, in order. Read the parts before the next decode."""
        while (part := self._next()) is not None:
            yield part[0], self._runs(part[0].file.base_offset)

    def headers(self) -> Iterator[pa.RecordBatch]:
        """Yield rows with the columns of HEADER. Call it once, after the decodes were read."""
        return self._of(Source.BATCHES)

    def _next(self) -> tuple[StoredDecode, Run] | None:
        """Return the next part of a decode without consuming it. Set `_part = None` to consume it."""
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
    """Yield the rows in slices of one source each. A slice has the columns of the source's struct."""
    last = (-1, -1, -1)
    for batch in batches:
        sources, offsets, parts = (batch.column(name).to_numpy().tolist() for name in INPUT_ORDER)
        places = list(zip(sources, offsets, parts, strict=True))
        for before, place in pairwise([last, *places]):
            if place < before or (place == before and place[0] >= Source.WINDOW):
                raise ValueError(f"Spark did not keep the order of the sort: row {place} came after row {before}")
        last, start = [last, *places][-1], 0
        for number, group in groupby(sources):
            source, count = Source(number), sum(1 for _ in group)
            yield source, columns_of(batch.column(_STRUCTS[source]).slice(start, count))
            start += count


def input_rows(
    rows: DataFrame, source: Source, names: Sequence[str], *, offset: Column | None = None, part: Column | None = None
) -> DataFrame:
    """Return the rows with the columns PARTITION_KEY, INPUT_ORDER, and the struct of the source.

    Args:
        rows: any rows with PARTITION_KEY and the columns `names`.
        source: kind of the rows.
        names: columns to put into the struct.
        offset: the column `offset` of INPUT_ORDER; None for 0.
        part: the column `part` of INPUT_ORDER; None for 0.
    """
    zero = F.lit(0)
    places = {
        "source": F.lit(int(source)),
        "offset": zero if offset is None else offset,
        "part": zero if part is None else part,
    }
    typed = (column.cast(_TYPES[name]).alias(name) for name, column in places.items())
    return rows.select(*PARTITION_KEY, *typed, F.struct(*names).alias(_STRUCTS[source]))


def fact_rows(facts: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return `input_rows` of facts. A fact is ordered by its snapshot offset, else by its base offset, then by part."""
    offset = F.coalesce("snapshot_offset", "base_offset", F.lit(0))
    return input_rows(facts, Source.FACTS, names, offset=offset, part=F.col("part"))


def decode_rows(decodes: DataFrame, source: Source = Source.DECODES) -> DataFrame:
    """Return `input_rows` of rows of the table `segments`."""
    return input_rows(decodes, source, SEGMENTS.names, offset=F.col("base_offset"), part=F.col("part"))


def united(rows: Sequence[DataFrame]) -> DataFrame:
    """Return the union of the results of `input_rows`. The struct of a source is null in the rows of other sources."""
    first, *others = rows
    for each in others:
        first = first.unionByName(each, allowMissingColumns=True)
    return first
