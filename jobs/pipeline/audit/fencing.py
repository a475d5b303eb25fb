"""Findings about epochs and transactions. Each kind has a function that returns a column made by `found.found`.

The epoch rules also apply to batches without sequences, since a broker refuses every batch with a lower epoch than its
producer's epoch.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.audit.found import forgotten, found, of_batch, of_before, place, rows_of
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind
from tiersnap.snapshot.formats.record_batch import ABORT
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY


def _is_below(epoch: str) -> Column:
    return F.coalesce(F.col("producer_epoch") < F.col(epoch), F.lit(False))


def _is_of_operator() -> Column:
    """Return a condition: an operator wrote this ABORT with `kafka-transactions.sh abort`.

    If the producer state has no coordinator epoch, the tool sends 0. So the condition requires a coordinator epoch of
    at most 0.
    """
    return F.col("was_open") & (F.col("marker") == ABORT) & (F.col("coordinator_epoch") <= 0)


def fencing() -> tuple[Column, ...]:
    """Return the findings of this module that depend on a single row of `history`, one column per kind."""
    return (zombie_write(), zombie_marker(), epoch_regression(), plain_in_transaction(), epoch_raised(), fenced())


def zombie_write() -> Column:
    """Return the finding of a batch whose epoch is below the epoch of an earlier marker.

    When the producer wrote the batch, the coordinator had already fenced the producer.
    """
    condition = F.col("is_of_client") & _is_below("marked_epoch")
    return found(AuditKind.ZOMBIE_WRITE, condition, **{**forgotten(), **_of_marker()})


def zombie_marker() -> Column:
    """Return the finding of a marker whose producer epoch or coordinator epoch is too low.

    A producer epoch is too low if the producer's previous batch or marker has a higher one. Older rows do not count:
    if a zombie wrote to a transaction, the coordinator aborts the transaction with the zombie's lower epoch. A
    coordinator epoch is too low if any earlier marker has a higher one.
    """
    below, seen, other = _is_below("seen.producer_epoch"), F.col("seen"), F.col("coordinated")
    last_offset = F.when(below, seen["last_offset"]).otherwise(other["last_offset"])
    columns = {
        **forgotten(),
        "before_epoch": F.when(below, seen["producer_epoch"]).otherwise(other["producer_epoch"]),
        "before_first_offset": F.when(below, seen["base_offset"]).otherwise(other["base_offset"]),
        "before_last_offset": last_offset,
        "evidence_offset": last_offset,
        "is_hidden": F.lit(False),
    }
    is_fenced = (F.col("coordinator_epoch") < other["coordinator_epoch"]) & ~_is_of_operator()
    return found(AuditKind.ZOMBIE_MARKER, F.isnotnull("marker") & (below | is_fenced), **columns)


def epoch_regression() -> Column:
    """Return the finding of a batch with a lower epoch than an earlier batch.

    If an earlier marker has a higher epoch, `zombie_write` finds the batch instead.
    """
    columns = {**forgotten(), **of_before("before"), "before_epoch": F.col("epoch_before")}
    is_lower = F.col("producer_epoch") < F.col("epoch_before")
    condition = F.col("is_of_client") & is_lower & ~_is_below("marked_epoch")
    return found(AuditKind.EPOCH_REGRESSION, condition, **columns)


def plain_in_transaction() -> Column:
    """Return the finding of a non-transactional batch inside its producer's open transaction.

    A broker throws InvalidTxnStateException if it replays such a batch.
    """
    columns = {**of_batch(), **of_before("before")}
    condition = F.col("is_data") & ~F.col("is_transactional") & F.col("was_open")
    return found(AuditKind.NON_TRANSACTIONAL_IN_TRANSACTION, condition, **columns)


def epoch_raised() -> Column:
    """Return the finding of a transactional batch with a higher epoch than the open transaction that contains it.

    A coordinator grants a higher epoch only after it wrote markers to all partitions that the producer added to the
    transaction. So the coordinator does not know that this partition is in the transaction. The next transaction's
    marker then commits or aborts the records of both transactions. A compacted log gets no finding, because the log
    cleaner may have removed the marker between the two transactions. If offsets are missing between the two
    transactions, `judged` drops the finding, because the missing batches may include the marker.
    """
    is_raised = F.col("producer_epoch") > F.col("opened_epoch")
    condition = F.col("is_data") & F.col("is_transactional") & ~F.col("is_compacted") & is_raised
    is_known = F.col("opened.last_offset") >= F.col("log_start_offset")
    columns = {**of_batch(), **of_before("opened"), "is_hidden": F.col("is_aborted")}
    return found(AuditKind.EPOCH_RAISED_IN_TRANSACTION, condition & is_known, **columns)


def fenced() -> Column:
    """Return the finding of the first batch after a coordinator fenced the producer and aborted its transaction.

    To fence a producer, a coordinator raises the epoch in the ABORT marker. No producer writes batches with this epoch.
    With transactions version 2 (KIP-890) every marker raises the epoch, but the producer then writes batches with the
    raised epoch. So an ABORT marker proves a fencing only if the next batch has a higher epoch than the marker. The
    `before_...` columns describe the marker.
    """
    marked = F.col("marked")
    is_raised = (marked["producer_epoch"] > F.col("epoch_before")) & (
        F.col("producer_epoch") > marked["producer_epoch"]
    )
    is_next = (marked["last_offset"] == F.col("seen.last_offset")) & (marked["marker"] == ABORT)
    condition = F.col("is_data") & F.isnotnull("before") & is_raised & is_next
    return found(AuditKind.FENCED, condition, **of_batch(), **_of_marker())


def open_transactions(producers: DataFrame) -> DataFrame:
    """Return a finding (schema FOUND) for each row of `producers.producers` whose last transaction has no marker.

    The finding has the offsets of the transaction's first and last batch.
    """
    finding = found(
        AuditKind.OPEN_TRANSACTION,
        F.col("opened") > F.coalesce("ended", F.lit(-1)),
        producer_id=F.col("producer_id"),
        producer_epoch=F.col("open_epoch"),
        first_offset=F.col("opened"),
        last_offset=F.col("written"),
        **place("opened_"),
    )
    return rows_of(producers, finding)


def out_of_order_timestamps(producers: DataFrame) -> DataFrame:
    """Return one finding (schema FOUND) for each partition with producers whose timestamps step back.

    Args:
        producers: rows of `producers.producers`.
    Returns:
        `batches`: the number of steps back of all producers. The producer id, the offsets and `distance` (ms) describe
        the largest step back.
    """
    names = (
        *("distance", "furthest_base_offset", "furthest_last_offset", "furthest_timed_before", "producer_id"),
        *("furthest_segment_base_offset", "furthest_position", "furthest_timestamp"),
    )
    step = F.max(F.struct(*names)).alias("step")
    sums = producers.where("steps_back > 0").groupBy(*PARTITION_KEY).agg(F.sum("steps_back").alias("steps"), step)
    finding = found(
        AuditKind.OUT_OF_ORDER_TIMESTAMPS,
        F.lit(True),
        producer_id=F.col("step.producer_id"),
        before_last_offset=F.col("step.furthest_timed_before"),
        first_offset=F.col("step.furthest_base_offset"),
        last_offset=F.col("step.furthest_last_offset"),
        distance=F.col("step.distance"),
        batches=F.col("steps"),
        **place("step.furthest_"),
    )
    return rows_of(sums, finding)


def _of_marker() -> dict[str, Column]:
    marker = F.col("marked")
    return {
        "before_epoch": marker["producer_epoch"],
        "before_first_offset": marker["base_offset"],
        "before_last_offset": marker["last_offset"],
    }
