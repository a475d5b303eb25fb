"""One partition simulated from the tables: SURVEY_INPUT rows in, rows of WHAT_IF out.

The replica begins at the newest segment's base offset, which is where a follower begins whose leader has tiered
everything: the tables keep the state there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.exactly_once.models.eras import BrokerEra, ClientEra
from tiersnap.snapshot.exactly_once.simulate.kinds import SnapshotOrigin
from tiersnap.snapshot.exactly_once.simulate.outcomes import TALLIED, Tally, outcomes
from tiersnap.snapshot.exactly_once.simulate.replica import InItsPlace, in_its_place
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.producer_state import ENTRY_DTYPE
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
        key = {name: found.replayed[name] for name in PARTITION_KEY}
        tally = Tally(self.brokers[-1])
        both = self._both(found)
        if both is not None:
            given = Circumstances(found.replayed["log_start_offset"], self.transaction_version)
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
        offset = found.replayed["state_offset"]
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
