"""The complete history of suspect producers: for each batch, facts about the earlier batches of its producer.

Sequences wrap after 2147483647, so the module uses places instead. A batch's `place` is its distance in sequences from
the first batch of its epoch, and never wraps. Every window frame ends at or before the current row. If a frame ended
later, Spark would compute the frame again for every row.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window, WindowSpec

from tiersnap.jobs.pipeline.audit.batches import PRODUCER, step
from tiersnap.snapshot.formats.record_batch import ABORT
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

# `is_data` is in the key, so that markers and batches without sequences are not compared with batches with sequences.
EPOCH = (*PRODUCER, "producer_epoch", "is_data")


def history(batches: DataFrame, suspects: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return the batches and markers of suspect producers, each with facts about the producer's earlier rows.

    Args:
        batches: rows of `batches.audited`.
        suspects: PRODUCER columns.
        partitions: rows of `partitions.of_listing` or `of_facts`.
    Returns:
        The columns of `batches`, `log_start_offset`, `is_compacted`, and the columns below. "Earlier" means: of the
        same producer in the same partition, at a lower offset. A column is null if no such row exists.

        - `seen`: the previous batch or marker.
        - `before`: the previous batch. For a batch with sequences, it is the previous batch with sequences.
        - `epoch_before`: the largest epoch of the earlier batches.
        - `marked`: the previous marker. `marked_epoch`: the largest epoch of the earlier markers.
        - `coordinated`: the earlier marker with the largest coordinator epoch; if several have it, the last of them.
        - `was_open` (bool): a transaction was open.
        - `opened`: the previous transactional batch with sequences; null if any control batch follows it, even one
          that compaction emptied. `opened_epoch`: the largest epoch of the earlier transactional batches with
          sequences.
        - `is_aborted` (bool): the batch's transaction was aborted.
        - `is_read` (bool): read_committed consumers get the batch, because it is neither aborted nor below the log
          start offset.
    """
    known = F.broadcast(partitions.select(*PARTITION_KEY, "log_start_offset", "is_compacted"))
    rows = batches.join(F.broadcast(suspects), on=list(PRODUCER), how="left_semi").join(known, on=list(PARTITION_KEY))
    along = Window.partitionBy(*PRODUCER).orderBy("base_offset")
    before = along.rowsBetween(Window.unboundedPreceding, -1)
    opened = F.when(F.col("is_data") & F.col("is_transactional"), _data())
    ended = F.max(F.when(~F.col("is_of_client"), F.col("base_offset"))).over(before)
    rows = rows.select("*", F.last(opened, True).over(before).alias("opened"), ended.alias("ended"))
    is_open = F.coalesce(F.col("opened")["base_offset"] > F.col("ended"), F.lit(True))
    rows = rows.withColumn("opened", F.when(is_open, F.col("opened"))).drop("ended")
    # Control batches that compaction emptied were needed to compute `opened`, and for nothing else.
    rows = rows.where(F.col("is_of_client") | F.col("marker").isNotNull())
    is_data, is_marker = F.col("is_data"), F.col("marker").isNotNull()
    last_data, last_batch = (
        F.last(F.when(F.col(name), _data()), True).over(before) for name in ("is_data", "is_of_client")
    )
    opens = F.col("is_of_client") & F.col("is_transactional")
    marked = F.struct("base_offset", "last_offset", "producer_epoch", "marker")
    coordinated = F.struct("coordinator_epoch", "base_offset", "last_offset", "producer_epoch")
    seen = rows.select(
        "*",
        F.lag(F.struct("base_offset", "last_offset", "producer_epoch", "timestamp")).over(along).alias("seen"),
        F.when(is_data, last_data).otherwise(last_batch).alias("before"),
        F.max(F.when(F.col("is_of_client"), F.col("producer_epoch"))).over(before).alias("epoch_before"),
        F.max(F.when(is_data & F.col("is_transactional"), F.col("producer_epoch"))).over(before).alias("opened_epoch"),
        F.last(F.when(is_marker, marked), True).over(before).alias("marked"),
        F.max(F.when(is_marker, F.col("producer_epoch"))).over(before).alias("marked_epoch"),
        F.max(F.when(is_marker, coordinated)).over(before).alias("coordinated"),
        F.coalesce(
            F.last(F.when(is_marker, F.lit(False)).when(opens, F.lit(True)), True).over(before), F.lit(False)
        ).alias("was_open"),
        F.count(F.when(is_marker, 1)).over(before).alias("transaction"),
    )
    ends = F.max("marker").over(Window.partitionBy(*PRODUCER, "transaction"))
    fate = seen.withColumn("is_aborted", F.col("is_transactional") & F.coalesce(ends == ABORT, F.lit(False)))
    return fate.withColumn("is_read", ~F.col("is_aborted") & (F.col("last_offset") >= F.col("log_start_offset")))


def sequences(seen: DataFrame) -> DataFrame:
    """Return the rows of `history` with the places of their sequences.

    Returns:
        The columns of `history`, the columns of `_with_read`, and the columns below. They compare a batch with the
        earlier batches of the same producer and epoch. They are valid only for rows with `is_data`. Without an earlier
        batch, `frontier`, `run_frontier`, `lowest`, `step` and `copy` are null.

        - `place`: place of the first sequence, 0 for the first batch. `place_end`: exclusive end.
        - `frontier`: the largest earlier `place_end`. `lowest`: the smallest earlier `place`.
        - `run_frontier`: like `frontier`, but only over the batches since the last restart with sequence 0.
        - `step`: distance from the previous batch's `sequence_end`; 0 if the batch continues that batch.
        - `has_hole` (bool): an earlier batch skipped sequences, so a place below `frontier` may be unwritten.
        - `copy`: an earlier batch with the same sequences: the last one for which `is_read` is true. If `is_read` is
          true for none of these batches, the last of them.
    """
    in_epoch = Window.partitionBy(*EPOCH).orderBy("base_offset")
    stepped = seen.withColumn("step", step(F.col("base_sequence"), F.lag("sequence_end").over(in_epoch))).withColumn(
        "moved", F.coalesce(F.col("step") + F.lag("length").over(in_epoch), F.lit(0))
    )
    begins_anew = F.coalesce((F.col("base_sequence") == 0) & (F.col("step") != 0), F.lit(False)).cast("int")
    placed = stepped.select(
        "*", F.sum("moved").over(in_epoch).alias("place"), F.sum(begins_anew).over(in_epoch).alias("part")
    ).withColumn("place_end", F.col("place") + F.col("length"))
    same, copy = Window.partitionBy(*EPOCH, "base_sequence", "length").orderBy("base_offset"), _data("crc", "is_read")
    reached = placed.select(
        "*",
        F.max("place_end").over(_before(in_epoch)).alias("frontier"),
        F.min("place").over(_before(in_epoch)).alias("lowest"),
        F.max("place_end")
        .over(_before(Window.partitionBy(*EPOCH, "part").orderBy("base_offset")))
        .alias("run_frontier"),
        F.coalesce(F.last(F.when(F.col("is_read"), copy), True).over(_before(same)), F.lag(copy).over(same)).alias(
            "copy"
        ),
    )
    leaps = (F.col("place") > F.col("frontier")).cast("int")
    has_hole = F.coalesce(F.max(leaps).over(_before(in_epoch)) == 1, F.lit(False))
    return _with_read(reached.withColumn("has_hole", has_hole))


def _with_read(placed: DataFrame) -> DataFrame:
    """Add three columns about sequences that read_committed consumers got from earlier batches of the epoch.

    - `may_be_read` (bool): the batch overlaps the range from the lowest to the highest place that was read.
    - `was_read` (bool): the batch overlaps the part of that range above the range's last gap.
    - `follows_double` (bool): `is_read` and `was_read` are true for the previous batch of the epoch.
    """
    in_epoch = Window.partitionBy(*EPOCH).orderBy("base_offset")
    before, is_read = _before(in_epoch), F.col("is_read")
    frontier, first = F.col("read_frontier"), F.col("read_from")
    rows = placed.select(
        "*",
        F.max(F.when(is_read, F.col("place_end"))).over(before).alias("read_frontier"),
        F.min(F.when(is_read, F.col("place"))).over(before).alias("read_lowest"),
    )
    leaps = frontier.isNull() | (F.col("place") > frontier)
    rows = rows.withColumn("read_from", F.last(F.when(is_read & leaps, F.col("place")), True).over(before))
    goes_back = F.col("place") < frontier
    rows = rows.withColumns(
        {
            "may_be_read": F.coalesce(goes_back & (F.col("place_end") > F.col("read_lowest")), F.lit(False)),
            "was_read": F.coalesce(goes_back & (F.col("place_end") > first), F.lit(False)),
        }
    )
    doubles = F.lag(is_read & F.col("was_read")).over(in_epoch)
    return rows.withColumn("follows_double", F.coalesce(doubles, F.lit(False)))


def _before(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, -1)


def _data(*more: str) -> Column:
    """Return a struct with the columns of a batch. The rows of later batches contain it, for example as `before`."""
    names = ("base_offset", "last_offset", "producer_epoch", "base_sequence", "length", "partition_leader_epoch")
    return F.struct(*names, *more)
