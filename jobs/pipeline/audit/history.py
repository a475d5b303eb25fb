"""The whole history of producers whose batches do not follow from each other: what the rules ask, as columns.

Sequences are laid out on a line: `place` of a batch is how far it lies behind the first one of its epoch, so that the
end of the circle of 2^31 is no step back. No frame of a window looks ahead: Spark walks those anew for every row.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window, WindowSpec

from tiersnap.jobs.pipeline.audit.batches import PRODUCER, step
from tiersnap.snapshot.formats.record_batch import ABORT
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY

# What has no sequences, as offset commits and markers have none, has lines of its own: it is in no batch's way.
EPOCH = (*PRODUCER, "producer_epoch", "is_data")


def history(batches: DataFrame, suspects: DataFrame, partitions: DataFrame) -> DataFrame:
    """Batches of suspects, also their markers, with what came before.

    Args:
        batches: rows of `batches.audited`.
        suspects: PRODUCER of each.
        partitions: rows of audit.partitions.
    Returns:
        rows of `batches`, `log_start_offset`, `is_compacted`, and
        `seen`: the producer's batch or marker before, null for its first;
        `before`: its last batch before, of one with sequences the last that has some; `epoch_before`: its largest
        epoch of a batch before;
        `marked`: its last marker before; `marked_epoch`: the largest epoch of one; `coordinated`: the last marker
        before of the largest coordinator epoch;
        `was_open`: it had a transaction open; `opened`: its last data batch of a transaction before, null where any
        control batch came since, also one that compaction emptied; `opened_epoch`: the largest epoch of such a batch;
        `is_aborted`: the batch is in a transaction that was aborted;
        `is_read`: readers of committed records get it: not aborted, and not below the log start offset.
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
    # What compaction emptied of a control batch says nothing more.
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
    """Rows of `history`, and of batches with sequences their places in their epoch.

    Returns:
        besides the columns of `history`, for batches with sequences:
        `place`: of the first sequence, `frontier`: the furthest place that a batch before reached (exclusive), null for
        the first of its epoch; `run_frontier`: likewise, since the last batch that began anew with sequence 0;
        `step`: from where the batch before it ended, 0 where it goes on; `lowest`: the first place before;
        `has_hole`: some place below the frontier may not have been written; `copy`: the last batch of these same
        sequences before it, of those that are read if one is; null where none is; and the columns of `_with_read`.
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
    """Rows with their places, and what readers of committed records had got of their sequences before.

    `may_be_read` (bool): some lie between the lowest and the furthest that was read;
    `was_read` (bool): some were read for certain, as they lie in what was read without a gap up to the furthest;
    `follows_double` (bool): the batch before it in its epoch was read, as some of its sequences had been.
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
    """A batch as later ones are told of it."""
    names = ("base_offset", "last_offset", "producer_epoch", "base_sequence", "length", "partition_leader_epoch")
    return F.struct(*names, *more)
