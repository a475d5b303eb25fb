"""What-if over the tables: each partition that was carried, with its decodes and the newest headers, for one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.batches import SEGMENT_OF_BATCH
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.warehouse import newest
from tiersnap.snapshot.exactly_once.simulate.replica_state import CACHED_BATCHES
from tiersnap.snapshot.formats.record_batch import CONTROL_MASK
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tasks.partition_input import HEADER, INPUT_ORDER, SURVEY_INPUT, Source

_KEPT = (FactKind.CARRIED, FactKind.STATE, FactKind.BOUNDARY, FactKind.SEGMENT, FactKind.GONE)
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def survey_input(partitions: DataFrame, segments: DataFrame, record_batches: DataFrame | None) -> DataFrame:
    """The tables -> SURVEY_INPUT rows of the newest carry of each partition that is still there.

    Args:
        record_batches: None where nobody wrote the table.
    """
    facts = newest(partitions, PARTITION_KEY).where(F.col("kind").isin([str(kind) for kind in _KEPT]))
    stated = facts.where(F.col("kind") == str(FactKind.SEGMENT)).select(
        *PARTITION_KEY, F.col("offset").alias("base_offset"), "size_bytes", "modified_ns"
    )
    # Not those that retention has deleted since: the table remembers them until `maintain`.
    decodes = newest(segments, SEGMENT_KEY).join(stated.select(*SEGMENT_KEY), on=list(SEGMENT_KEY), how="left_semi")
    rows = facts.select(*_columns(Source.FACTS, F.col("offset"), F.col("part"), "fact"))
    rows = rows.unionByName(decodes.select(*_columns(Source.DECODES, F.col("base_offset"), F.col("part"), "decode")))
    return rows if record_batches is None else rows.unionByName(_headers(record_batches, stated))


def _headers(record_batches: DataFrame, stated: DataFrame) -> DataFrame:
    """Of the files that the carry saw: how many headers a partition has, and the newest of each producer."""
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
    names = [field.name for field in HEADER if field.name != "header_count"]
    nothing = [F.lit(None).cast("long").alias(name) for name in names]
    counted = counts.select(*PARTITION_KEY, "header_count", *nothing)
    headers = kept.select(*PARTITION_KEY, F.lit(None).cast("long").alias("header_count"), *names)
    place = F.coalesce("base_offset", F.lit(-1))
    return counted.unionByName(headers).select(*_columns(Source.BATCHES, place, F.lit(0), "header"))


def _columns(source: Source, offset: Column, part: Column, filled: str) -> list[Column]:
    """Columns of SURVEY_INPUT: of `fact`, `decode` and `header` the one that is named, from columns of its fields."""
    columns = [
        *(F.col(name) for name in PARTITION_KEY),
        F.lit(int(source)).alias("source"),
        offset.cast("long").alias("offset"),
        part.cast("int").alias("part"),
    ]
    for name in ("fact", "decode", "header"):
        fields = [field.name for field in SURVEY_INPUT.field(name).type]
        value = F.struct(*(F.col(each) for each in fields)) if name == filled else F.lit(None)
        columns.append(value.cast(schemas.SURVEY_INPUT[name].dataType).alias(name))
    return columns


def surveyed(rows: DataFrame, task: Task, schema: pa.Schema) -> DataFrame:
    """SURVEY_INPUT -> what the task says of each partition, one partition at a time."""
    return by_key(rows, PARTITION_KEY, INPUT_ORDER, lambda _, batches: task(batches), schemas.of_arrow(schema))
