"""The facts from which the risk of a partition is computed. They come from one pass over the log, or from tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tiersnap.snapshot.exactly_once.log_replay import replay_log
from tiersnap.snapshot.exactly_once.simulate.replica_state import RecentBatches, ReplicaState, data_batches
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import Crossing, ReplicaKey, SnapshotCause
from tiersnap.snapshot.exactly_once.simulate.sightings import CrossingTransactions, Sightings
from tiersnap.snapshot.formats.snapshot_file import HEADER_LENGTH
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.producer_fold import OpenTransactions
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.facts import SegmentFacts
from tiersnap.snapshot.replay.partition_state import Boundary


@dataclass(frozen=True, slots=True)
class SnapshotFound:
    """The snapshot file at a snapshot offset."""

    compared: Comparison  # comparison of the file with the log; MISSING if the file does not exist
    file_bytes: int | None  # size of the file; None if it cannot be read or does not exist

    @property
    def is_empty(self) -> bool:
        """Return whether the file has a header but no entries."""
        is_read = self.compared.compared not in (SnapshotVerdict.MISSING, SnapshotVerdict.CORRUPT)
        return is_read and self.file_bytes == HEADER_LENGTH


def causes(found: Mapping[int, SnapshotFound], expiry: BrokerExpiry) -> dict[int, SnapshotCause | None]:
    """Return, by offset, the reason why a snapshot is missing, wrong or empty.

    The reason is None if the snapshot is right and contains producers.

    Args:
        found: snapshots by offset. The mapping must have every boundary of the log and every snapshot file.
    """
    has_older = False
    said: dict[int, SnapshotCause | None] = {}
    for offset, each in sorted(found.items()):
        verdict = each.compared.verdict(expiry)
        said[offset] = _cause(each, verdict, has_older=has_older)
        has_older |= verdict is not SnapshotVerdict.MISSING
    return said


def _cause(found: SnapshotFound, verdict: SnapshotVerdict, *, has_older: bool) -> SnapshotCause | None:
    if verdict is SnapshotVerdict.MISSING:
        return SnapshotCause.GAP_AFTER_ALIGNED if has_older else SnapshotCause.PRE_2_8
    if verdict is SnapshotVerdict.CORRUPT:
        return SnapshotCause.CORRUPT
    if verdict in (SnapshotVerdict.UNVERIFIED, SnapshotVerdict.NOT_COMPARED):
        return SnapshotCause.UNVERIFIED
    if found.is_empty:
        return SnapshotCause.EMPTY_TRUE if verdict.is_trusted else SnapshotCause.EMPTY_WRONG
    if verdict.is_trusted:
        return None
    return SnapshotCause.CONTENT_DIFF


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts of one partition."""

    replica: ReplicaKey
    never_tiered: str  # reason why the partition is never tiered, or ""
    log_start_offset: int
    log_end_offset: int
    segments: tuple[SegmentFacts, ...]  # ascending
    found: Mapping[int, SnapshotFound]  # by offset: all aligned offsets, and the offsets of all other files
    open_transactions: Mapping[int, OpenTransactions | None]  # by aligned offset; None if unknown
    # State at the log end of a leader that never stopped; None if the log cannot be replayed to its end.
    leader: ReplicaState | None
    sightings: Sightings  # sightings in the log from `read_from` on
    read_from: int = 0  # exposures at this offset and above are exact; exposures below are unknown
    has_headers: bool = True  # whether `leader` has several batches of each producer, not only the last one
    crossing: Mapping[int, Crossing] = field(default_factory=dict)  # by aligned offset; empty if no headers were read

    @property
    def first_base_offset(self) -> int:
        """Return the base offset of the first segment, 0 without segments."""
        return self.segments[0].base_offset if self.segments else 0

    @property
    def aligned_offsets(self) -> tuple[int, ...]:
        """Return the end offsets (exclusive) of closed segments, ascending. Tiering needs a snapshot at each one."""
        return tuple(each.next_base_offset for each in self.segments if each.next_base_offset is not None)


def survey_log(
    filesystem: FileSystem, log_dir: str, partition: Partition, *, check_crc: bool = True
) -> tuple[Survey, tuple[Finding, ...]]:
    """Return the facts of a partition, after one pass over its log.

    Args:
        log_dir: log directory from the command line.

    Returns:
        The survey, and the damage in the log.
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
        ReplicaKey(log_dir, partition.topic, partition.partition),
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
