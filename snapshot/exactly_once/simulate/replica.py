"""The state of a replica that replaces its leader, computed from a snapshot and the log after the snapshot.

Producers that are idle for producer.id.expiration.ms of the broker are removed. The replica loads the same snapshot
file as a starting broker: the newest readable file above the log start offset and up to the log end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiersnap.snapshot.errors import CorruptSnapshotError, SourceNotFoundError, UsageError
from tiersnap.snapshot.exactly_once.log_replay import replay_log
from tiersnap.snapshot.exactly_once.simulate.kinds import SnapshotOrigin
from tiersnap.snapshot.exactly_once.simulate.replica_state import (
    RecentBatches,
    ReplicaState,
    data_batches,
    empty_state,
    entry_batches,
)
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import unloaded_below
from tiersnap.snapshot.producer_fold import ProducerFold, from_entries
from tiersnap.snapshot.regular_file import read_regular
from tiersnap.snapshot.replay.expiry import BrokerExpiry, Expiry
from tiersnap.snapshot.replay.partition_replay import entries_at_first, snapshot_reader
from tiersnap.snapshot.replay.partition_state import Boundary
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning
from tiersnap.snapshot.replay.segment_runs import Run
from tiersnap.snapshot.replay.snapshot_comparison import ReadSnapshot


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The snapshot that the replica starts from."""

    offset: int  # snapshot offset (exclusive); the replay begins here
    entries: np.ndarray | None  # ENTRY_DTYPE; None for `ours`, whose entries the replay computes
    passed_over: tuple[str, ...] = ()  # failures to load newer files


@dataclass(frozen=True, slots=True)
class ReplicaSnapshot:
    """A rule that chooses the snapshot from which the replica starts."""

    origin: SnapshotOrigin
    folder: Path | None = None  # log directory of the other replica, if `origin` is ANOTHER
    # Snapshot offset; for files the highest offset to consider. If it is None, files have no limit, and `ours` and
    # `empty` are at the newest segment's base offset. A follower starts there if its leader has tiered everything.
    at: int | None = None

    @classmethod
    def of(cls, name: str, at: int | None) -> ReplicaSnapshot:
        """Return the rule for a name. The name is a SnapshotOrigin, or the path of another replica's log directory.

        Raises:
            SourceNotFoundError: the directory does not exist.
        """
        names = [str(origin) for origin in SnapshotOrigin if origin is not SnapshotOrigin.ANOTHER]
        if name in names:
            return cls(SnapshotOrigin(name), None, at)
        folder = Path(name)
        if not folder.is_dir():
            raise SourceNotFoundError(
                f"{name}: the directory does not exist",
                hint=f"give --from {', '.join(names)}, or the directory of another replica",
            )
        return cls(SnapshotOrigin.ANOTHER, folder, at)

    def start(self, filesystem: FileSystem, partition: Partition, highest: int | None = None) -> Start:
        """Return the chosen snapshot of a partition. Files above the offset `highest` are ignored."""
        if not self.origin.is_file:
            return self._without_files(partition)
        at = min((limit for limit in (self.at, highest) if limit is not None), default=None)
        offsets, read = self._files(filesystem, partition)
        passed_over: list[str] = []
        loadable = _loadable(_within(offsets, unloaded_below(partition), at), read, passed_over)
        found = next(loadable, None)
        if self.origin is SnapshotOrigin.OLDER and found is not None:
            found = next(loadable, None)
        offset, entries = found or (partition.first_base_offset, np.empty(0, ENTRY_DTYPE))
        return Start(offset, entries, tuple(passed_over))

    def _without_files(self, partition: Partition) -> Start:
        """Return the start for the origins that do not need snapshot files: `ours` and `empty`."""
        newest = max((segment.base_offset for segment in partition.segments), default=0)
        entries = np.empty(0, ENTRY_DTYPE) if self.origin is SnapshotOrigin.EMPTY else None
        at = newest if self.at is None else self.at
        return Start(at, entries)

    def _files(self, filesystem: FileSystem, partition: Partition) -> tuple[Collection[int], ReadSnapshot]:
        """Return the offsets of the available snapshot files, and a function that reads one of them."""
        if self.folder is None:
            return partition.snapshots, snapshot_reader(filesystem, partition)
        files = (self.folder / partition.name).glob("*.snapshot")
        paths = {int(path.stem): path for path in files if path.stem.isdecimal()}
        return paths, lambda offset: read_regular(paths[offset])


def _within(offsets: Collection[int], deleted_to: int, at: int | None) -> list[int]:
    """Return the offsets above `deleted_to` and up to `at` (inclusive), descending."""
    kept = (offset for offset in offsets if offset > deleted_to and (at is None or offset <= at))
    return sorted(kept, reverse=True)


def _loadable(offsets: Iterable[int], read: ReadSnapshot, passed_over: list[str]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the files that a broker can load. Append a message to `passed_over` for each other file."""
    for offset in offsets:
        name = snapshot_file.file_name(offset)
        try:
            data = read(offset)
            if data is not None:
                yield offset, snapshot_file.decode(data, name=name)
        except CorruptSnapshotError as error:
            passed_over.append(error.message)
        except OSError as error:
            passed_over.append(f"{name}: {error.strerror or error}")


@dataclass(frozen=True, slots=True)
class Replicas:
    """A leader that never stopped, and the replica in its place. Neither has expired producers."""

    partition: Partition
    start: Start
    leader: ReplicaState
    replica: ReplicaState
    expired: int  # number of expired producers of the leader
    findings: tuple[Finding, ...]
    # Whether the log could be replayed to its end. If not, both states are empty, and `findings` has the reason.
    is_whole: bool = True


def replicas(
    filesystem: FileSystem,
    partition: Partition,
    snapshot: ReplicaSnapshot,
    expiry: Expiry,
    *,
    producer_expiration: int | None,
    check_crc: bool = True,
    begins: Beginning = NOT_LOOKED,
) -> Replicas:
    """Return the states of the leader and of the replica.

    Args:
        snapshot: snapshot that the replica starts from.
        expiry: time of the simulation, and the expiration after which a snapshot from tiersnap omits a producer.
        producer_expiration: ms, producer.id.expiration.ms of the broker; None if producers never expire.
        begins: beginning of the log in remote storage.

    Raises:
        UsageError: the snapshot offset is neither the end of a segment nor the offset of a file.
    """
    partition = begins.opened(partition)

    def read(start: Start) -> _Pass:
        return _Pass(filesystem, partition, start, expiry, check_crc=check_crc, begins=begins)

    found = read(snapshot.start(filesystem, partition))
    start, log_end = found.start, found.log.log_end_offset
    if start.offset > log_end and snapshot.origin.is_file:
        # A broker deletes files above its log end.
        found = read(snapshot.start(filesystem, partition, log_end))
        start = found.start
    findings, entries = found.log.examination.findings, found.log.entries
    if entries is None or (found.log.lacks_start and begins.goes_back(partition)):
        return Replicas(partition, start, empty_state(), empty_state(), 0, findings, is_whole=False)
    if found.at_start is None:
        raise UsageError(
            f"{partition.name}: offset {start.offset} is neither the end of a segment nor the offset of a snapshot "
            "file",
            hint="give --at with the base offset of a segment, the offset of a snapshot file, or the log end offset",
        )
    both = in_its_place(
        entries,
        found.at_start,
        found.after.deltas(),
        found.all_batches.newest(),
        found.after_batches.newest(),
        BrokerExpiry(expiry.now, producer_expiration),
    )
    return Replicas(partition, start, both.leader, both.replica, both.expired, findings)


@dataclass
class _Pass:
    """One pass over the log: the state at the replica's snapshot offset, and the changes after it."""

    filesystem: FileSystem
    partition: Partition
    start: Start
    expiry: Expiry
    check_crc: bool
    begins: Beginning

    def __post_init__(self) -> None:
        start, first = self.start, self.partition.first_base_offset
        self.all_batches, self.after_batches = RecentBatches(), RecentBatches(from_offset=start.offset)
        self.after = ProducerFold()
        is_at_first = start.entries is None and start.offset <= first
        self.at_start = entries_at_first(self.partition, self.begins) if is_at_first else start.entries
        self.log = replay_log(
            self.filesystem,
            self.partition,
            check_crc=self.check_crc,
            begins=self.begins,
            cuts=(start.offset,),
            on_rows=self._on_rows,
            on_run=self._on_run,
            on_boundary=self._on_boundary,
        )

    def _on_rows(self, rows: np.ndarray) -> None:
        batches = data_batches(rows)
        self.all_batches.add(batches)
        self.after_batches.add(batches)

    def _on_run(self, run: Run) -> None:
        if run.start_offset >= self.start.offset:
            self.after.combine(run.deltas)

    def _on_boundary(self, boundary: Boundary) -> None:
        if boundary.offset == self.start.offset and self.start.entries is None:
            self.at_start = self.expiry.live(boundary.entries, boundary.max_timestamp)


@dataclass(frozen=True, slots=True)
class InItsPlace:
    """A leader and the replica in its place, without expired producers.

    `expired` is the number of producers that were removed from the leader's state.
    """

    leader: ReplicaState
    replica: ReplicaState
    expired: int


def in_its_place(
    at_end: np.ndarray,
    at_start: np.ndarray,
    after: np.ndarray,
    all_batches: np.ndarray,
    after_batches: np.ndarray,
    expiry: BrokerExpiry,
) -> InItsPlace:
    """Return the states of leader and replica for one partition.

    Args:
        at_end: entries of the leader at the log end (ENTRY_DTYPE).
        at_start: entries of the replica's snapshot (ENTRY_DTYPE).
        after: deltas of the log after the snapshot (DELTA_DTYPE).
        all_batches: newest batches of each producer in the whole log (BATCH_DTYPE).
        after_batches: newest batches of each producer after the snapshot (BATCH_DTYPE).
    """
    # A broker removes expired producers when it loads the file, and periodically afterwards.
    loaded = expiry.live(at_start)
    state = ProducerFold(loaded.size)
    state.combine(from_entries(loaded))
    state.combine(after)
    leader = ReplicaState.of(at_end, all_batches)
    replica = ReplicaState.of(state.entries(), entry_batches(loaded), after_batches)
    alive = leader.live(expiry)
    return InItsPlace(alive, replica.live(expiry), leader.entries.size - alive.entries.size)
