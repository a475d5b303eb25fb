"""Stage 6, tier: selects the READY segments, and uploads the segments of each partition in offset order."""

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
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY

STEP_BYTES = 16 << 30
"""Bytes that a task uploads before the run commits their rows; this takes some minutes."""
SEGMENT_BYTES = 8 << 20
"""Bytes that a step counts for each segment's requests, in addition to its size."""
_INDEXES = ("offset_index_bytes", "time_index_bytes", "transaction_index_bytes")


def ready_segments(judged: DataFrame, listed: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return the judged segments that a run uploads, with the columns of tier_task.READY.

    Args:
        judged: the judged segments (schema JUDGED).
        listed: the listed partitions (schema LISTED), which contain the sizes of the index files.
        schema: tier_task.READY.
    """
    ready = judged.where(F.col("verdict").isin(sorted(TO_UPLOAD)))
    # Skip partitions whose remote segments could not be listed.
    files = listed_segments(listed.where("error is null")).select(*SEGMENT_KEY, *_INDEXES)
    return ready.join(files, on=list(SEGMENT_KEY)).select(*schema.names)


def ending_before(ready: DataFrame, until: int) -> DataFrame:
    """Return each partition's segments below the first segment whose largest timestamp is `until` or later.

    All segments above that segment are left out too, whatever their timestamps, because segments must become visible
    in offset order.

    Args:
        ready: the segments to upload (schema READY).
        until: ms since the epoch.
    """
    later = F.when(F.col("largest_timestamp") >= until, F.col("base_offset"))
    first_later = F.min(later).over(Window.partitionBy(*PARTITION_KEY))
    held = ready.withColumn("first_later", first_later)
    return held.where("first_later is null or base_offset < first_later").drop("first_later")


def in_steps(ready: DataFrame, tasks: int, *, whole_partitions: bool) -> DataFrame:
    """Add the column `step`. Segments with the same step are committed together; steps ascend with the offsets.

    Args:
        ready: the segments to upload (schema READY).
        tasks: number of Spark tasks that upload the segments of one step.
        whole_partitions: give all segments of a partition the same step. If a scan has a window, the task that uploads
            a segment also finds the transactions that are open at the end of the segment. In a later step, another
            task would have to read these transactions from remote storage.
    """
    cost, task = F.col("size_bytes") + SEGMENT_BYTES, F.pmod(F.hash(*PARTITION_KEY), F.lit(tasks))
    before = Window.partitionBy(task).orderBy(*PARTITION_KEY, "base_offset").rowsBetween(Window.unboundedPreceding, -1)
    done = F.coalesce(F.sum(cost).over(before), F.lit(0))
    rows = ready.withColumn("step", F.floor(done / STEP_BYTES))
    if whole_partitions:
        rows = rows.withColumn("step", F.min("step").over(Window.partitionBy(*PARTITION_KEY)))
    return rows


def without_failed(ready: DataFrame, remote_log_segments: DataFrame, *, run: int) -> DataFrame:
    """Leave out partitions with a failed upload in this run. Later uploads would leave a gap of offsets."""
    failed = remote_log_segments.where((F.col("run") == run) & F.isnotnull("error")).select(*TOPIC_PARTITION)
    return ready.join(failed, on=list(TOPIC_PARTITION), how="left_anti")


def tier(
    ready: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    tasks: int,
) -> DataFrame:
    """Upload the segments of each partition in offset order, and return the outcomes (schema TIERED).

    The order matters, because a broker copies segments only above the highest remote offset, and never fills a gap.

    Args:
        ready: the segments to upload (schema READY).
        task: upload.tier_task.TierTask.
        schema: tier_task.TIERED.
        tasks: number of Spark tasks.
    """
    return by_key(ready, PARTITION_KEY, ["base_offset"], task, schemas.of_arrow(schema), tasks=tasks)
