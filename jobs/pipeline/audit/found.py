"""The columns of a finding before `judged` judges it. A column is null in findings of kinds that do not use it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.audit.batches import in_circle
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY
from tiersnap.snapshot.tables.spark_made_tables import AUDIT_FINDINGS

_SAID = [
    field
    for field in schemas.of_arrow(AUDIT_FINDINGS).fields
    if field.name not in ("run", "kind", "rule", "judgement", "harm", "transactional_id", *PARTITION_KEY)
]
# Further columns that `judged` reads; the table audit_findings does not have them.
_EVIDENCE = [
    StructField("evidence_offset", LongType()),  # last offset of the producer before the finding
    StructField("idle_ms", LongType()),  # ms from that offset's timestamp to the finding's; null if not compared
    StructField("was_open", BooleanType()),  # the producer had an open transaction
    StructField("has_new_leader", BooleanType()),  # the partition's leader epoch rose between the two batches
    StructField("is_hidden", BooleanType()),  # see audit_rules.harm_of
]
FOUND = StructType(
    [
        *(schemas.of_arrow(AUDIT_FINDINGS)[name] for name in PARTITION_KEY),
        StructField("kind", StringType()),
        *_SAID,
        *_EVIDENCE,
    ]
)


def found(kind: AuditKind, condition: Column, **columns: Column) -> Column:
    """Return a struct column: the FOUND columns without PARTITION_KEY, or null if `condition` is false.

    Args:
        columns: values of FOUND columns. By default `batches` is 1, and each other column is null.
    """
    values = {"kind": F.lit(str(kind)), "batches": F.lit(1), **columns}
    unknown = values.keys() - set(FOUND.names)
    assert not unknown, unknown
    fields = (
        values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in FOUND.fields
        if field.name not in PARTITION_KEY
    )
    return F.when(condition, F.struct(*fields))


def rows_of(rows: DataFrame, *findings: Column) -> DataFrame:
    """Return one row (schema FOUND) for each non-null finding of each row.

    Args:
        rows: any rows with PARTITION_KEY.
        findings: columns of `found`.
    """
    each = F.explode(F.array_compact(F.array(*findings))).alias("found")
    return rows.select(*PARTITION_KEY, each).select(*PARTITION_KEY, "found.*")


def of_batch() -> dict[str, Column]:
    """Return the FOUND columns of a row of `history`: file position, timestamp, producer, offsets and sequences."""
    return {
        **place(),
        "producer_id": F.col("producer_id"),
        "producer_epoch": F.col("producer_epoch"),
        "first_offset": F.col("base_offset"),
        "last_offset": F.col("last_offset"),
        "first_sequence": F.when(F.col("is_data"), F.col("base_sequence")),
        "last_sequence": F.when(F.col("is_data"), _last_sequence(F.col("base_sequence"), F.col("length"))),
    }


def place(prefix: str = "") -> dict[str, Column]:
    """Return the FOUND columns of a batch's file position and timestamp.

    Args:
        prefix: prefix of the columns `segment_base_offset`, `position` and `timestamp` in the rows.
    """
    return {name: F.col(f"{prefix}{name}") for name in ("segment_base_offset", "position", "timestamp")}


def forgotten() -> dict[str, Column]:
    """Return the FOUND columns of a batch that a broker accepts only if the producer state lacks the producer."""
    return {
        **of_batch(),
        "evidence_offset": F.col("seen")["last_offset"],
        "idle_ms": F.col("timestamp") - F.col("seen")["timestamp"],
        "was_open": F.col("was_open"),
        "is_hidden": F.col("is_aborted"),
    }


def of_before(before: str) -> dict[str, Column]:
    """Return the `before_...` columns of FOUND.

    Args:
        before: name of a struct column of `history` that contains an earlier batch.
    """
    batch = F.col(before)
    has_sequence = batch["base_sequence"] >= 0
    return {
        "before_epoch": batch["producer_epoch"],
        "before_first_offset": batch["base_offset"],
        "before_last_offset": batch["last_offset"],
        "before_first_sequence": F.when(has_sequence, batch["base_sequence"]),
        "before_last_sequence": F.when(has_sequence, _last_sequence(batch["base_sequence"], batch["length"])),
    }


def _last_sequence(first: Column, length: Column) -> Column:
    return in_circle(first + length - 1)
