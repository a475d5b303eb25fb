"""What must be known of one partition before its risks are numbers: from one pass over its log, or from tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tiersnap.snapshot.exactly_once.log_replay import replay_log
from tiersnap.snapshot.exactly_once.simulate.crossing_transactions import Crossing, CrossingTransactions
from tiersnap.snapshot.exactly_once.simulate.replica_state import RecentBatches, ReplicaState, data_batches
from tiersnap.snapshot.exactly_once.simulate.sightings import Sightings
from tiersnap.snapshot.exactly_once.simulate.snapshot_causes import SnapshotFound
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.never_tiered import never_tiered_reason
from tiersnap.snapshot.replay.facts import SegmentFacts
from tiersnap.snapshot.replay.partition_state import Boundary

OpenTransactions = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """One partition.

    Attributes:
        never_tiered: why nothing of it ever goes to remote storage, or "".
        segments: ascending.
        found: what is beside the log, by offset, at each aligned offset and wherever else a file is.
        open_transactions: (producer id, first offset) of those open at an aligned offset; None if nobody knows.
        leader: what a leader that never stopped knows at the log end; None if the log cannot be replayed so far.
        sightings: of the runs from `read_from` on.
        read_from: exposures at this offset and above are exact; nothing is known of those below.
        has_headers: `leader` knows the newest batches of each producer and not only the last one.
        crossing: by aligned offset; empty if no headers were read.
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
    def aligned_offsets(self) -> tuple[int, ...]:
        """Exclusive end offsets of the closed segments, ascending: where a tiered segment needs a snapshot."""
        return tuple(each.next_base_offset for each in self.segments if each.next_base_offset is not None)


def survey_log(
    filesystem: FileSystem, log_dir: str, partition: Partition, *, check_crc: bool = True
) -> tuple[Survey, tuple[Finding, ...]]:
    """Read the log once.

    Args:
        log_dir: as the user names it.

    Returns:
        The survey, and what is damaged.
    """
    sightings, batches, crossing = Sightings(), RecentBatches(), CrossingTransactions()
    opened: dict[int, OpenTransactions | None] = {}
    first = partition.first_base_offset

    def on_segment(segment: Segment) -> None:
        if segment.base_offset != first:
            crossing.boundary(segment.base_offset)

    def on_rows(rows: np.ndarray) -> None:
        batches.add(data_batches(rows))
        crossing.add(rows)

    def on_boundary(boundary: Boundary) -> None:
        opened[boundary.offset] = boundary.open_transactions

    log = replay_log(
        filesystem,
        partition,
        check_crc=check_crc,
        on_segment=on_segment,
        on_rows=on_rows,
        on_run=sightings.add,
        on_boundary=on_boundary,
    )
    sizes = {offset: ref.size for offset, ref in partition.snapshots.items()}
    survey = Survey(
        log_dir,
        partition.topic,
        partition.partition,
        never_tiered_reason(partition),
        partition.log_start_offset,
        log.log_end_offset,
        log.examination.segments,
        {offset: SnapshotFound(found, sizes.get(offset)) for offset, found in log.examination.snapshots.items()},
        opened,
        None if log.entries is None else ReplicaState.of(log.entries, batches.newest()),
        sightings,
        read_from=first,
        crossing=crossing.found,
    )
    return survey, log.examination.findings
