"""Findings about records that were sent again under another producer id or epoch, which no broker can recognize."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline.audit.batches import PRODUCER
from tiersnap.jobs.pipeline.audit.found import found, of_batch, of_before, rows_of
from tiersnap.jobs.pipeline.audit.history import EPOCH, history
from tiersnap.snapshot.exactly_once.models.audit_rules import CONFIDENCE, IN_FLIGHT, AuditKind, Confidence
from tiersnap.snapshot.tables.schemas import PARTITION_KEY

# Words of CONFIDENCE as SQL over the rows of `_with_original`.
_IS = {
    "next epoch": "producer_id = original.producer_id and producer_epoch > original.producer_epoch",
    "other id": "producer_id <> original.producer_id",
    "yes": f"not is_transactional and not original.is_transactional and number <= {IN_FLIGHT} "
    f"and original.of_epoch - original.number < {IN_FLIGHT}",
    "several": "record_count > 1",
    "one": "record_count = 1",
    "any": "true",
}


def renumbered(batches: DataFrame, copied: DataFrame, partitions: DataFrame) -> DataFrame:
    """Rows of `batches.audited` and of `copies.copies` -> rows of FOUND: each copy after the first of the same records.

    Args:
        partitions: rows of audit.partitions.
    """
    original, confidence = F.col("original"), _confidence()
    finding = found(
        AuditKind.DUPLICATE_RENUMBERED,
        "original.producer_id <> producer_id or original.producer_epoch <> producer_epoch",
        **of_batch(),
        **of_before("original"),
        before_producer_id=original["producer_id"],
        confidence=confidence,
        is_hidden=F.col("is_aborted") | ~original["is_read"] | (confidence == Confidence.LOW),
    )
    return rows_of(_with_original(batches, copied, partitions), finding)


def _with_original(batches: DataFrame, copied: DataFrame, partitions: DataFrame) -> DataFrame:
    """Rows of `copies.copies` with what `history` says of them; `original`: the first of the same records that is read.

    Where none is read it is the first of all. `number` counts a batch in its epoch from 1, of `of_epoch` batches.
    """
    seen = history(batches, copied.select(*PRODUCER).distinct(), partitions).where("is_data")
    in_epoch = Window.partitionBy(*EPOCH)
    numbered = seen.select(
        "*",
        F.row_number().over(in_epoch.orderBy("base_offset")).alias("number"),
        F.count("*").over(in_epoch).alias("of_epoch"),
    )
    place = (*PARTITION_KEY, "base_offset")
    rows = numbered.join(copied.select(*place, "content"), on=list(place))
    before = Window.partitionBy("content").orderBy("base_offset").rowsBetween(Window.unboundedPreceding, -1)
    names = ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "length")
    batch = F.struct(*names, "is_transactional", "is_read", "number", "of_epoch")
    first_read = F.first(F.when(F.col("is_read"), batch), True).over(before)
    return rows.withColumn("original", F.coalesce(first_read, F.first(batch).over(before)))


def _confidence() -> Column:
    """CONFIDENCE, row by row as it stands there."""
    columns = ("numbers", "in flight", "records")
    fits = (" and ".join(f"({_IS[row[column]]})" for column in columns) for row in CONFIDENCE)
    rows = zip(fits, CONFIDENCE, strict=True)
    return F.coalesce(*(F.when(F.expr(condition), row["confidence"]) for condition, row in rows))
