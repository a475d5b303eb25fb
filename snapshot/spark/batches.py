"""The table `record_batches`: which segments are not in it yet, and which of its rows count."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.snapshot.spark import schemas
from tiersnap.snapshot.spark.listing import listed_segments
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY

SEGMENT_OF_BATCH = (*PARTITION_KEY, "segment_base_offset")
_IDENTITY = ("topic_id", "segment_size_bytes", "segment_modified_ns")


def known_segments(record_batches: DataFrame) -> DataFrame:
    """`record_batches` -> SEGMENT_KEY, the identity of the file that was decoded last, and `known_run`."""
    newest = record_batches.groupBy(*SEGMENT_OF_BATCH).agg(
        F.max_by(F.struct(*_IDENTITY), "run").alias("known"), F.max("run").alias("known_run")
    )
    return newest.withColumnRenamed("segment_base_offset", "base_offset")


def wanted_segments(listed: DataFrame, known: DataFrame) -> DataFrame:
    """LISTED and rows of `known_segments` -> WANTED rows of the segments that are new or have changed.

    A file of 0 bytes has no batches. One that has bytes and no batch of magic 2 leaves no row, and is looked at again.
    """
    segments = listed_segments(listed).where("size_bytes > 0")
    is_known = (
        (F.col("size_bytes") == F.col("known.segment_size_bytes"))
        & (F.col("modified_ns") == F.col("known.segment_modified_ns"))
        & F.col("topic_id").eqNullSafe(F.col("known.topic_id"))
    )
    rows = segments.join(known, on=list(SEGMENT_KEY), how="left").withColumn("not_read", F.lit(None).cast("string"))
    return rows.where(~F.coalesce(is_known, F.lit(False))).select(*schemas.WANTED.names)


def unread_ends(wanted: DataFrame, decoded: DataFrame) -> DataFrame:
    """Closed segments whose rows do not reach the end of the file: entries before magic 2, or damage.

    Args:
        wanted: WANTED rows.
        decoded: the rows of `record_batches` that were made of them.
    Returns:
        SEGMENT_KEY, `size_bytes` and `read_bytes`: where the last row's batch ends.
    """
    end = F.max(F.col("position") + F.lit(12) + F.col("batch_length"))
    ends = decoded.groupBy(*SEGMENT_OF_BATCH).agg(end.alias("end"))
    rows = wanted.where("next_base_offset is not null").join(
        ends.withColumnRenamed("segment_base_offset", "base_offset"), on=list(SEGMENT_KEY), how="left"
    )
    read = F.coalesce("end", F.lit(0)).alias("read_bytes")
    return rows.select(*SEGMENT_KEY, "size_bytes", read).where("read_bytes < size_bytes")
