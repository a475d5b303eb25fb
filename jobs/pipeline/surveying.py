"""What-if over the tables: each partition that was replayed, with its decodes and the newest headers, for one task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.batches import SEGMENT_OF_BATCH
from tiersnap.jobs.pipeline.before_spark import Session, started
from tiersnap.jobs.pipeline.grouping import by_key, of_topics
from tiersnap.jobs.pipeline.known import is_of
from tiersnap.jobs.pipeline.newest import current_facts, newest
from tiersnap.jobs.pipeline.partition_input import (
    HEADER,
    INPUT_ORDER,
    Source,
    decode_rows,
    fact_rows,
    input_rows,
    united,
)
from tiersnap.jobs.pipeline.warehouse import Warehouse, lacks_table
from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.exactly_once.simulate.replica_state import CACHED_BATCHES
from tiersnap.snapshot.formats.record_batch import CONTROL_MASK
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tables.table_format import filled_by

_KEPT = (FactKind.REPLAYED, FactKind.STATE, FactKind.BOUNDARY, FactKind.SEGMENT, FactKind.GONE)


def survey_input(partitions: DataFrame, segments: DataFrame, record_batches: DataFrame | None) -> DataFrame:
    """The tables -> SURVEY_INPUT rows of the newest replay of each partition that is still there.

    Args:
        record_batches: the table; None if there is none.
    """
    facts = current_facts(partitions.where(is_of(_KEPT)))
    stated = facts.where(is_of([FactKind.SEGMENT])).select(*SEGMENT_KEY, "size_bytes", "modified_ns")
    # Not those that retention has deleted since: the table remembers them until `maintain`.
    decodes = newest(segments, SEGMENT_KEY).join(stated.select(*SEGMENT_KEY), on=list(SEGMENT_KEY), how="left_semi")
    rows = [
        fact_rows(facts, schemas.PARTITIONS.names),
        decode_rows(decodes),
    ]
    return united(rows if record_batches is None else [*rows, _headers(record_batches, stated)])


def _headers(record_batches: DataFrame, stated: DataFrame) -> DataFrame:
    """Read the files that the replay saw: count a partition's headers, and keep the newest of each producer."""
    files = stated.withColumnRenamed("base_offset", "segment_base_offset")
    files = files.withColumnRenamed("size_bytes", "segment_size_bytes")
    files = files.withColumnRenamed("modified_ns", "segment_modified_ns")
    same = [*SEGMENT_OF_BATCH, "segment_size_bytes", "segment_modified_ns"]
    mine = newest(record_batches, SEGMENT_OF_BATCH).join(files, on=same, how="left_semi")
    counts = mine.groupBy(*PARTITION_KEY).agg(F.count("*").alias("header_count"))
    is_control = F.col("attributes").bitwiseAND(F.lit(CONTROL_MASK).cast("smallint")) != 0
    data = mine.where((F.col("producer_id") >= 0) & (F.col("base_sequence") >= 0) & ~is_control)
    back = Window.partitionBy(*PARTITION_KEY, "producer_id").orderBy(F.col("base_offset").desc())
    kept = data.withColumn("_back", F.row_number().over(back)).where(F.col("_back") <= CACHED_BATCHES)
    names = [field.name for field in HEADER]
    headers = kept.select(*PARTITION_KEY, *(name for name in names if name != "header_count"))
    rows = counts.unionByName(headers, allowMissingColumns=True)
    return input_rows(rows, Source.BATCHES, names, offset=F.coalesce("base_offset", F.lit(-1)))


class WithSchema(Protocol):
    """A task that says what rows it gives."""

    def __call__(self, batches: Iterator[pa.RecordBatch], /) -> Iterator[pa.RecordBatch]:
        """Rows of one partition in, what is said of it out."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""


def started_on(warehouse: str, spark: SparkSession | Session) -> SparkSession:
    """Return the session, started if a function is given that does; not for a warehouse that has no tables.

    Raises:
        SourceNotFoundError: no partition was replayed in the warehouse, as a look at this host's files says.
    """
    if lacks_table(warehouse, "partitions"):
        raise _not_replayed(warehouse)
    return started(spark)


def _not_replayed(warehouse: str) -> SourceNotFoundError:
    return SourceNotFoundError(
        f"{warehouse}: no partition was replayed in this warehouse",
        hint=filled_by(warehouse),
    )


def surveyed_partitions(spark: SparkSession, warehouse: str, selection: Selection, task: WithSchema) -> DataFrame:
    """Return the survey of each partition.

    Raises:
        SourceNotFoundError: the warehouse holds no partition that was replayed.
    """
    tables = Warehouse(spark, warehouse)
    if not tables.exists("partitions"):
        raise _not_replayed(warehouse)
    headers = tables.read("record_batches") if tables.exists("record_batches") else None
    names = ("partitions", "segments")
    partitions, segments = (_wanted(tables.read(name), selection) for name in names)
    rows = survey_input(partitions, segments, None if headers is None else _wanted(headers, selection))
    schema = schemas.of_arrow(task.schema)
    return by_key(rows, PARTITION_KEY, INPUT_ORDER, task, schema)


def _wanted(rows: DataFrame, selection: Selection) -> DataFrame:
    """Rows of the partitions that are selected; a topic's whole name must match."""
    rows = of_topics(rows, selection.topic)
    if selection.partitions:
        names = [f"{topic}-{number}" for topic, number in sorted(selection.partitions)]
        rows = rows.where(F.concat_ws("-", "topic", "partition").isin(names))
    return rows
