"""Offsets that no batch has: one aggregate a segment says where to look, windows say where they are."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline.batches import SEGMENT_OF_BATCH
from tiersnap.snapshot.tables.schemas import PARTITION_KEY

HOLE = (*PARTITION_KEY, "hole_start", "hole_end", "is_unread")
_BEHIND = ("segment_base_offset", "position", "timestamp")  # of the batch behind a hole


def segment_sums(batches: DataFrame) -> DataFrame:
    """Rows of `batches.audited` -> one row a segment: first and last offset, how many it holds, batches, bytes."""
    return batches.groupBy(*SEGMENT_OF_BATCH).agg(
        F.min("base_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.sum("length").alias("offsets"),
        F.count("*").alias("batches"),
        F.min("position").alias("first_position"),
        F.max("end_position").alias("end_position"),
        F.max("segment_size_bytes").alias("size_bytes"),
        F.min_by("timestamp", "base_offset").alias("first_timestamp"),
    )


def holes(batches: DataFrame, sums: DataFrame, partitions: DataFrame, listed: DataFrame) -> DataFrame:
    """Offsets without a batch, at or above the log start offset, of partitions that are not compacted.

    Args:
        batches: rows of `batches.audited`.
        sums: their `segment_sums`.
        partitions: rows of audit.partitions.
        listed: PARTITION_KEY, `base_offset` and `size_bytes` of the segments that are there.
    Returns:
        PARTITION_KEY, `hole_start` (inclusive), `hole_end` (exclusive), and `is_unread` (bool): bytes lie between that
        were not decoded, as entries of magic 0 and 1 and damage are not. And `segment_base_offset`, `position` and
        `timestamp` of the batch behind it.
    """
    whole = partitions.where("not is_compacted")
    found = _inside(batches, sums).unionByName(_between(sums, listed))
    rows = found.join(F.broadcast(whole), on=list(PARTITION_KEY)).where("hole_end > log_start_offset")
    start = F.greatest("hole_start", "log_start_offset").alias("hole_start")
    return rows.select(*PARTITION_KEY, start, "hole_end", "is_unread", *_BEHIND)


def _inside(batches: DataFrame, sums: DataFrame) -> DataFrame:
    torn = sums.where("offsets < last_offset - first_offset + 1").select(*SEGMENT_OF_BATCH)
    rows = batches.select(*SEGMENT_OF_BATCH, "base_offset", "last_offset", "position", "end_position", "timestamp")
    in_segment = Window.partitionBy(*SEGMENT_OF_BATCH).orderBy("base_offset")
    ordered = rows.join(F.broadcast(torn), on=list(SEGMENT_OF_BATCH), how="left_semi").select(
        *PARTITION_KEY,
        (F.lag("last_offset").over(in_segment) + 1).alias("hole_start"),
        F.col("base_offset").alias("hole_end"),
        (F.col("position") > F.lag("end_position").over(in_segment)).alias("is_unread"),
        *_BEHIND,
    )
    return ordered.where("hole_end > hole_start")


def _between(sums: DataFrame, listed: DataFrame) -> DataFrame:
    in_log = Window.partitionBy(*PARTITION_KEY).orderBy("segment_base_offset")

    def before(name: str) -> Column:
        return F.lag(name).over(in_log)

    is_cut = F.coalesce(before("end_position") < before("size_bytes"), F.lit(False))
    found = sums.select(
        *PARTITION_KEY,
        F.coalesce(before("last_offset") + 1, F.col("segment_base_offset")).alias("hole_start"),
        F.col("first_offset").alias("hole_end"),
        ((F.col("first_position") > 0) | is_cut).alias("is_unread"),
        F.col("segment_base_offset"),
        F.col("first_position").alias("position"),
        F.col("first_timestamp").alias("timestamp"),
    ).where("hole_end > hole_start")
    # A segment that is there, has bytes and gave no row.
    skipped = listed.where("size_bytes > 0").select(
        *(F.col(name).alias(f"its_{name}") for name in PARTITION_KEY), F.col("base_offset").alias("its_base_offset")
    )
    lies_between = (
        F.col("its_base_offset").between(F.col("hole_start"), F.col("hole_end") - 1)
        & (F.col("its_base_offset") != F.col("segment_base_offset"))
        & F.expr(" and ".join(f"its_{name} = {name}" for name in PARTITION_KEY))
    )
    rows = found.join(skipped, on=lies_between, how="left")
    is_unread = F.max(F.col("is_unread") | F.col("its_base_offset").isNotNull()).alias("is_unread")
    return rows.groupBy(*PARTITION_KEY, "hole_start", "hole_end", *_BEHIND).agg(is_unread)
