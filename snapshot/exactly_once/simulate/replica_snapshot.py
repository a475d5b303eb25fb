"""The snapshot that a replica begins with before it replays the leader's log from there.

    broker   the newest file beside the log that a broker can load; without one, the whole log
    older    the one before that
    ours     what `tiersnap repair` would write at the offset
    empty    a snapshot of nobody at the offset, as KIP-952 considered uploading
    another  the newest file of another replica's directory

Files are looked at as a broker does that starts: the newest one above the log start offset and not above the log end
that decodes; corrupt ones are passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiersnap.snapshot.errors import CorruptSnapshotError, SourceNotFoundError
from tiersnap.snapshot.exactly_once.simulate.kinds import SnapshotOrigin
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.regular_file import read_regular
from tiersnap.snapshot.replay.found_snapshot import ReadSnapshot
from tiersnap.snapshot.replay.partition_replay import snapshot_reader
from tiersnap.snapshot.replay.producer_state import ENTRY_DTYPE


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """What the replica begins with.

    Attributes:
        offset: exclusive end offset of the snapshot; the log is replayed from here.
        entries: ENTRY_DTYPE; None for `ours`, which the replay computes on its way.
        passed_over: what was wrong with newer files.
    """

    offset: int
    entries: np.ndarray | None
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaSnapshot:
    """Which snapshot the replica begins with.

    Attributes:
        folder: log directory of the other replica, if `origin` is ANOTHER.
        at: offset of the snapshot, or the highest one for files; None for no limit. `ours` and `empty` are then at the
            newest segment's base offset, where a follower begins whose leader has tiered everything.
    """

    origin: SnapshotOrigin
    folder: Path | None = None
    at: int | None = None

    @classmethod
    def of(cls, name: str, at: int | None) -> ReplicaSnapshot:
        """Return the one that is meant by a SnapshotOrigin or the path of another replica's directory.

        Raises:
            SourceNotFoundError: there is no such directory.
        """
        names = [str(origin) for origin in SnapshotOrigin if origin is not SnapshotOrigin.ANOTHER]
        if name in names:
            return cls(SnapshotOrigin(name), None, at)
        folder = Path(name)
        if not folder.is_dir():
            raise SourceNotFoundError(
                f"{name}: no such directory", hint=f"--from takes {', '.join(names)} or another replica's directory"
            )
        return cls(SnapshotOrigin.ANOTHER, folder, at)

    def start(self, filesystem: FileSystem, partition: Partition, highest: int | None = None) -> Start:
        """Choose the snapshot of a partition; a file lies not above `highest`."""
        nobody = np.empty(0, ENTRY_DTYPE)
        if not self.origin.is_file:
            newest = max((segment.base_offset for segment in partition.segments), default=0)
            entries = nobody if self.origin is SnapshotOrigin.EMPTY else None
            return Start(newest if self.at is None else self.at, entries)
        at = min((limit for limit in (self.at, highest) if limit is not None), default=None)
        passed_over: list[str] = []
        loadable = _loadable(partition.unloaded_below, *self._files(filesystem, partition), at, passed_over)
        found = next(loadable, None)
        if self.origin is SnapshotOrigin.OLDER and found is not None:
            found = next(loadable, None)
        offset, entries = found or (partition.first_base_offset, nobody)
        return Start(offset, entries, tuple(passed_over))

    def _files(self, filesystem: FileSystem, partition: Partition) -> tuple[Collection[int], ReadSnapshot]:
        """Return offsets of the snapshot files that may be it, and their reader."""
        if self.folder is None:
            return partition.snapshots, snapshot_reader(filesystem, partition)
        files = (self.folder / partition.name).glob("*.snapshot")
        paths = {int(path.stem): path for path in files if path.stem.isdecimal()}
        return paths, lambda offset: read_regular(paths[offset])


def _loadable(
    unloaded_below: int, offsets: Collection[int], read: ReadSnapshot, at: int | None, passed_over: list[str]
) -> Iterator[tuple[int, np.ndarray]]:
    """Return files as a broker would load them, the newest first."""
    for offset in sorted(offsets, reverse=True):
        if offset <= unloaded_below or (at is not None and offset > at):
            continue
        name = snapshot_file.file_name(offset)
        try:
            data = read(offset)
            if data is not None:
                yield offset, snapshot_file.decode(data, name=name)
        except CorruptSnapshotError as error:
            passed_over.append(error.message)
        except OSError as error:
            passed_over.append(f"{name}: {error.strerror or error}")
