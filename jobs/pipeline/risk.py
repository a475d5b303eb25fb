"""`tiersnap simulate --risk --warehouse`: the risks of every replayed partition, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.before_spark import Session
from tiersnap.jobs.pipeline.log_tables import LogTables, read_log_tables
from tiersnap.jobs.pipeline.partition_input import PartitionInput
from tiersnap.jobs.pipeline.session import spoken
from tiersnap.jobs.pipeline.surveying import started_on, surveyed_partitions
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings, partition_risk
from tiersnap.snapshot.exactly_once.simulate.replica_state import ReplicaState
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import BoundaryRow, PartitionRow, ReplicaKey
from tiersnap.snapshot.exactly_once.simulate.risk_rows import (
    ADDED,
    BOUNDARIES,
    GREATEST,
    PARTITIONS,
    RiskTotals,
    boundary_rows,
    partition_row,
)
from tiersnap.snapshot.exactly_once.simulate.survey import SnapshotFound, Survey
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.units import count_of


@dataclass(frozen=True)
class RiskPartition:
    """One partition; one that is never tiered, or was never replayed, gives no rows."""

    settings: RiskSettings
    boundaries: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return BOUNDARIES.schema if self.boundaries else PARTITIONS.schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reckon the numbers of the partition."""
        found = read_log_tables(PartitionInput(batches))
        survey = None if found is None else survey_of(found)
        if survey is None or survey.never_tiered:
            return
        risk = partition_risk(survey, self.settings)
        yield BOUNDARIES.batch(boundary_rows(risk)) if self.boundaries else PARTITIONS.batch([partition_row(risk)])


def survey_of(found: LogTables) -> Survey:
    """Return the survey of a partition from its tables, as a pass over its log would make it."""
    results, facts = found.results, found.replayed.facts
    snapshots, log_end = results.snapshots, facts.log_end_offset
    return Survey(
        ReplicaKey(results.log_dir, results.topic, results.partition),
        facts.internal or facts.compacted,
        facts.log_start_offset,
        log_end,
        tuple(results.segments.values()),
        {offset: SnapshotFound(each.comparison, each.file.file_bytes) for offset, each in snapshots.items()},
        {offset: each.open_transactions for offset, each in snapshots.items()},
        None if found.end is None else ReplicaState.of(found.end, found.batches),
        found.sightings,
        found.read_from,
        found.has_headers,
    )


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
