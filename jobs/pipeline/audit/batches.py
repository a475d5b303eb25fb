"""The input of an audit: rows of `record_batches`, with a column for each term of the rules."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.batches import SEGMENT_OF_BATCH
from tiersnap.snapshot.exactly_once.models.producer_entry import LARGEST_SEQUENCE
from tiersnap.snapshot.formats.record_batch import (
    ABORT,
    COMMIT,
    CONTROL_MASK,
    LOG_OVERHEAD,
    TRANSACTIONAL_MASK,
)
from tiersnap.snapshot.tables.schemas import PARTITION_KEY

SEQUENCES = LARGEST_SEQUENCE + 1
PRODUCER = (*PARTITION_KEY, "producer_id")


def newest_decode(record_batches: DataFrame, known: DataFrame) -> DataFrame:
    """Return the rows of each segment's last decode in `record_batches`, by its `known_segments`."""
    last = known.select(
        *PARTITION_KEY, F.col("base_offset").alias("segment_base_offset"), F.col("known_run").alias("run")
    )
    return record_batches.join(F.broadcast(last), on=[*SEGMENT_OF_BATCH, "run"], how="left_semi")


def audited(batches: DataFrame) -> DataFrame:
    """The columns that the rules need; one row a batch.

    `is_data`: of a numbered producer, with a sequence. `marker`: COMMIT or ABORT, null of any other batch, also of one
    that compaction emptied; so is `coordinator_epoch`. `length` is in offsets, as `sequence_end` (exclusive, in the
    circle of 2^31) is in sequences.
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
    """Return whether a row of `record_batches` has a producer id and a sequence."""
    return ~_has(CONTROL_MASK) & (F.col("producer_id") >= 0) & (F.col("base_sequence") >= 0)


def _has(mask: int) -> Column:
    return F.col("attributes").cast("int").bitwiseAND(mask) != 0


def in_circle(sequence: Column) -> Column:
    """A sequence after 2147483647 begins again at 0."""
    return F.pmod(sequence, F.lit(SEQUENCES))


def step(sequence: Column, expected: Column) -> Column:
    """Return the distance of a sequence from the expected one, in [-2^30, 2^30): around the circle, the shorter way."""
    distance = in_circle(sequence.cast("long") - expected)
    return F.when(distance < SEQUENCES // 2, distance).otherwise(distance - SEQUENCES)
