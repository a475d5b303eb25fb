"""One partition simulated from the tables: SURVEY_INPUT rows in, rows of what its producers meet, or of its risks, out.

The replica begins at the newest segment's base offset, which is where a follower begins whose leader has tiered
everything: the tables keep the state there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.exactly_once.simulate.kinds import SnapshotOrigin, WriteOutcome
from tiersnap.snapshot.exactly_once.simulate.outcomes import Tally, outcomes
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings, partition_risk
from tiersnap.snapshot.exactly_once.simulate.replica import InItsPlace, in_its_place
from tiersnap.snapshot.exactly_once.simulate.replica_state import ReplicaState
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import ReplicaKey
from tiersnap.snapshot.exactly_once.simulate.risk_rows import BOUNDARIES, PARTITIONS, boundary_rows, partition_row
from tiersnap.snapshot.exactly_once.simulate.settings import SimulationSettings
from tiersnap.snapshot.exactly_once.simulate.survey import SnapshotFound, Survey
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tasks.log_tables import LogTables, read_log_tables
from tiersnap.snapshot.tasks.partition_input import PartitionInput

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
        key, settings = _key_of(found), self.settings
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


def _key_of(found: LogTables) -> ReplicaKey:
    return ReplicaKey(found.results.log_dir, found.results.topic, found.results.partition)


def survey_of(found: LogTables) -> Survey:
    """Return the survey of a partition from its tables, as a pass over its log would make it."""
    results, facts = found.results, found.replayed.facts
    snapshots, log_end = results.snapshots, facts.log_end_offset
    return Survey(
        _key_of(found),
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
