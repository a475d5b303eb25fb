"""Another replica's folder of a partition beside the leader's: snapshots held against each other, and log starts."""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.errors import CorruptSnapshotError
from tiersnap.snapshot.exactly_once.risk.disagreement import log_start_goes_back, newest_disagreement
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.partition_replay import snapshot_reader


def held_against(leader: tuple[FileSystem, Partition], follower: tuple[FileSystem, Partition]) -> dict[str, object]:
    """One row a partition: what the follower says otherwise than the leader.

    `offset` is the newest offset at which both have a readable snapshot and the two differ, null where none differs;
    the counts are producers there. `compared` is how many offsets both have one of.
    """
    (_, first), (_, second) = leader, follower
    compared, found = newest_disagreement(_entries(*leader), _entries(*follower))
    return {
        "partition": first.name,
        "compared": compared,
        "offset": None if found is None else found.offset,
        "only_here": 0 if found is None else found.only_first,
        "only_there": 0 if found is None else found.only_second,
        "differing": 0 if found is None else found.differing,
        "log_start_offset": first.log_start_offset,
        "log_start_offset_there": second.log_start_offset,
        "log_start_goes_back": log_start_goes_back(first.log_start_offset, second.log_start_offset),
    }


def _entries(filesystem: FileSystem, partition: Partition) -> dict[int, np.ndarray]:
    read = snapshot_reader(filesystem, partition)
    found: dict[int, np.ndarray] = {}
    for offset in partition.snapshots:
        try:
            data = read(offset)
            if data is not None:
                found[offset] = snapshot_file.decode(data)
        except (CorruptSnapshotError, OSError):
            # `scan` says what is wrong with it; here it is one that cannot be compared.
            continue
    return found
