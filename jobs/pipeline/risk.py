"""The job of `tiersnap simulate --risk --warehouse`: it computes the risks of every replayed partition."""

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
    sums_of,
)
from tiersnap.snapshot.exactly_once.simulate.survey import SnapshotFound, Survey
from tiersnap.snapshot.gate.next_steps import decode_into
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.units import count_of


@dataclass(frozen=True)
class RiskPartition:
    """The task that computes the risks of one partition.

    A partition has no rows if brokers never tier it, or if no run has replayed it.

    Attributes:
        settings: settings of the simulation.
        boundaries: yield one row per snapshot offset; if False, one row per partition.
    """

    settings: RiskSettings
    boundaries: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return BOUNDARIES.schema if self.boundaries else PARTITIONS.schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the partition."""
        found = read_log_tables(PartitionInput(batches))
        if found is None:
            return
        survey = survey_of(found)
        if survey.never_tiered:
            return
        risk = partition_risk(survey, self.settings)
        if self.boundaries:
            yield BOUNDARIES.batch(boundary_rows(risk))
        else:
            yield PARTITIONS.batch([partition_row(risk)])


def survey_of(found: LogTables) -> Survey:
    """Return the survey of a partition from its tables. It equals the survey of the log itself."""
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
    """The worst rows, and sums over all rows."""

    rows: Sequence[BoundaryRow | PartitionRow]  # the worst first
    totals: RiskTotals
    said: list[str] = field(default_factory=list)  # further sentences to print


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
    """Compute the risks from the tables, and return the worst rows.

    Args:
        spark: a session, or a function that starts one.
        warehouse: URI.
        selection: the partitions.
        settings: settings of the simulation.
        boundaries: return one row per snapshot offset; if False, one row per partition.
        limit: largest number of rows.

    Raises:
        SourceNotFoundError: no partition was replayed in the warehouse.
    """
    spark = started_on(warehouse, spark)
    rows = surveyed_partitions(spark, warehouse, selection, RiskPartition(settings))
    totals, headless = _totals(rows)
    if boundaries:
        rows = surveyed_partitions(spark, warehouse, selection, RiskPartition(settings, boundaries=True))
    found = _worst(rows, limit + 1, boundaries=boundaries)
    outcome = RiskOutcome(found[:limit], totals)
    if len(found) > limit:
        outcome.said.append(f"only the worst {limit} rows are shown; to show more, raise --limit")
    if headless:
        outcome.said.append(
            f"{count_of(headless, 'partition')} without batch headers: the value of doubled_bytes is unknown, and "
            f"the value of degraded ignores older batches. To write the headers: {decode_into(warehouse)}"
        )
    return outcome


def _worst(rows: DataFrame, limit: int, *, boundaries: bool) -> Sequence[BoundaryRow | PartitionRow]:
    kind: Rows[BoundaryRow] | Rows[PartitionRow] = PARTITIONS
    worst, place = [*_WORST, "untiered_bytes"], ["topic", "partition", "log_dir"]
    if boundaries:
        kind, worst, place = BOUNDARIES, [*_WORST], [*place, "offset"]
    order = [F.coalesce(name, F.lit(0)).desc() for name in worst]
    found = rows.orderBy(*order, *map(F.col, place)).limit(limit).collect()
    return kind.read_dicts([row.asDict() for row in found])


def _totals(rows: DataFrame) -> tuple[RiskTotals, int]:
    """Return the sums over all rows, and the number of partitions without headers."""
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
    found = sorted(
        (row.asDict() for row in waits.collect()), key=lambda row: str(row["wait"])
    )  # one per member of Wait
    by_wait = {str(row["wait"]): row["partitions"] for row in found}
    names = ("partitions", "blocked", "unread", "endless", "headless")
    partitions, blocked, unread, endless, headless = (sum(row[name] for row in found) for name in names)
    return RiskTotals(partitions, blocked, unread, endless, by_wait, sums_of(found)), headless
