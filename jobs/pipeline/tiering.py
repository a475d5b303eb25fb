"""Stage 6, tier: READY segments, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.listing import listed_segments
from tiersnap.snapshot.gate.verdict import TO_UPLOAD
from tiersnap.snapshot.tables.remote_log_segments import TOPIC_PARTITION
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY, SEGMENT_KEY

STEP_BYTES = 16 << 30
"""Bytes that a task uploads before they are committed: some minutes."""
SEGMENT_BYTES = 8 << 20
"""Bytes that could be sent during the requests of a segment: a step counts so many more of each."""
_INDEXES = ("offset_index_bytes", "time_index_bytes", "transaction_index_bytes")


def ready_segments(judged: DataFrame, listed: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return rows of `schema` (tier_task.READY): JUDGED rows to upload, with the sizes of their LISTED files."""
    ready = judged.where(F.col("verdict").isin(sorted(TO_UPLOAD)))
    # Leave out partitions whose remote log is not known.
    files = listed_segments(listed.where("error is null")).select(*SEGMENT_KEY, *_INDEXES)
    return ready.join(files, on=list(SEGMENT_KEY)).select(*schema.names)


def ending_before(ready: DataFrame, until: int) -> DataFrame:
    """READY rows of each partition below its first one whose largest timestamp is `until` (ms) or later.

    Not every row that is older: one behind a younger one would become visible before it.
    """
    later = F.when(F.col("largest_timestamp") >= until, F.col("base_offset"))
    first_later = F.min(later).over(Window.partitionBy(*PARTITION_KEY))
    held = ready.withColumn("first_later", first_later)
    return held.where("first_later is null or base_offset < first_later").drop("first_later")


def in_steps(ready: DataFrame, tasks: int, *, whole_partitions: bool) -> DataFrame:
    """READY rows with the `step` in which each is uploaded, which `tasks` tasks share.

    A task uploads its partitions one after the other, so the steps of a partition's segments ascend. With
    `whole_partitions` each has one step, however long: the upload of a segment before a scan window tells which
    transactions are open behind it, and a later step would have to ask remote storage.
    """
    cost, task = F.col("size_bytes") + SEGMENT_BYTES, F.pmod(F.hash(*PARTITION_KEY), F.lit(tasks))
    before = Window.partitionBy(task).orderBy(*PARTITION_KEY, "base_offset").rowsBetween(Window.unboundedPreceding, -1)
    done = F.coalesce(F.sum(cost).over(before), F.lit(0))
    rows = ready.withColumn("step", F.floor(done / STEP_BYTES))
    if whole_partitions:
        rows = rows.withColumn("step", F.min("step").over(Window.partitionBy(*PARTITION_KEY)))
    return rows


def without_failed(ready: DataFrame, remote_log_segments: DataFrame, *, run: int) -> DataFrame:
    """Return the rows of partitions in which no segment failed in this run: behind a failed one would be a hole."""
    failed = remote_log_segments.where((F.col("run") == run) & F.isnotnull("error")).select(*TOPIC_PARTITION)
    return ready.join(failed, on=list(TOPIC_PARTITION), how="left_anti")


def tier(
    ready: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    tasks: int,
) -> DataFrame:
    """READY -> TIERED (`schema`), by upload.tier_task.TierTask: a partition's segments one after the other.

    What is copied must be visible in order, or a broker would pass by the hole for good. See `by_key` for `tasks`.
    """
    return by_key(ready, PARTITION_KEY, ["base_offset"], task, schemas.of_arrow(schema), tasks=tasks)
