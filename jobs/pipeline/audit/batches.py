"""The input of an audit: rows of `record_batches` with the columns that the audit rules use.

The module also finds missing offsets. An aggregate finds the segments that lack offsets. Windows then find the missing
offsets of these segments.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline.batches import SEGMENT_OF_BATCH
from tiersnap.snapshot.exactly_once.models.producer_entry import LARGEST_SEQUENCE
from tiersnap.snapshot.formats.record_batch import ABORT, COMMIT, CONTROL_MASK, LOG_OVERHEAD, TRANSACTIONAL_MASK
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

SEQUENCES = LARGEST_SEQUENCE + 1
PRODUCER = (*PARTITION_KEY, "producer_id")


def newest_decode(record_batches: DataFrame, known: DataFrame) -> DataFrame:
    """Return the rows of each segment's last decode in `record_batches`.

    Args:
        known: rows of `known_segments`; `known_run` is the run of the last decode.
    """
    last = known.select(
        *PARTITION_KEY, F.col("base_offset").alias("segment_base_offset"), F.col("known_run").alias("run")
    )
    return record_batches.join(F.broadcast(last), on=[*SEGMENT_OF_BATCH, "run"], how="left_semi")


def audited(batches: DataFrame) -> DataFrame:
    """Return the columns that the audit rules need, one row per batch.

    `is_data`: see the function `is_data`. `marker`: COMMIT or ABORT; null for batches that are no marker, and for
    markers that compaction emptied. `coordinator_epoch` is null in the same cases. `length`: number of offsets.
    `sequence_end`: the sequence that follows the batch's last sequence; 0 follows 2147483647.
    """
    is_control, is_transactional = _has(CONTROL_MASK), _has(TRANSACTIONAL_MASK)
    is_marker = is_control & (F.col("record_count") > 0) & F.col("control_type").isin(ABORT, COMMIT)
    has_producer = F.col("producer_id") >= 0
    length = F.col("last_offset_delta").cast("long") + 1
    return batches.select(
        *SEGMENT_OF_BATCH,
        "segment_size_bytes",
        "position",
        (F.col("position") + LOG_OVERHEAD + F.col("batch_length")).alias("end_position"),
        "base_offset",
        (F.col("base_offset") + F.col("last_offset_delta")).alias("last_offset"),
        length.alias("length"),
        "partition_leader_epoch",
        "crc",
        F.col("max_timestamp").alias("timestamp"),
        "producer_id",
        "producer_epoch",
        "base_sequence",
        in_circle(F.col("base_sequence").cast("long") + length).alias("sequence_end"),
        F.when(is_marker & has_producer, F.col("control_type")).alias("marker"),
        F.when(is_marker & has_producer, F.col("coordinator_epoch")).alias("coordinator_epoch"),
        (~is_control).alias("is_of_client"),
        is_transactional.alias("is_transactional"),
        is_data().alias("is_data"),
        "record_count",
    )


def is_data() -> Column:
    """Return a condition: the row of `record_batches` is no control batch, and has a producer id and a sequence."""
    return ~_has(CONTROL_MASK) & (F.col("producer_id") >= 0) & (F.col("base_sequence") >= 0)


def _has(mask: int) -> Column:
    return F.col("attributes").cast("int").bitwiseAND(mask) != 0


def in_circle(sequence: Column) -> Column:
    """Return the sequence wrapped like Kafka's DefaultRecordBatch: 0 follows 2147483647."""
    return F.pmod(sequence, F.lit(SEQUENCES))


def step(sequence: Column, expected: Column) -> Column:
    """Return the distance of a sequence from the expected one, in [-2^30, 2^30).

    Sequences wrap after 2147483647, so there are two distances. This function returns the shorter one.
    """
    distance = in_circle(sequence.cast("long") - expected)
    return F.when(distance < SEQUENCES // 2, distance).otherwise(distance - SEQUENCES)


HOLE = (*PARTITION_KEY, "hole_start", "hole_end", "is_unread")
_BEHIND = ("segment_base_offset", "position", "timestamp")  # of the first batch after a hole


def segment_sums(batches: DataFrame) -> DataFrame:
    """Return one row per segment: its offset range, counts, and byte positions. `batches` are rows of `audited`.

    `offsets` is the number of offsets that batches cover; `last_offset` is inclusive, `end_position` exclusive.
    """
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
    """Return the ranges of offsets without a batch, at or above the log start offset.

    The result has no rows of compacted partitions, because the log cleaner removes offsets.

    Args:
        batches, sums: rows of `audited`, and their `segment_sums`.
        partitions: rows of `partitions.of_listing` or `of_facts`.
        listed: PARTITION_KEY, `base_offset` and `size_bytes` of the existing segments.
    Returns:
        PARTITION_KEY, `hole_start` (inclusive) and `hole_end` (exclusive). `is_unread` (bool): the files contain bytes
        in this range that were not decoded, because they are damaged or have magic 0 or 1. `segment_base_offset`,
        `position` and `timestamp` of the first batch after the hole.
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
    # Listed segments that are not empty. If such a segment is inside a hole, its batches were not decoded.
    skipped = listed.where("size_bytes > 0").select(
        *(F.col(name).alias(f"its_{name}") for name in PARTITION_KEY), F.col("base_offset").alias("its_base_offset")
    )
    lies_between = (
        F.col("its_base_offset").between(F.col("hole_start"), F.col("hole_end") - 1)
        & (F.col("its_base_offset") != F.col("segment_base_offset"))
        & reduce(and_, (F.col(f"its_{name}") == F.col(name) for name in PARTITION_KEY))
    )
    rows = found.join(skipped, on=lies_between, how="left")
    is_unread = F.max(F.col("is_unread") | F.col("its_base_offset").isNotNull()).alias("is_unread")
    return rows.groupBy(*PARTITION_KEY, "hole_start", "hole_end", *_BEHIND).agg(is_unread)
