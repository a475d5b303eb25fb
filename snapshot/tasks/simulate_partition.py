"""One partition simulated from the tables: SURVEY_INPUT rows in, rows of WHAT_IF, or of its risks, out.

The replica begins at the newest segment's base offset, which is where a follower begins whose leader has tiered
everything: the tables keep the state there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.exactly_once.models.eras import BrokerEra, ClientEra
from tiersnap.snapshot.exactly_once.simulate.exposure import Exposure
from tiersnap.snapshot.exactly_once.simulate.kinds import SnapshotOrigin
from tiersnap.snapshot.exactly_once.simulate.outcomes import TALLIED, Tally, outcomes
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings, partition_risk
from tiersnap.snapshot.exactly_once.simulate.replay_cost import ReplayCost
from tiersnap.snapshot.exactly_once.simulate.replica import InItsPlace, in_its_place
from tiersnap.snapshot.exactly_once.simulate.replica_state import ReplicaState
from tiersnap.snapshot.exactly_once.simulate.retention_wait import Waiting
from tiersnap.snapshot.exactly_once.simulate.risk_rows import boundary_rows, names_of, partition_row
from tiersnap.snapshot.exactly_once.simulate.sightings import Crossing
from tiersnap.snapshot.exactly_once.simulate.survey import SnapshotFound, Survey
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.producer_fold import ENTRY_DTYPE
from tiersnap.snapshot.replay.snapshot_comparison import Comparison
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, PARTITIONS, schema_of
from tiersnap.snapshot.tasks.log_tables import LogTables, read_log_tables
from tiersnap.snapshot.tasks.partition_input import PartitionInput

# A row of simulate.outcomes.WriteOutcome.
SIMULATED = schema_of(
    ("write", pa.string()),
    ("transactional", pa.bool_()),
    ("writes", pa.int64()),  # of that kind; each producer has one, but for RETRY_OF_OLDER and RETRY_BEFORE_BUMP
    ("example", pa.int64()),  # producer id of one of them
    ("known", pa.bool_()),  # whether the replica knows the producer
    ("brokers", pa.string()),
    ("leader_answer", pa.string()),
    ("replica_answer", pa.string()),
    ("doubles", pa.bool_()),  # the replica appends records that are in the log already
    ("clients", pa.string()),
    ("reaction", pa.string()),
    ("severity", pa.string()),
    ("next_step", pa.string()),
    ("may_double_later", pa.bool_()),  # what the client sends next may be in the log already
)

# A row of SIMULATED with its partition, and a row of counts a partition, whose `write` is null.
WHAT_IF = schema_of(
    *(PARTITIONS.field(name) for name in PARTITION_KEY),
    *SIMULATED,
    ("differs", pa.bool_()),
    ("is_simulated", pa.bool_()),  # of the row of counts: the tables lead to the log's end
    ("has_headers", pa.bool_()),  # likewise: older batches were sent again, too
    ("expired", pa.int64()),
    *((name, pa.int64()) for name in TALLIED),
)


@dataclass(frozen=True)
class SimulatePartition:
    """One partition.

    Attributes:
        origin: `ours` or `empty`; of other files the tables hold no entries.
        expiry: what `ours` leaves out, and the time at which all is judged.
        producer_expiration: ms; None if producers never expire.
        brokers, clients: the releases that answer; counted are the answers of the last brokers.
        transaction_version: of transactions that begin now.
    """

    origin: SnapshotOrigin
    expiry: Expiry
    producer_expiration: int | None
    brokers: tuple[BrokerEra, ...]
    clients: tuple[ClientEra, ...]
    transaction_version: int = 1

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return WHAT_IF

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Simulate the partition; one that was never replayed gives no rows."""
        found = read_log_tables(PartitionInput(batches))
        if found is not None:
            yield pa.RecordBatch.from_pylist(list(self.rows(found)), schema=WHAT_IF)

    def rows(self, found: LogTables) -> Iterator[dict[str, object]]:
        """Rows of WHAT_IF."""
        key = {name: getattr(found.results, name) for name in PARTITION_KEY}
        tally = Tally(self.brokers[-1])
        both = self._both(found)
        if both is not None:
            given = Circumstances(found.replayed.facts.log_start_offset, self.transaction_version)
            classes = list(what_if(both.leader, both.replica, self.brokers, given))
            tally.add(classes)
            ids = both.leader.entries["producer_id"].tolist()
            for each in outcomes(classes, ids, self.brokers, self.clients, given):
                yield {**key, **each.as_row(), "differs": each.differs}
        counts = {name: value for name, value in asdict(tally).items() if name in TALLIED}
        about = {"is_simulated": both is not None, "has_headers": found.has_headers}
        yield {**key, **about, "expired": 0 if both is None else both.expired, **counts}

    def _both(self, found: LogTables) -> InItsPlace | None:
        if found.end is None or found.state is None:
            return None
        offset = found.replayed.state_offset
        at_start = np.empty(0, ENTRY_DTYPE)
        if self.origin is SnapshotOrigin.OURS:
            at_start = self.expiry.live(found.state, found.closed_timestamp)
        return in_its_place(
            found.end,
            at_start,
            found.after,
            found.batches,
            found.batches.compress(found.batches["first_offset"] >= offset),
            now=self.expiry.now,
            producer_expiration=self.producer_expiration,
        )


_TEXT, _LONG = pa.string(), pa.int64()
_KEY = (("log_dir", _TEXT), ("topic", _TEXT), ("partition", pa.int32()))
COUNTS = pa.map_(_TEXT, _LONG)


# Of an empty snapshot at an offset, null if the log there was not read; of the transactions open at that offset, all
# but their number null without batch headers; of the replay to an offset.
_AT_OFFSET = tuple((name, _LONG) for kind in (Exposure, Crossing) for name in names_of(kind))
_REPLAY = tuple((name, _LONG) for name in names_of(ReplayCost))

# A row a boundary: the exclusive end offset of a closed segment.
BOUNDARY_RISK = schema_of(*_KEY, ("offset", _LONG), ("snapshot", _TEXT), ("cause", _TEXT), *_AT_OFFSET, *_REPLAY)
# A row a partition. `at` is the boundary without a right snapshot at which an empty one would expose most; what it
# would expose, and the transactions open there, follow. The replay is for the highest such boundary.
PARTITION_RISK = schema_of(
    *_KEY,
    ("segments", _LONG),
    ("bytes", _LONG),
    ("alive", _LONG),  # producers at the log end that a broker still keeps; null if the log cannot be replayed
    ("outlived", _LONG),  # of these, those of which the log holds no record any more
    ("causes", COUNTS),
    ("at", _LONG),
    *_AT_OFFSET,
    ("wait", _TEXT),
    *((name, _LONG) for name in names_of(Waiting) if name != "wait"),
    *_REPLAY,
    ("bounded_mismatches", COUNTS),
    ("bytes_per_second", _LONG),
    ("segment_ms", _LONG),
    ("segments_per_expiration", pa.float64()),
    ("automatic_retry_bytes_per_second", _LONG),
    ("has_headers", pa.bool_()),
)

_NOT_REACHED = Comparison(SnapshotVerdict.UNVERIFIED, "not reached: the log is damaged below it")


@dataclass(frozen=True)
class RiskPartition:
    """One partition; one that is never tiered, or was never replayed, gives no rows."""

    settings: RiskSettings
    boundaries: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return BOUNDARY_RISK if self.boundaries else PARTITION_RISK

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reckon the numbers of the partition."""
        found = read_log_tables(PartitionInput(batches))
        survey = None if found is None else survey_of(found)
        if survey is None or survey.never_tiered:
            return
        risk = partition_risk(survey, self.settings)
        rows = list(boundary_rows(risk)) if self.boundaries else [partition_row(risk)]
        yield pa.RecordBatch.from_pylist(rows, schema=self.schema)


def survey_of(found: LogTables) -> Survey:
    """Return the survey of a partition from its tables, as a pass over its log would make it."""
    results, facts = found.results, found.replayed.facts
    snapshots, log_end = results.snapshots, facts.log_end_offset
    ends = {base: snapshots.get(each.next_base_offset or log_end) for base, each in results.segments.items()}
    return Survey(
        results.log_dir,
        results.topic,
        results.partition,
        facts.internal or facts.compacted,
        facts.log_start_offset,
        log_end,
        tuple(
            replace(each, snapshot=_NOT_REACHED if (end := ends[base]) is None else end.comparison)
            for base, each in results.segments.items()
        ),
        {offset: SnapshotFound(each.comparison, each.file.size) for offset, each in snapshots.items()},
        {offset: each.open_transactions for offset, each in snapshots.items()},
        None if found.end is None else ReplicaState.of(found.end, found.batches),
        found.sightings,
        found.read_from,
        found.has_headers,
    )
