"""A partition replayed straight from its segment files, boundary by boundary, as the product's own passes do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.replay.partition_replay import Replay, replay_partition, snapshot_reader
from tiersnap.snapshot.replay.partition_state import Boundary
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment


def local_replay(
    filesystem: FileSystem, partition: Partition, *, check_crc: bool = True, begins: Beginning = NOT_LOOKED
) -> tuple[Replay, Iterator[Boundary]]:
    """Replay straight from the segment files: iterate the boundaries, then read the replay."""

    def read_runs(segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd]:
        return fold_segment(filesystem, segment, cuts=cuts, check_crc=check_crc)

    return replay_partition(partition, read_runs, snapshot_reader(filesystem, partition), begins=begins)
