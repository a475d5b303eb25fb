"""Stage 6, tier: READY verdicts with all that was recorded of their segments, one partition after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.listing import listed_segments
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.snapshot.readiness.verdict import Verdict
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY

_INDEXES = ("offset_index_bytes", "time_index_bytes", "transaction_index_bytes")


def ready_segments(judged: DataFrame, listed: DataFrame, schema: pa.Schema) -> DataFrame:
    """JUDGED rows that are READY, with the sizes of their files.

    Args:
        listed: LISTED rows.
        schema: upload.tier_task.READY.
    """
    ready = judged.where(F.col("verdict") == str(Verdict.READY)).select(
        *SEGMENT_KEY, "topic_id", "next_base_offset", "size_bytes", "max_timestamp",
        F.col("snapshot").alias("verdict"), "copy.*",
    )  # fmt: skip
    # Not of partitions where nobody knows what remote storage holds.
    files = listed_segments(listed.where("remote_error is null")).select(*SEGMENT_KEY, *_INDEXES)
    return ready.join(files, on=list(SEGMENT_KEY)).select(*schema.names)


def ending_before(ready: DataFrame, until: int) -> DataFrame:
    """READY rows of each partition below its first one whose largest timestamp is `until` (ms) or later.

    Not every row that is older: one behind a younger one would become visible before it.
    """
    later = F.when(F.col("max_timestamp") >= until, F.col("base_offset"))
    first_later = F.min(later).over(Window.partitionBy(*PARTITION_KEY))
    held = ready.withColumn("first_later", first_later)
    return held.where("first_later is null or base_offset < first_later").drop("first_later")


def tier(
    ready: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    tasks: int | None = None,
) -> DataFrame:
    """READY -> TIERED (`schema`), by upload.tier_task.TierTask: a partition's segments one after the other.

    What is copied must be visible in order, or a broker would pass by the hole for good.

    Args:
        tasks: no more of them at once; None for as many as the session makes.
    """
    function = lambda _, batches: task(batches)  # noqa: E731
    return by_key(ready, PARTITION_KEY, ["base_offset"], function, of_arrow(schema), tasks=tasks)
