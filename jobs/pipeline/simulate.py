"""`tiersnap simulate --warehouse`, also with --risk: every partition that was replayed, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.before_spark import Session
from tiersnap.jobs.pipeline.session import spoken
from tiersnap.jobs.pipeline.surveying import started_on, surveyed_partitions
from tiersnap.snapshot.exactly_once.simulate.kinds import FleetWrite
from tiersnap.snapshot.exactly_once.simulate.outcomes import TALLIED, Tally
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import BoundaryRow, PartitionRow
from tiersnap.snapshot.exactly_once.simulate.risk_rows import ADDED, BOUNDARIES, GREATEST, PARTITIONS, RiskTotals
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tasks.simulate_partition import SIMULATED, RiskPartition, SimulatePartition
from tiersnap.snapshot.units import count_of

_COUNTED = ("writes", "example")


@dataclass
class SimulateOutcome:
    """Rows of SIMULATED summed over so many `partitions`, what doubles first; the counts; what else is to be said."""

    rows: list[FleetWrite]
    tally: Tally
    said: list[str] = field(default_factory=list)
    unlocated: int = 0  # partitions that are left out: nothing tells where their logs begin


@spoken("simulate")
def simulate_warehouse(
    spark: SparkSession | Session, warehouse: str, selection: Selection, task: SimulatePartition, *, everything: bool
) -> SimulateOutcome:
    """Simulate from the tables (`everything`: also answers as the leader's); SourceNotFoundError without a replay."""
    spark = started_on(warehouse, spark)
    return _simulated(surveyed_partitions(spark, warehouse, selection, task), task, everything)


def _simulated(rows: DataFrame, task: SimulatePartition, everything: bool) -> SimulateOutcome:
    same = [name for name in SIMULATED.names if name not in _COUNTED]
    answers = rows.where("write is not null" if everything else "differs")
    counted = answers.groupBy(*same, "differs").agg(
        F.sum("writes").alias("writes"),
        F.min("example").alias("example"),
        F.count_distinct("log_dir", "topic", "partition").alias("partitions"),
    )
    order = [F.col("doubles").desc(), F.col("differs").desc(), F.col("writes").desc(), *(F.col(name) for name in same)]
    found = [row.asDict() for row in counted.orderBy(*order).collect()]  # kinds of answers, not partitions
    totals = (
        rows.where("write is null")
        .agg(
            F.count("*").alias("partitions"),
            F.count_if(~F.col("is_simulated")).alias("unread"),
            F.count_if("is_unlocated").alias("unlocated"),
            F.count_if(~F.col("has_headers")).alias("headless"),
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("expired", *TALLIED)),
        )
        .collect()[0]
        .asDict()
    )
    tally = Tally(**{name: totals[name] for name in TALLIED})
    outcome = SimulateOutcome(Rows(FleetWrite).read_dicts(found), tally, unlocated=totals["unlocated"])
    if totals["unread"]:
        outcome.said.append(
            f"{totals['unread']} of {count_of(totals['partitions'], 'partition')} cannot be replayed to their end"
        )
    if totals["headless"]:
        outcome.said.append(
            f"{count_of(totals['headless'], 'partition')} without batch headers: only last batches are sent again "
            "there: tiersnap decode --apply writes the headers"
        )
    if totals["expired"]:
        outcome.said.append(
            f"{count_of(totals['expired'], 'producer is', 'producers are')} left out, every broker has dropped them "
            "by now"
        )
    return outcome


_WORST = ("doubled", "lost", "degraded")


@dataclass
class RiskOutcome:
    """The worst rows, the sums over all, and what else is to be said."""

    rows: Sequence[BoundaryRow | PartitionRow]
    totals: RiskTotals
    said: list[str] = field(default_factory=list)


@spoken("simulate --risk")
def risk_of_warehouse(
    spark: SparkSession | Session,
    warehouse: str,
    selection: Selection,
    settings: RiskSettings,
    *,
    boundaries: bool,
    limit: int,
) -> RiskOutcome:
    """Reckon the numbers from the tables, and bring the worst `limit` rows; SourceNotFoundError without a replay."""
    spark = started_on(warehouse, spark)
    rows = surveyed_partitions(spark, warehouse, selection, RiskPartition(settings))
    totals, headless = _totals(rows)
    if boundaries:
        rows = surveyed_partitions(spark, warehouse, selection, RiskPartition(settings, boundaries=True))
    found = _worst(rows, limit + 1, boundaries=boundaries)
    outcome = RiskOutcome(found[:limit], totals)
    if len(found) > limit:
        outcome.said.append(f"these are the worst {limit}; --limit shows more")
    if headless:
        outcome.said.append(
            f"{count_of(headless, 'partition')} without batch headers: doubled_bytes is not known, and degraded "
            "leaves out older batches: tiersnap decode --apply writes the headers"
        )
    return outcome


def _worst(rows: DataFrame, limit: int, *, boundaries: bool) -> Sequence[BoundaryRow | PartitionRow]:
    worst = [*_WORST, *([] if boundaries else ["untiered_bytes"])]
    place = ["topic", "partition", "log_dir", *(["offset"] if boundaries else [])]
    order = [*(F.coalesce(name, F.lit(0)).desc() for name in worst), *(F.col(name) for name in place)]
    kind: Rows[BoundaryRow] | Rows[PartitionRow] = BOUNDARIES if boundaries else PARTITIONS
    return kind.read_dicts([row.asDict() for row in rows.orderBy(*order).limit(limit).collect()])


def _totals(rows: DataFrame) -> tuple[RiskTotals, int]:
    """Sums, and the partitions without headers."""
    is_endless = (F.col("lost") > 0) & F.isnull("exposed_ms")
    waits = rows.groupBy("wait").agg(
        F.count("*").alias("partitions"),
        F.count("at").alias("blocked"),
        F.count_if(F.isnull("alive")).alias("unread"),
        F.count_if(is_endless).alias("endless"),
        F.count_if(~F.col("has_headers")).alias("headless"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ADDED),
        *(F.coalesce(F.max(name), F.lit(0)).alias(name) for name in GREATEST),
    )
    found = [row.asDict() for row in waits.collect()]  # a row a state of Wait
    added = {name: sum(row[name] for row in found) for name in ADDED}
    greatest = {name: max((row[name] for row in found), default=0) for name in GREATEST}
    by_wait = {str(row["wait"]): int(row["partitions"]) for row in sorted(found, key=lambda row: str(row["wait"]))}
    partitions, blocked, unread, endless, headless = (
        sum(row[name] for row in found) for name in ("partitions", "blocked", "unread", "endless", "headless")
    )
    return RiskTotals(partitions, blocked, unread, endless, by_wait, added | greatest), headless
