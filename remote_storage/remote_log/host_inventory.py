"""The remote listings of one host's partitions, for the commands `scan` and `doctor`, which write nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tiersnap.remote_storage.remote_log.lost_below import lost_error_of
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
from tiersnap.snapshot.exactly_once.simulate.lost_producers import find_lost_producers
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE, RemoteCoverage
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import ENDLESS
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import may_begin_below
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import LocationCheck, RemoteListing
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning, beginning, is_continued

_T = TypeVar("_T")


@dataclass(frozen=True)
class ObserveOnce(Observe):
    """Lists remote storage, and keeps the listing of the last partition for the next call."""

    _last: dict[str, RemoteListing] = field(default_factory=dict)

    def __call__(self, partition: Partition, filesystem: FileSystem | None = None) -> RemoteListing:
        if partition.path not in self._last:
            found = super().__call__(partition, filesystem)
            self._last.clear()
            self._last[partition.path] = found
        return self._last[partition.path]


@dataclass
class HostInventory:
    """The remote listings of a host's partitions. If a request gets no answer, no further request is made."""

    look: ObserveOnce  # lists remote storage
    expiry: BrokerExpiry
    # failed requests, then lost offsets, then doubts about the location
    errors: list[TiersnapError] = field(default_factory=list)
    _failures: list[TiersnapError] = field(default_factory=list)
    _lost: dict[str, TiersnapError | None] = field(default_factory=dict)  # by partition
    _doubt: LocationCheck = field(default_factory=LocationCheck)
    _is_away: bool = False

    def beginning(self, partition: Partition) -> Beginning:
        """Return the producer state at the first local offset, and whether the log begins in remote storage.

        If all local segments are tiered, the state is left unknown and no remote segment is read. No upload needs the
        state then.
        """
        if not may_begin_below(partition) or not _may_be_tiered(partition):
            return NOT_LOOKED
        unknown = Beginning(True, why="remote storage does not answer", may_pass=True)

        def ask() -> Beginning:
            if self._is_tiered(partition):
                return Beginning(is_continued(partition, self.look(partition).copies))
            return beginning(self.look, self.expiry, partition)

        return self._asked(partition, ask, unknown)

    def _is_tiered(self, partition: Partition) -> bool:
        first, last = partition.log_start_offset, partition.segments[-1].base_offset
        return self.look(partition).coverage(partition.leader_epochs).covers(first, last)

    def lost_producers(self, filesystem: FileSystem, partition: Partition) -> LostProducers | None:
        """Return the producers that a replica lost, or None.

        After a failure, return None, and add an error to `errors`.
        """
        return self._asked(partition, lambda: find_lost_producers(self.look, filesystem, partition, self.expiry), None)

    def coverage(self, partition: Partition, log_end_offset: int = ENDLESS) -> RemoteCoverage:
        """Return the remote coverage of the partition.

        After a failure, the coverage is empty, and an error is added to `errors`.

        Args:
            log_end_offset: exclusive; ENDLESS if the local log was not read.
        """
        if not _may_be_tiered(partition):
            return NOTHING_REMOTE

        def ask() -> RemoteCoverage:
            found = self.look(partition)
            self._doubt.take(partition, found)
            self._lost[partition.path] = lost_error_of(self.look.location, partition, found.lost)
            self._tell()
            return found.coverage(partition.leader_epochs, log_end_offset)

        return self._asked(partition, ask, NOTHING_REMOTE)

    def _asked(self, partition: Partition, ask: Callable[[], _T], otherwise: _T) -> _T:
        if self._is_away:
            return otherwise
        try:
            return ask()
        except TiersnapError as error:
            self._is_away = isinstance(error, TransientError)
            error.message = f"{partition.name}: {error.message}"
            self._failures.append(error)
            self._tell()
            return otherwise

    def _tell(self) -> None:
        doubts = self._doubt.errors(self.look.location.store.uri)
        self.errors[:] = [*self._failures, *filter(None, self._lost.values()), *doubts]


def _may_be_tiered(partition: Partition) -> bool:
    is_named = partition.topic_id is not None and bool(partition.segments)
    return is_named and not never_tiered_reason(partition)
