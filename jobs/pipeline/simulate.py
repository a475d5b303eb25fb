"""The job of `tiersnap simulate --warehouse`: it simulates the writes of the producers of every replayed partition.

The simulated replica starts at the newest segment's base offset. A real follower starts there too, if its leader has
tiered all closed segments. The tables contain the producer state at that offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.before_spark import Session
from tiersnap.jobs.pipeline.log_tables import LogTables, read_log_tables
from tiersnap.jobs.pipeline.partition_input import PartitionInput
from tiersnap.jobs.pipeline.session import spoken
from tiersnap.jobs.pipeline.surveying import started_on, surveyed_partitions
from tiersnap.snapshot.exactly_once.simulate.kinds import FleetWrite, SnapshotOrigin, WriteOutcome
from tiersnap.snapshot.exactly_once.simulate.outcomes import TALLIED, Tally, outcomes
from tiersnap.snapshot.exactly_once.simulate.replica import InItsPlace, in_its_place
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import ReplicaKey
from tiersnap.snapshot.exactly_once.simulate.settings import SimulationSettings
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.next_steps import decode_into
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.units import count_of

SIMULATED = Rows(WriteOutcome)


@dataclass(frozen=True, slots=True)
class SimulatedCounts:
    """The counts of one partition.

    Attributes:
        is_simulated: whether the partition was simulated; if not, the tables lack the state at the log end.
        is_unlocated: the log start offset is unknown, so the tables contain no state.
        has_headers: the tables have all batch headers, so retries of older batches were simulated too.
        expired: number of skipped producers. Every broker has dropped them, because they expired.
        tally: sums of the simulated writes.
    """

    is_simulated: bool
    is_unlocated: bool
    has_headers: bool
    expired: int
    tally: Tally


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """One simulated write to a partition's replica, or the counts of the partition."""

    replica: ReplicaKey
    answers: WriteOutcome | None = None  # the brokers' answers to the write; None in the row of counts
    differs: bool | None = None  # whether the leader gives another answer than the replica
    counts: SimulatedCounts | None = None


WHAT_IF = Rows(WhatIfRow)


@dataclass(frozen=True)
class SimulatePartition:
    """The task that simulates one partition.

    Attributes:
        origin: the replica's snapshot: OURS or EMPTY. The tables have no entries of other snapshot files.
        settings: settings of the simulation.
    """

    origin: SnapshotOrigin
    settings: SimulationSettings

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return WHAT_IF.schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the partition; none if it was never replayed."""
        found = read_log_tables(PartitionInput(batches))
        if found is not None:
            yield WHAT_IF.batch(self.rows(found))

    def rows(self, found: LogTables) -> Iterator[WhatIfRow]:
        """Yield a row for each simulated write with the brokers' answers, then the row of counts."""
        key, settings = ReplicaKey(found.results.log_dir, found.results.topic, found.results.partition), self.settings
        tally = Tally()
        both = self._both(found)
        if both is not None:
            given = Circumstances(found.replayed.facts.log_start_offset, settings.transaction_version)
            classes = list(what_if(both.leader, both.replica, settings.brokers, given))
            tally.add(classes, settings.brokers[-1])
            ids = both.leader.entries["producer_id"].tolist()
            for each in outcomes(classes, ids, settings.brokers, settings.clients, given):
                yield WhatIfRow(key, each, each.answers.differs)
        expired = 0 if both is None else both.expired
        is_unlocated = bool(found.replayed.facts.log_start_unknown)
        counts = SimulatedCounts(both is not None, is_unlocated, found.has_headers, expired, tally)
        yield WhatIfRow(key, counts=counts)

    def _both(self, found: LogTables) -> InItsPlace | None:
        if found.end is None or found.state is None:
            return None
        offset = found.replayed.state_offset
        at_start = np.empty(0, ENTRY_DTYPE)
        if self.origin is SnapshotOrigin.OURS:
            at_start = self.settings.expiry.live(found.state, found.closed_timestamp)
        return in_its_place(
            found.end,
            at_start,
            found.after,
            found.batches,
            found.batches.compress(found.batches["first_offset"] >= offset),
            BrokerExpiry(self.settings.expiry.now, self.settings.producer_expiration),
        )


_COUNTED = ("writes", "example")


@dataclass
class SimulateOutcome:
    """The brokers' answers to the simulated writes of all partitions."""

    rows: list[FleetWrite]  # kinds of writes with their number of partitions, duplicates first
    tally: Tally
    said: list[str] = field(default_factory=list)  # further sentences to print
    unlocated: int = 0  # skipped partitions, whose log start offset is unknown


@spoken("simulate")
def simulate_warehouse(
    spark: SparkSession | Session, warehouse: str, selection: Selection, task: SimulatePartition, *, everything: bool
) -> SimulateOutcome:
    """Simulate the writes from the tables.

    Args:
        spark: a session, or a function that starts one.
        warehouse: URI.
        selection: the partitions.
        task: simulates one partition.
        everything: also return the writes to which the leader and the replica give the same answer.

    Raises:
        SourceNotFoundError: no partition was replayed in the warehouse.
    """
    spark = started_on(warehouse, spark)
    return _simulated(surveyed_partitions(spark, warehouse, selection, task), everything)


def _simulated(rows: DataFrame, everything: bool) -> SimulateOutcome:
    same = [name for name in SIMULATED.names if name not in _COUNTED]
    answers = rows.where("write is not null" if everything else "differs")
    counted = answers.groupBy(*same, "differs").agg(
        F.sum("writes").alias("writes"),
        F.min("example").alias("example"),
        F.count_distinct("log_dir", "topic", "partition").alias("partitions"),
    )
    order = [F.col("doubles").desc(), F.col("differs").desc(), F.col("writes").desc(), *map(F.col, same)]
    found = [row.asDict() for row in counted.orderBy(*order).collect()]  # few rows, one per kind of answer
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
            f"{totals['unread']} of {count_of(totals['partitions'], 'partition')} cannot be replayed to the end "
            "of their logs"
        )
    if totals["headless"]:
        outcome.said.append(
            f"{count_of(totals['headless'], 'partition')} without batch headers: only retries of each producer's "
            f"last batch were simulated for these partitions. To write the headers: {decode_into()}"
        )
    if totals["expired"]:
        outcome.said.append(
            f"{count_of(totals['expired'], 'producer was', 'producers were')} skipped, because every broker has "
            "expired them"
        )
    return outcome
