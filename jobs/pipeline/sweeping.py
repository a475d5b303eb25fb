"""Partitions of which ended attempts left objects in remote storage, each once however many replicas are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.schemas import of_arrow


def sweep(
    listed: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """LISTED -> SWEPT (`schema`), by leftovers.sweep_task.SweepTask."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(iter(batches))

    first = F.min(F.col("segments")[0]["base_offset"]).alias("local_start")
    left = listed.where("leftover_count > 0").groupBy("topic", "topic_id", "partition").agg(first)
    return left.mapInArrow(run, of_arrow(schema))
