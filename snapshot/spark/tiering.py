"""Stage 6, tier: READY verdicts with all that was recorded of their segments, one partition after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.spark.listing import listed_segments
from tiersnap.snapshot.spark.schemas import of_arrow
from tiersnap.snapshot.state.trust import Provenance
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY

_INDEXES = ("offset_index_bytes", "time_index_bytes", "transaction_index_bytes")


def ready_segments(readiness: DataFrame, listed: DataFrame, facts: DataFrame, schema: pa.Schema) -> DataFrame:
    """READINESS rows that are READY, with what a copy is made of.

    Args:
        listed: LISTED rows.
        facts: rows of `partitions`, the newest carry of each.
        schema: upload.tier_task.READY.
    """
    ready = readiness.where(F.col("verdict") == str(Verdict.READY)).select(
        *SEGMENT_KEY, "topic_id", "next_base_offset", "size_bytes", "max_timestamp",
        F.col("snapshot").alias("verdict"), "snapshot_provenance",
    )  # fmt: skip
    digests = _of_kind(facts, FactKind.SEGMENT).select(*PARTITION_KEY, F.col("offset").alias("base_offset"), "digest")
    boundaries = _of_kind(facts, FactKind.BOUNDARY)
    ends = boundaries.select(
        *PARTITION_KEY, F.col("offset").alias("next_base_offset"),
        "provenance", "file_bytes", "file_crc", "object_key", "object_crc",
    )  # fmt: skip
    starts = boundaries.select(*PARTITION_KEY, F.col("offset").alias("base_offset"), "open_transactions")
    epochs = _of_kind(facts, FactKind.CARRIED).select(*PARTITION_KEY, "cluster_id", "leader_epochs")
    # Not of partitions where nobody knows what remote storage holds.
    files = listed_segments(listed.where("remote_error is null")).select(*SEGMENT_KEY, *_INDEXES)
    rows = (
        ready.join(files, on=list(SEGMENT_KEY))
        .join(digests, on=list(SEGMENT_KEY))
        .join(ends, on=[*PARTITION_KEY, "next_base_offset"])
        .join(starts, on=list(SEGMENT_KEY), how="left")
        .join(epochs, on=list(PARTITION_KEY))
    )
    is_file = F.col("snapshot_provenance") == str(Provenance.BROKER)
    # Before the first record of a topic nothing was open.
    opened = F.when((F.col("base_offset") == 0) & F.col("open_transactions").isNull(), F.array()).otherwise(
        F.col("open_transactions")
    )
    return rows.withColumns(
        {
            "object_key": F.when(~is_file, F.col("object_key")),
            "provenance": F.when(is_file, F.lit(str(Provenance.BROKER))).otherwise(F.col("provenance")),
            "open_transactions": opened,
        }
    ).select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in of_arrow(schema)))


def tier(
    ready: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """READY -> TIERED (`schema`), by upload.tier_task.TierTask: a partition's segments one after the other.

    What is copied must be visible in order, or a broker would pass by the hole for good.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    ordered = ready.repartition(*PARTITION_KEY).sortWithinPartitions(*PARTITION_KEY, "base_offset")
    return ordered.groupBy(*PARTITION_KEY).applyInArrow(run, of_arrow(schema))


def _of_kind(facts: DataFrame, kind: FactKind) -> DataFrame:
    return facts.where(F.col("kind") == str(kind))
