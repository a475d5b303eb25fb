"""The input of simulations from tables: the decodes and the newest batch headers of each replayed partition."""

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
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tables.table_format import filled_by

_KEPT = (FactKind.REPLAYED, FactKind.STATE, FactKind.BOUNDARY, FactKind.SEGMENT, FactKind.GONE)


def survey_input(partitions: DataFrame, segments: DataFrame, record_batches: DataFrame | None) -> DataFrame:
    """Return the input rows (schema SURVEY_INPUT) of each partition that was replayed and still exists.

    Args:
        partitions, segments: the tables.
        record_batches: the table; None if it does not exist.
    """
    facts = current_facts(partitions.where(is_of(_KEPT)))
    stated = facts.where(is_of([FactKind.SEGMENT])).select(*SEGMENT_KEY, "size_bytes", "modified_ns")
    # Join with the replayed segments: the table keeps decodes of deleted ones until `tiersnap maintain tables`.
    decodes = newest(segments, SEGMENT_KEY).join(stated.select(*SEGMENT_KEY), on=list(SEGMENT_KEY), how="left_semi")
    rows = [fact_rows(facts, schemas.PARTITIONS.names), decode_rows(decodes)]
    if record_batches is not None:
        rows.append(_headers(record_batches, stated))
    return united(rows)


def _headers(record_batches: DataFrame, stated: DataFrame) -> DataFrame:
    """Return input rows of headers: for each partition its number of headers, then each producer's newest headers.

    Headers of a segment are used only if the decoded file had the size and time that the replay listed.
    """
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
    """A task with the schema of its result."""

    def __call__(self, batches: Iterator[pa.RecordBatch], /) -> Iterator[pa.RecordBatch]:
        """Yield the result for one partition; `batches` are its rows (schema SURVEY_INPUT)."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""


def started_on(warehouse: str, spark: SparkSession | Session) -> SparkSession:
    """Return the session. If `spark` is a function, call it to get the session.

    Raises:
        SourceNotFoundError: the warehouse is a folder on this host without the table `partitions`.
    """
    if lacks_table(warehouse, "partitions"):
        raise _not_replayed(warehouse)
    return started(spark)


def _not_replayed(warehouse: str) -> SourceNotFoundError:
    return SourceNotFoundError(
        f"{warehouse}: no run has replayed a partition in this warehouse",
        hint=filled_by(warehouse),
    )


def surveyed_partitions(spark: SparkSession, warehouse: str, selection: Selection, task: WithSchema) -> DataFrame:
    """Run `task` for each selected partition, and return the rows that the task yields.

    Raises:
        SourceNotFoundError: no partition was replayed in the warehouse.
    """
    tables = Warehouse(spark, warehouse)
    if not tables.exists("partitions"):
        raise _not_replayed(warehouse)
    partitions = _wanted(tables.read("partitions"), selection)
    segments = _wanted(tables.read("segments"), selection)
    headers = None
    if tables.exists("record_batches"):
        headers = _wanted(tables.read("record_batches"), selection)
    rows = survey_input(partitions, segments, headers)
    schema = schemas.of_arrow(task.schema)
    return by_key(rows, PARTITION_KEY, INPUT_ORDER, task, schema)


def _wanted(rows: DataFrame, selection: Selection) -> DataFrame:
    """Return the rows of the selected partitions."""
    rows = of_topics(rows, selection.topic)
    if selection.partitions:
        names = [f"{topic}-{number}" for topic, number in sorted(selection.partitions)]
        rows = rows.where(F.concat_ws("-", "topic", "partition").isin(names))
    return rows
