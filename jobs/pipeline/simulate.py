"""`tiersnap simulate --warehouse`: what the producers of every replayed partition meet, what doubles first.

The replica begins at the newest segment's base offset, which is where a follower begins whose leader has tiered
everything: the tables keep the state there.
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
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.units import count_of

SIMULATED = Rows(WriteOutcome)


@dataclass(frozen=True, slots=True)
class SimulatedCounts:
    """The counts of one partition.

    Attributes:
        is_simulated: the tables lead to the log's end.
        is_unlocated: nothing tells where its log begins, so they do not.
        has_headers: likewise, older batches were sent again, too.
        expired: producers that are left out.
    """

    is_simulated: bool
    is_unlocated: bool
    has_headers: bool
    expired: int
    tally: Tally


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """Answers of a partition's replica, or its counts."""

    replica: ReplicaKey
    answers: WriteOutcome | None = None
    differs: bool | None = None
    counts: SimulatedCounts | None = None


WHAT_IF = Rows(WhatIfRow)


@dataclass(frozen=True)
class SimulatePartition:
    """One partition.

    Attributes:
        origin: `ours` or `empty`; of other files the tables hold no entries.
    """

    origin: SnapshotOrigin
    settings: SimulationSettings

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return WHAT_IF.schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Simulate the partition; one that was never replayed gives no rows."""
        found = read_log_tables(PartitionInput(batches))
        if found is not None:
            yield WHAT_IF.batch(self.rows(found))

    def rows(self, found: LogTables) -> Iterator[WhatIfRow]:
        """Yield the answers, and the counts behind them."""
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
    return _simulated(surveyed_partitions(spark, warehouse, selection, task), everything)


def _simulated(rows: DataFrame, everything: bool) -> SimulateOutcome:
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
