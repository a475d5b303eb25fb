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
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY

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


def tier(
    ready: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    tasks: int | None = None,
) -> DataFrame:
    """READY -> TIERED (`schema`), by upload.tier_task.TierTask: a partition's segments one after the other.

    What is copied must be visible in order, or a broker would pass by the hole for good. See `by_key` for `tasks`.
    """
    return by_key(ready, PARTITION_KEY, ["base_offset"], task, schemas.of_arrow(schema), tasks=tasks)
