"""What must be known of one partition before its risks are numbers: from one pass over its log, or from tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiersnap.snapshot.exactly_once.risk.causes import SnapshotFound
from tiersnap.snapshot.exactly_once.risk.crossing_transactions import Crossing
from tiersnap.snapshot.exactly_once.risk.sightings import Sightings
from tiersnap.snapshot.exactly_once.simulate.replica_state import ReplicaState
from tiersnap.snapshot.replay.facts import SegmentFacts

OpenTransactions = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """One partition.

    Attributes:
        never_tiered: why nothing of it ever goes to remote storage, or "".
        segments: ascending.
        found: what is beside the log, by offset, at each aligned offset and wherever else a file is.
        open_transactions: (producer id, first offset) of those open at an aligned offset; None where nobody knows.
        leader: what a leader that never stopped knows at the log end; None where the log cannot be replayed so far.
        sightings: of the runs from `read_from` on.
        read_from: exposures at this offset and above are exact; nothing is known of those below.
        has_headers: `leader` knows the newest batches of each producer and not only the last one.
        crossing: by aligned offset; empty where no headers were read.
    """

    log_dir: str
    topic: str
    partition: int
    never_tiered: str
    log_start_offset: int
    log_end_offset: int
    segments: tuple[SegmentFacts, ...]
    found: Mapping[int, SnapshotFound]
    open_transactions: Mapping[int, OpenTransactions | None]
    leader: ReplicaState | None
    sightings: Sightings
    read_from: int = 0
    has_headers: bool = True
    crossing: Mapping[int, Crossing] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"

    @property
    def aligned_offsets(self) -> tuple[int, ...]:
        """Exclusive end offsets of the closed segments, ascending: where a tiered segment needs a snapshot."""
        return tuple(each.next_base_offset for each in self.segments if each.next_base_offset is not None)
