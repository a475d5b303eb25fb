"""Findings judged by `audit_rules.TABLE`, row by row as it stands there, and the harm that is left."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.audit.batches import HOLE
from tiersnap.jobs.pipeline.audit.transactional_ids import with_transactional_ids
from tiersnap.snapshot.exactly_once.models.audit_rules import (
    FORGOTTEN,
    JUDGEMENTS,
    MISSING,
    RULE,
    TABLE,
    UNREAD,
    AuditKind,
    harm_of,
)
from tiersnap.snapshot.tables.schemas import AUDIT_FINDINGS, PARTITION_KEY

_MISSING = tuple(str(kind) for kind in sorted(MISSING))
_FORGOTTEN = tuple(str(kind) for kind in sorted(FORGOTTEN))
_IS_MISSING = f"kind in {_MISSING}"
# A marker may have been where nothing is now.
_IS_WHOLE = f"kind = '{AuditKind.EPOCH_RAISED_IN_TRANSACTION}'"
_IS_THERE = f"kind in {_FORGOTTEN}"
# Nothing is missing between the two batches, so that others have the offsets of what is: an election cut it off.
_OTHER_IS_THERE = "coalesce(has_new_leader, false) and not is_torn"


def _conditions(expiration: int | None) -> dict[str, str]:
    """The conditions of `audit_rules.TABLE` that an audit can meet; log ends and high watermarks it never does."""
    is_idle = "false" if expiration is None else f"coalesce(idle_ms >= {expiration} and not was_open, false)"
    return {
        "no evidence of the producer": "evidence_offset is null",
        "below the log start": "evidence_offset < log_start_offset",
        "in the log, idle for too long": f"{_IS_THERE} and {is_idle}",
        "in the log": _IS_THERE,
        "another batch there, replicated": _OTHER_IS_THERE,
        "always": "true",
    }


def judged(
    found: DataFrame, holes: DataFrame, partitions: DataFrame, ids: DataFrame, *, run: int, expiration: int | None
) -> DataFrame:
    """Judge FOUND rows -> AUDIT_FINDINGS.

    Args:
        holes: rows of `holes`: what was not read is not lost, and what no hole explains was overwritten.
        partitions, ids: rows of audit.partitions and of `transactional_ids`.
        run: number of the audit.
        expiration: ms, the broker's producer.id.expiration.ms; None if it never drops producers.
    """
    known = F.broadcast(partitions.select(*PARTITION_KEY, "log_start_offset", "cluster_id"))
    rows = _with_holes(found.join(known, on=list(PARTITION_KEY), how="left"), holes)
    is_visible = F.col("last_offset").isNull() | (F.col("last_offset") >= F.col("log_start_offset"))
    judgement = F.when(F.expr(f"not ({_IS_MISSING} or {_IS_THERE})"), "")
    judgement = judgement.when(F.expr(f"{_IS_MISSING} and is_unread"), UNREAD)
    conditions = _conditions(expiration)
    for row in TABLE:
        if row["condition"] in conditions:
            judgement = judgement.when(F.expr(conditions[row["condition"]]), row["verdict"])
    rows = rows.where(is_visible & ~F.expr(f"{_IS_WHOLE} and is_torn")).withColumn("judgement", judgement)
    rows = with_transactional_ids(rows, ids)
    rules = _lookup({str(kind): rule for kind, rule in RULE.items()}, F.col("kind"))
    return rows.select(
        *PARTITION_KEY,
        F.lit(run).cast("long").alias("run"),
        "kind",
        rules.alias("rule"),
        "judgement",
        _harm().alias("harm"),
        "transactional_id",
        *(name for name in AUDIT_FINDINGS.names if name in found.columns and name not in (*PARTITION_KEY, "kind")),
    ).select(*AUDIT_FINDINGS.names)


def _with_holes(found: DataFrame, holes: DataFrame) -> DataFrame:
    """`is_torn` and `is_unread`: offsets are missing between the two batches, and some of them were not read."""
    theirs = holes.select(*(F.col(name).alias(f"its_{name}") for name in HOLE))
    start = F.coalesce(F.col("before_last_offset") + 1, F.col("log_start_offset"))
    lies_between = (
        F.expr(f"({_IS_MISSING} or {_IS_WHOLE})")
        & F.expr(" and ".join(f"its_{name} = {name}" for name in PARTITION_KEY))
        & (F.col("its_hole_start") < F.col("first_offset"))
        & (F.col("its_hole_end") > start)
    )
    joined = found.join(theirs, on=lies_between, how="left")
    return joined.groupBy(*found.columns).agg(
        F.bool_or(F.col("its_hole_start").isNotNull()).alias("is_torn"),
        F.bool_or(F.coalesce("its_is_unread", F.lit(False))).alias("is_unread"),
    )


def _harm() -> Column:
    """`audit_rules.harm_of`, looked up."""

    def of(*, is_hidden: bool) -> Column:
        harms = {
            f"{kind}/{judgement}": str(harm_of(kind, judgement, is_hidden=is_hidden))
            for kind in AuditKind
            for judgement in JUDGEMENTS
        }
        return _lookup(harms, F.concat_ws("/", "kind", "judgement"))

    return F.when(F.coalesce("is_hidden", F.lit(False)), of(is_hidden=True)).otherwise(of(is_hidden=False))


def _lookup(values: dict[str, str], key: Column) -> Column:
    return F.create_map(*(F.lit(each) for each in chain(*values.items())))[key]
