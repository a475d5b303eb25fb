"""One window over the batches of each producer. It finds suspects, open transactions, and timestamps that step back."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

_NEEDED = (
    *("producer_id", "segment_base_offset", "position", "base_offset", "last_offset", "timestamp"),
    *("producer_epoch", "base_sequence"),
    *("sequence_end", "marker", "coordinator_epoch", "is_of_client", "is_transactional", "is_data"),
)


def producers(batches: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return one row per producer and partition with a suspect batch, a transaction, or a step back in time.

    Batches without a producer id are grouped by segment. Otherwise one task would get all such batches of a partition.

    Args:
        batches: rows of `batches.audited`.
        partitions: rows of `partitions.of_listing` or `of_facts`.
    Returns:
        - PRODUCER. `is_suspect` (bool): a batch or marker has an unexpected sequence or epoch, or a batch does not fit
          the open transaction.
        - `opened`: base offset of the batch that opened the last transaction. `written`: last offset of the last
          transactional batch. `open_epoch`: producer epoch of that batch. `ended`: base offset of the last marker.
        - `steps_back`: number of batches with an earlier timestamp than their predecessor. `distance`: ms of the
          largest step back. `furthest_base_offset`, `furthest_last_offset`: offsets of the batch with that step.
          `furthest_timed_before`: last offset of the predecessor of this batch.
        - `opened_...`: `segment_base_offset`, `position` and `timestamp` of the batch at offset `opened`.
          `furthest_...`: the same three columns of the batch at offset `furthest_base_offset`.
    """
    lane = F.when(F.col("producer_id") < 0, F.col("segment_base_offset")).otherwise(-1).alias("lane")
    numbered = _numbered(partitions)
    rows = batches.join(F.broadcast(numbered), on=list(PARTITION_KEY))
    rows = rows.select("number", lane, *_NEEDED, "log_start_offset", "is_compacted")
    is_suspect = F.coalesce(_suspicion(), F.lit(False))
    looked = _compared_with_before(rows).select("*", is_suspect.alias("is_suspect"), _step_back().alias("back"))
    # Drop the batches that only continue their predecessor; most do.
    telling = looked.where("is_suspect or opens or marker is not null or back is not null")
    return _summed(telling).join(F.broadcast(numbered.select("number", *PARTITION_KEY)), on="number").drop("number")


# The producer id comes first: it differs for most batches, and Spark sorts by the prefix of the first key.
_STREAM = ("producer_id", "number", "lane")


def _is_timed() -> Column:
    return F.col("is_of_client") & (F.col("timestamp") >= 0)


def _was_open() -> Column:
    return F.coalesce("was_open", F.lit(False))


def _compared_with_before(rows: DataFrame) -> DataFrame:
    """Add columns about the earlier batches and markers of the same producer; null if no such rows exist."""
    along = Window.partitionBy(*_STREAM).orderBy("base_offset")
    before = along.rowsBetween(Window.unboundedPreceding, -1)
    is_data, is_marker = F.col("is_data"), F.col("marker").isNotNull()
    epoch = F.when(F.col("is_of_client") | is_marker, F.col("producer_epoch"))
    opens = F.col("is_of_client") & F.col("is_transactional") & (F.col("producer_id") >= 0)
    return rows.select(
        "*",
        opens.alias("opens"),
        F.last(F.when(is_data, F.col("producer_epoch")), True).over(before).alias("epoch_before"),
        F.last(F.when(is_data, F.col("sequence_end")), True).over(before).alias("expected"),
        F.last(epoch, True).over(before).alias("seen_epoch"),
        F.max("coordinator_epoch").over(before).alias("coordinated_epoch"),
        F.last(F.when(is_marker, F.lit(False)).when(opens, F.lit(True)), True).over(before).alias("was_open"),
        F.max(F.when(opens, F.col("producer_epoch"))).over(before).alias("opened_epoch"),
        F.last(F.when(_is_timed(), F.col("timestamp")), True).over(before).alias("time_before"),
        F.last(F.when(_is_timed(), F.col("last_offset")), True).over(before).alias("timed_before"),
    )


def _suspicion() -> Column:
    """Return a condition: the batch or marker makes its producer a suspect; see `is_suspect` in `producers`."""
    is_data = F.col("is_data")
    return (
        (is_data & _is_odd())
        # The previous epoch suffices: an epoch below any earlier one implies a drop between two neighbours.
        | (F.col("producer_epoch") < F.col("seen_epoch"))
        | (F.col("coordinator_epoch") < F.col("coordinated_epoch"))
        | (F.col("is_of_client") & (F.col("producer_id") >= 0) & ~F.col("is_transactional") & _was_open())
        | (is_data & F.col("is_transactional") & _was_open() & (F.col("producer_epoch") > F.col("opened_epoch")))
        | (is_data & F.col("seen_epoch").between(F.col("epoch_before") + 1, F.col("producer_epoch") - 1))
    )


def _is_odd() -> Column:
    """Return a condition: the sequence is not the expected one. In a compacted log, steps forward are expected."""
    is_ahead = F.pmod(F.col("base_sequence") - F.col("expected"), F.lit(1 << 31)) < (1 << 30)
    is_compacted, starts_anew = F.col("is_compacted"), F.col("base_sequence") == 0
    is_next = F.col("base_sequence") == F.col("expected")
    return (
        F.when(F.col("epoch_before").isNull(), ~starts_anew & (F.col("log_start_offset") == 0) & ~is_compacted)
        .when(F.col("producer_epoch") == F.col("epoch_before"), ~is_next & ~(is_compacted & is_ahead))
        .otherwise(~starts_anew & ~is_compacted)
    )


def _step_back() -> Column:
    is_back = _is_timed() & (F.col("time_before") > F.col("timestamp"))
    return F.when(is_back, F.col("time_before") - F.col("timestamp"))


def _summed(telling: DataFrame) -> DataFrame:
    # Aggregate plain columns only: with struct columns Spark would choose a sort aggregate.
    began = F.when(F.col("opens") & ~_was_open(), F.col("base_offset"))
    places = ("segment_base_offset", "position", "timestamp")
    furthest = ("base_offset", "last_offset", "timed_before", *places)
    return telling.groupBy(*_STREAM).agg(
        F.bool_or("is_suspect").alias("is_suspect"),
        F.max(began).alias("opened"),
        *(F.max_by(name, began).alias(f"opened_{name}") for name in places),
        F.max(F.when(F.col("marker").isNotNull(), F.col("base_offset"))).alias("ended"),
        F.max(F.when(F.col("opens"), F.col("last_offset"))).alias("written"),
        F.max_by("producer_epoch", F.when(F.col("opens"), F.col("base_offset"))).alias("open_epoch"),
        F.count("back").alias("steps_back"),
        F.max("back").alias("distance"),
        *(F.max_by(name, "back").alias(f"furthest_{name}") for name in furthest),
    )


def _numbered(partitions: DataFrame) -> DataFrame:
    """Add the column `number`. As a sort key it replaces the three columns of PARTITION_KEY."""
    one_task = Window.partitionBy(F.lit(0)).orderBy(*PARTITION_KEY)
    return partitions.select(
        *PARTITION_KEY, "log_start_offset", "is_compacted", F.row_number().over(one_task).alias("number")
    )
