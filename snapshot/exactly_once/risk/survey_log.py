"""The survey of a partition that lies here: one pass over its segments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tiersnap.snapshot.exactly_once.risk.causes import SnapshotFound
from tiersnap.snapshot.exactly_once.risk.crossing_transactions import CrossingTransactions
from tiersnap.snapshot.exactly_once.risk.sightings import Sightings
from tiersnap.snapshot.exactly_once.risk.survey import OpenTransactions, Survey
from tiersnap.snapshot.exactly_once.simulate.replica_state import RecentBatches, ReplicaState, data_batches
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.never_tiered import never_tiered_reason
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.replay.examine import conclude
from tiersnap.snapshot.replay.partition_replay import AS_BROKER, replay_partition, snapshot_reader
from tiersnap.snapshot.replay.segment_fold import Run, fold_segment
from tiersnap.snapshot.replay.trust import Comparison


@dataclass
class _Pass:
    """What one pass over the segments gathers."""

    filesystem: FileSystem
    check_crc: bool
    sightings: Sightings = field(default_factory=Sightings)
    batches: RecentBatches = field(default_factory=RecentBatches)
    crossing: CrossingTransactions = field(default_factory=CrossingTransactions)
    is_first: bool = True

    def read_runs(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd]:
        """A segment's runs."""
        if not self.is_first:
            self.crossing.boundary(segment.base_offset)
        self.is_first = False
        runs, end = fold_segment(self.filesystem, segment, cuts=cuts, check_crc=self.check_crc, on_rows=self._on_rows)
        for run in runs:
            self.sightings.add(run)
        return runs, end

    def _on_rows(self, rows: np.ndarray) -> None:
        self.batches.add(data_batches(rows))
        self.crossing.add(rows)


def survey_log(
    filesystem: FileSystem, log_dir: str, partition: Partition, *, check_crc: bool = True
) -> tuple[Survey, tuple[Finding, ...]]:
    """Read the log once.

    Args:
        log_dir: as the user names it.
    Returns:
        The survey, and what is damaged.
    """
    reading = _Pass(filesystem, check_crc)
    replay, boundaries = replay_partition(
        partition, reading.read_runs, snapshot_reader(filesystem, partition), begins=AS_BROKER
    )
    compared: dict[int, Comparison] = {}
    opened: dict[int, OpenTransactions | None] = {}
    at_end: np.ndarray | None = None
    for boundary in boundaries:
        compared[boundary.offset] = boundary.found
        opened[boundary.offset] = boundary.open_transactions
        if boundary.offset == replay.log_end and len(replay.ends) == len(partition.segments):
            at_end = boundary.entries
    first = partition.first_base_offset
    if replay.log_end in (0, first) and replay.damage is None:
        at_end = replay.entries_of_no_batches()
    examination = conclude(replay, compared)
    sizes = {offset: ref.size for offset, ref in partition.snapshots.items()}
    survey = Survey(
        log_dir,
        partition.topic,
        partition.partition,
        never_tiered_reason(partition),
        partition.log_start_offset,
        replay.log_end,
        examination.segments,
        {offset: SnapshotFound(found, sizes.get(offset)) for offset, found in examination.snapshots.items()},
        opened,
        None if at_end is None else ReplicaState.of(at_end, reading.batches.newest()),
        reading.sightings,
        read_from=first,
        crossing=reading.crossing.found,
    )
    return survey, examination.findings
