"""What an audit must know of a partition beside its batches: where its log starts, and whether it is compacted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.snapshot.log.log_dir import INTERNAL_COMPACTED_TOPICS
from tiersnap.snapshot.spark.changes import still_there
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY

_IS_INTERNAL = f"topic in {tuple(sorted(INTERNAL_COMPACTED_TOPICS))}"


def of_listing(listed: DataFrame) -> DataFrame:
    """LISTED -> PARTITION_KEY, `log_start_offset` and `is_compacted` (bool): the cleaner has passed over it."""
    return listed.select(
        *PARTITION_KEY,
        F.coalesce("log_start_offset", F.lit(0)).alias("log_start_offset"),
        (F.col("cleaner_offset").isNotNull() | F.expr(_IS_INTERNAL)).alias("is_compacted"),
    )


def of_facts(partitions: DataFrame, record_batches: DataFrame) -> DataFrame:
    """The same of the tables `partitions` and `record_batches`, and `is_known` (bool).

    A partition that no run has carried counts as not compacted, and its log as starting with its first segment.
    """
    first = record_batches.groupBy(*PARTITION_KEY).agg(F.min("segment_base_offset").alias("first_base_offset"))
    facts = still_there(partitions).select(
        *PARTITION_KEY, "log_start_offset", (F.coalesce("compacted", F.lit("")) != "").alias("was_cleaned")
    )
    rows = first.join(facts, on=list(PARTITION_KEY), how="left")
    return rows.select(
        *PARTITION_KEY,
        F.greatest("log_start_offset", "first_base_offset").alias("log_start_offset"),
        (F.coalesce("was_cleaned", F.lit(False)) | F.expr(_IS_INTERNAL)).alias("is_compacted"),
        F.col("was_cleaned").isNotNull().alias("is_known"),
    )


def segments_of_facts(partitions: DataFrame) -> DataFrame:
    """The table `partitions` -> PARTITION_KEY, `base_offset` and `size_bytes` of the segments that were listed last."""
    last = still_there(partitions).select(*PARTITION_KEY, "run")
    segments = partitions.where(F.col("kind") == str(FactKind.SEGMENT))
    found = segments.join(last, on=[*PARTITION_KEY, "run"], how="left_semi")
    return found.select(*PARTITION_KEY, F.col("offset").alias("base_offset"), "size_bytes")
