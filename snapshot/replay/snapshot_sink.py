"""Choose the computed snapshots that are wanted, and store them in object storage.

If a store does not answer, no further snapshot is sent to it, because each would wait for a timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from tiersnap.snapshot.context_pool import ContextPool
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.replay.expiry import ReplayOptions
from tiersnap.snapshot.replay.lost_offsets import LostOffsets
from tiersnap.snapshot.replay.partition_replay import may_be_stored
from tiersnap.snapshot.replay.partition_state import Boundary


@dataclass(frozen=True, slots=True)
class SnapshotObject:
    """A computed snapshot to store.

    `gaps` returns the gaps between segments below the snapshot's offset. A sink calls this function only if an object
    with the same key exists.
    """

    topic: str
    topic_id: str | None
    partition: int
    cluster_id: str | None
    end_offset: int
    data: bytes
    provenance: str
    folded_from: int
    entry_count: int
    gaps: Callable[[], Iterable[LostOffsets]] = tuple


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A stored snapshot. `crc32c` covers all bytes of the object; `crc` is the checksum field inside the object.

    `is_new`: whether the call of `put` wrote the object. `is_mended`: whether that call replaced an object that no
    broker could read.
    """

    key: str
    end_offset: int
    size: int
    crc32c: int
    crc: int
    entry_count: int
    provenance: str
    folded_from: int
    is_new: bool
    is_mended: bool = False


class SnapshotSink(Protocol):
    """A store for computed snapshots; picklable."""

    @property
    def uri(self) -> str:
        """Return the canonical URI of the remote location."""

    def put(self, snapshot: SnapshotObject) -> StoredSnapshot:
        """Store the snapshot, and return the stored object.

        An existing object is kept if it is equal or has more producers.

        Raises:
            TiersnapError: the store refused or failed.
        """

    def commit(self, topic: str, topic_id: str | None, partition: int, snapshots: list[StoredSnapshot]) -> None:
        """Write a manifest of the stored snapshots, unless an earlier manifest lists them.

        Raises:
            TiersnapError: the store refused or failed.
        """


_PUTS_AT_ONCE = 4
_BYTES_AT_ONCE = 64 << 20  # total size of snapshots that are being sent; a larger snapshot is sent alone


@dataclass
class BoundaryStore:
    """Stores the snapshots of one partition, several at a time, and lists them in a manifest."""

    sink: SnapshotSink
    partition: Partition
    cluster_id: str | None
    options: ReplayOptions
    now: int  # ms
    away: list[str]  # the error of a sink that does not answer, for all partitions; see ListingReplay
    errors: list[TiersnapError]  # in order; `attrs["at"]` is the position of an error in the partition
    # The stored snapshots by offset; complete after `commit`.
    stored: dict[int, StoredSnapshot] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # A compacted topic is never tiered, so it needs no snapshots.
        self._is_never_tiered = bool(never_tiered_reason(self.partition))
        self._bases: Collection[int] = {segment.base_offset for segment in self.partition.segments}
        self._pool = ContextPool(_PUTS_AT_ONCE, thread_name_prefix="tiersnap-snapshot")
        self._begun: deque[tuple[SnapshotObject, Future[StoredSnapshot]]] = deque()
        self._is_first = True

    def put(self, boundary: Boundary) -> None:
        """Start to store the boundary's snapshot if it is wanted."""
        found = boundary.found.verdict(self.options.broker_expiry(self.now))
        if not self._is_wanted(boundary.offset, found, boundary.provenance):
            return
        snapshot = self._object(boundary)
        self._make_room(len(snapshot.data))
        if self.away:
            if not self.errors:
                message = f"snapshot not written: remote storage does not answer: {self.away[0]}"
                self.errors.append(TransientError(message, at=f" {boundary.offset}"))
            return
        self._begun.append((snapshot, self._pool.submit(self.sink.put, snapshot)))
        if self._is_first:  # wait for the first one, which shows whether the store answers
            self._is_first = False
            self._make_room(_BYTES_AT_ONCE)

    def _make_room(self, size: int) -> None:
        """Wait for the oldest puts until another put of `size` bytes may start."""
        size += sum(len(snapshot.data) for snapshot, _ in self._begun)
        while self._begun and (size > _BYTES_AT_ONCE or len(self._begun) == _PUTS_AT_ONCE):
            snapshot, begun = self._begun.popleft()
            size -= len(snapshot.data)
            try:
                self.stored[snapshot.end_offset] = begun.result()
            except TiersnapError as error:
                error.attrs["at"] = f" {snapshot.end_offset}"
                self.errors.append(error)
                if isinstance(error, TransientError):
                    self.away.append(error.message)

    def commit(self) -> None:
        """Wait until all snapshots are stored, and write the manifest that lists them."""
        self._make_room(_BYTES_AT_ONCE)
        self._pool.shutdown()
        if not self.stored or self.away:
            return
        partition = self.partition
        try:
            self.sink.commit(partition.topic, partition.topic_id, partition.partition, list(self.stored.values()))
        except TiersnapError as error:
            error.attrs["at"] = ""
            self.errors.append(error)

    def _object(self, boundary: Boundary) -> SnapshotObject:
        expiry = self.options.expiry(self.now)
        entries = expiry.live(boundary.entries, boundary.max_timestamp)
        return SnapshotObject(
            self.partition.topic,
            self.partition.topic_id,
            self.partition.partition,
            self.cluster_id,
            boundary.offset,
            snapshot_file.encode(entries),
            str(boundary.provenance),
            boundary.folded_from,
            int(entries.size),
            boundary.gaps,
        )

    def _is_wanted(self, offset: int, found: SnapshotVerdict, provenance: Provenance) -> bool:
        options = self.options
        if not may_be_stored(self.partition, offset) or provenance.lacks_start:
            return False
        if options.every_boundary:
            return True
        if offset not in self._bases or self._is_never_tiered:
            return False
        if options.replace and found in (SnapshotVerdict.CORRUPT, SnapshotVerdict.SUSPECT):
            return True
        return found is SnapshotVerdict.MISSING
