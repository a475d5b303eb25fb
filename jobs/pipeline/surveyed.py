"""The partitions of a warehouse that were asked about, each through one task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.before_spark import Session, lacks_table, started
from tiersnap.jobs.pipeline.surveying import survey_input, surveyed
from tiersnap.jobs.pipeline.topics import of_topics
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.log.selection import Selection


class WithSchema(Protocol):
    """A task that says what rows it gives."""

    def __call__(self, batches: Iterator[pa.RecordBatch], /) -> Iterator[pa.RecordBatch]:
        """Rows of one partition in, what is said of it out."""

    @property
    def schema(self) -> pa.Schema:
        """Of its rows."""


def started_on(warehouse: str, spark: SparkSession | Session) -> SparkSession:
    """Return the session, started if a function is given that does; not for a warehouse that has no tables.

    Raises:
        SourceNotFoundError: no partition was carried in the warehouse, as a look at this host's files says.
    """
    if lacks_table(warehouse, "partitions"):
        raise _not_carried(warehouse)
    return started(spark)


def _not_carried(warehouse: str) -> SourceNotFoundError:
    return SourceNotFoundError(
        f"{warehouse}: no partition was carried in this warehouse",
        hint="tiersnap run --source LOGDIR --remote URI fills it",
    )


def surveyed_partitions(spark: SparkSession, warehouse: str, selection: Selection, task: WithSchema) -> DataFrame:
    """What the task says of each partition.

    Raises:
        SourceNotFoundError: the warehouse holds no partition that was carried.
    """
    tables = Warehouse(spark, warehouse)
    if not tables.exists("partitions"):
        raise _not_carried(warehouse)
    headers = tables.read("record_batches") if tables.exists("record_batches") else None
    names = ("partitions", "segments")
    partitions, segments = (_wanted(tables.read(name), selection) for name in names)
    rows = survey_input(partitions, segments, None if headers is None else _wanted(headers, selection))
    return surveyed(rows, task, task.schema)


def _wanted(rows: DataFrame, selection: Selection) -> DataFrame:
    """Rows of the partitions that are selected; a topic's whole name must match."""
    rows = of_topics(rows, selection.topic)
    if selection.partitions:
        names = [f"{topic}-{number}" for topic, number in sorted(selection.partitions)]
        rows = rows.where(F.concat_ws("-", "topic", "partition").isin(names))
    return rows
