"""One look along each producer: who needs a closer one, what is open, and whose timestamps step back."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY

_NEEDED = (
    *("producer_id", "segment_base_offset", "position", "base_offset", "last_offset", "timestamp"),
    *("producer_epoch", "base_sequence"),
    *("sequence_end", "marker", "coordinator_epoch", "is_of_client", "is_transactional", "is_data"),
)


def producers(batches: DataFrame, partitions: DataFrame) -> DataFrame:
    """Rows of `batches.audited` and of audit.partitions -> one row a producer of a partition.

    A producer of which nothing is to be said has no row. Batches without a producer id are a row a segment, so that no
    task gets all of a partition for nothing.

    Returns:
        PRODUCER, `is_suspect` (bool): some batch does not follow from the one before it; `opened` and `ended`: offsets
        of the batch that opened its last transaction, of its last marker; `steps_back`: how many batches are older
        than the one before; `distance` (ms) of the furthest step, `furthest_base_offset`, `furthest_last_offset` of the
        batch, and `furthest_timed_before`, the last offset of the one before it. `opened_…` and `furthest_…` of
        `segment_base_offset`, `position` and `timestamp` say where these two batches lie.
    """
    lane = F.when(F.col("producer_id") < 0, F.col("segment_base_offset")).otherwise(-1).alias("lane")
    numbered = _numbered(partitions)
    rows = batches.join(F.broadcast(numbered), on=list(PARTITION_KEY))
    rows = rows.select("number", lane, *_NEEDED, "log_start_offset", "is_compacted")
    is_suspect = F.coalesce(_suspicion(), F.lit(False))
    looked = _compared_with_before(rows).select("*", is_suspect.alias("is_suspect"), _step_back().alias("back"))
    # Most batches only go on from the one before.
    telling = looked.where("is_suspect or opens or marker is not null or back is not null")
    return _summed(telling).join(F.broadcast(numbered.select("number", *PARTITION_KEY)), on="number").drop("number")


# The producer id first: it tells most batches apart, and Spark compares the first key without looking into rows.
_STREAM = ("producer_id", "number", "lane")


def _is_timed() -> Column:
    return F.col("is_of_client") & (F.col("timestamp") >= 0)


def _was_open() -> Column:
    return F.coalesce("was_open", F.lit(False))


def _compared_with_before(rows: DataFrame) -> DataFrame:
    """Return the batches with what the batches of their producers before them say."""
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
    """Return whether a batch does not follow from those before it."""
    is_data = F.col("is_data")
    return (
        (is_data & _is_odd())
        # No epoch lies below one before it unless, somewhere, one lies below that right before it.
        | (F.col("producer_epoch") < F.col("seen_epoch"))
        | (F.col("coordinator_epoch") < F.col("coordinated_epoch"))
        | (F.col("is_of_client") & (F.col("producer_id") >= 0) & ~F.col("is_transactional") & _was_open())
        | (is_data & F.col("is_transactional") & _was_open() & (F.col("producer_epoch") > F.col("opened_epoch")))
        | (is_data & F.col("seen_epoch").between(F.col("epoch_before") + 1, F.col("producer_epoch") - 1))
    )


def _is_odd() -> Column:
    """Return whether a batch's sequence does not follow; in a compacted log a step forward says nothing."""
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
    # Numbers alone: with structs among them Spark sorts to aggregate.
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
    """Return the partitions with a `number` that batches are sorted by in the place of three keys."""
    one_task = Window.partitionBy(F.lit(0)).orderBy(*PARTITION_KEY)
    return partitions.select(
        *PARTITION_KEY, "log_start_offset", "is_compacted", F.row_number().over(one_task).alias("number")
    )
