"""The judgement and the harm of each finding, by `audit_rules.TABLE`: the first row that applies decides."""

from __future__ import annotations

from functools import reduce
from itertools import chain
from operator import and_

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
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY
from tiersnap.snapshot.tables.spark_made_tables import AUDIT_FINDINGS

_MISSING = tuple(str(kind) for kind in sorted(MISSING))
_FORGOTTEN = tuple(str(kind) for kind in sorted(FORGOTTEN))


def _is_missing() -> Column:
    return F.col("kind").isin(*_MISSING)


def _is_there() -> Column:
    return F.col("kind").isin(*_FORGOTTEN)


def _is_whole() -> Column:
    """Return a condition: `judged` drops findings of this kind if offsets are missing between the two batches.

    The missing batches may include a marker.
    """
    return F.col("kind") == str(AuditKind.EPOCH_RAISED_IN_TRANSACTION)


def _conditions(expiration: int | None) -> dict[str, Column]:
    """Return the conditions of `audit_rules.TABLE` that can be computed from batch headers.

    Conditions on log end offsets and high watermarks are absent: an audit has neither.
    """
    is_idle = F.lit(False)
    if expiration is not None:
        is_idle = F.coalesce((F.col("idle_ms") >= expiration) & ~F.col("was_open"), F.lit(False))
    return {
        "no evidence of the producer": F.isnull("evidence_offset"),
        "below the log start": F.col("evidence_offset") < F.col("log_start_offset"),
        "in the log, idle for too long": _is_there() & is_idle,
        "in the log": _is_there(),
        # No offset is missing between the two batches, so other batches replaced the lost one after an election.
        "another batch there, replicated": F.coalesce("has_new_leader", F.lit(False)) & ~F.col("is_torn"),
        "always": F.lit(True),
    }


def judged(
    found: DataFrame, holes: DataFrame, partitions: DataFrame, ids: DataFrame, *, run: int, expiration: int | None
) -> DataFrame:
    """Return the findings with their judgement and harm (schema AUDIT_FINDINGS).

    Args:
        found: the findings (schema FOUND).
        holes: rows of `batches.holes`. They show whether missing batches were unread, lost or overwritten.
        partitions: rows of `partitions.of_listing` or `of_facts`.
        ids: rows of `transactional_ids`.
        run: number of the audit.
        expiration: the broker's producer.id.expiration.ms; None for no expiration.
    """
    known = F.broadcast(partitions.select(*PARTITION_KEY, "log_start_offset", "cluster_id"))
    rows = _with_holes(found.join(known, on=list(PARTITION_KEY), how="left"), holes)
    is_visible = F.col("last_offset").isNull() | (F.col("last_offset") >= F.col("log_start_offset"))
    judgement = F.when(~(_is_missing() | _is_there()), "").when(_is_missing() & F.col("is_unread"), UNREAD)
    conditions = _conditions(expiration)
    for row in TABLE:
        if row["condition"] in conditions:
            judgement = judgement.when(conditions[row["condition"]], row["verdict"])
    rows = rows.where(is_visible & ~(_is_whole() & F.col("is_torn"))).withColumn("judgement", judgement)
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
    """Add two columns (bool) about the offsets between the two batches of a finding.

    - `is_torn`: offsets are missing.
    - `is_unread`: some of the missing offsets were not decoded.
    """
    theirs = holes.select(*(F.col(name).alias(f"its_{name}") for name in HOLE))
    start = F.coalesce(F.col("before_last_offset") + 1, F.col("log_start_offset"))
    lies_between = (
        (_is_missing() | _is_whole())
        & reduce(and_, (F.col(f"its_{name}") == F.col(name) for name in PARTITION_KEY))
        & (F.col("its_hole_start") < F.col("first_offset"))
        & (F.col("its_hole_end") > start)
    )
    joined = found.join(theirs, on=lies_between, how="left")
    return joined.groupBy(*found.columns).agg(
        F.bool_or(F.col("its_hole_start").isNotNull()).alias("is_torn"),
        F.bool_or(F.coalesce("its_is_unread", F.lit(False))).alias("is_unread"),
    )


def _harm() -> Column:
    """Return the harm of a finding: the result of `audit_rules.harm_of` for its kind, judgement and `is_hidden`."""

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
