"""Findings about epochs and transactions, one small function a kind, see `found.found`.

Those about epochs are also of batches without sequences: a broker that knows the producer refuses any of a lower epoch.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.audit.found import forgotten, found, of_batch, of_before, place, rows_of
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind
from tiersnap.snapshot.formats.record_batch import ABORT
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY


def _is_below(epoch: str) -> Column:
    return F.coalesce(F.col("producer_epoch") < F.col(epoch), F.lit(False))


def _is_of_operator() -> Column:
    """Return whether an operator aborted.

    The coordinator epoch is then the one that the broker knows, and 0 where it knows none.
    """
    return F.col("was_open") & (F.col("marker") == ABORT) & (F.col("coordinator_epoch") <= 0)


def fencing() -> tuple[Column, ...]:
    """All kinds about one batch or marker."""
    return (zombie_write(), zombie_marker(), epoch_regression(), plain_in_transaction(), epoch_raised(), fenced())


def zombie_write() -> Column:
    """A batch of an epoch that a marker before it had already left: the coordinator had fenced its producer."""
    condition = F.col("is_of_client") & _is_below("marked_epoch")
    return found(AuditKind.ZOMBIE_WRITE, condition, **{**forgotten(), **_of_marker()})


def zombie_marker() -> Column:
    """A marker of a lower epoch than what is right before it, or of a coordinator that another one had followed.

    What came right before counts, not the largest epoch: what a zombie left open is aborted in the zombie's own epoch.
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
    """A batch of a lower epoch than a batch before it had, with no marker that says so."""
    columns = {**forgotten(), **of_before("before"), "before_epoch": F.col("epoch_before")}
    is_lower = F.col("producer_epoch") < F.col("epoch_before")
    condition = F.col("is_of_client") & is_lower & ~_is_below("marked_epoch")
    return found(AuditKind.EPOCH_REGRESSION, condition, **columns)


def plain_in_transaction() -> Column:
    """A batch outside transactions while its producer has one open: no broker can replay it."""
    columns = {**of_batch(), **of_before("before")}
    condition = F.col("is_data") & ~F.col("is_transactional") & F.col("was_open")
    return found(AuditKind.NON_TRANSACTIONAL_IN_TRANSACTION, condition, **columns)


def epoch_raised() -> Column:
    """A batch of a higher epoch in a transaction that is still open.

    A coordinator grants a higher epoch only when the transaction before has its marker wherever it knows of it. So what
    was open is not known to it, and the marker of the next transaction decides it. Where the log may have lost a marker
    between the two, in a compacted one or at a hole (see `judged`), nothing is said.
    """
    is_raised = F.col("producer_epoch") > F.col("opened_epoch")
    condition = F.col("is_data") & F.col("is_transactional") & ~F.col("is_compacted") & is_raised
    is_known = F.col("opened.last_offset") >= F.col("log_start_offset")
    columns = {**of_batch(), **of_before("opened"), "is_hidden": F.col("is_aborted")}
    return found(AuditKind.EPOCH_RAISED_IN_TRANSACTION, condition & is_known, **columns)


def fenced() -> Column:
    """A coordinator aborted over a producer's head, in an epoch above the transaction's, and nobody wrote in that.

    With transactions of version 2 every marker raises the epoch, and the producer goes on in it. So a fencing is known
    only by the batch that follows, of an epoch above the marker's. The finding names the marker as what came before.
    """
    marked = F.col("marked")
    is_raised = (marked["producer_epoch"] > F.col("epoch_before")) & (
        F.col("producer_epoch") > marked["producer_epoch"]
    )
    is_next = (marked["last_offset"] == F.col("seen.last_offset")) & (marked["marker"] == ABORT)
    condition = F.col("is_data") & F.isnotnull("before") & is_raised & is_next
    return found(AuditKind.FENCED, condition, **of_batch(), **_of_marker())


def open_transactions(producers: DataFrame) -> DataFrame:
    """Rows of `producers.producers` whose last transaction has no marker; its first and last offset."""
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
    """Rows of `producers.producers` -> one row a partition: batches that are older than their producer's one before.

    Its offsets are those of the widest step back, `distance` its milliseconds.
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
