"""The remote segments of a partition, as the listing and the replay ask for them.

If a log begins there and nothing of any log is there, remote storage may not be that of the brokers; a log alone of
which nothing is there may have an old checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol

import numpy as np
from msgspec import Meta

from tiersnap.snapshot.columns import BaseOffset, PartitionNumber, RunNumber, Topic, TopicId
from tiersnap.snapshot.errors import RecordedError, TiersnapError, UnknownStateError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.coverage import CopyFacts, RemoteCoverage, coverage_of
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import ENDLESS
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import begins_below
from tiersnap.snapshot.replay.expiry import BrokerExpiry

if TYPE_CHECKING:
    from tiersnap.snapshot.replay.remote_records import Records

ELSEWHERE = "--remote, its prefix and --layout must be those of the brokers"


class Encryption(StrEnum):
    """The encryption of the Aiven plugin, as its manifests show."""

    PLAIN = "PLAIN"
    ENCRYPTED = "ENCRYPTED"
    UNKNOWN = "UNKNOWN"  # there is no manifest


class RemoteSegmentState(StrEnum):
    """The states of a remote segment, in the order in which a copy attempt enters them within a run.

    Follows org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState.
    """

    COPY_SEGMENT_STARTED = "COPY_SEGMENT_STARTED"
    COPY_SEGMENT_FINISHED = "COPY_SEGMENT_FINISHED"
    DELETE_SEGMENT_STARTED = "DELETE_SEGMENT_STARTED"
    DELETE_SEGMENT_FINISHED = "DELETE_SEGMENT_FINISHED"


@dataclass(frozen=True, slots=True)
class ListedCopy:
    """A remote segment by a listing or by a record; its copy attempt may be under way."""

    segment_id: str
    base_offset: int
    next_base_offset: int  # exclusive end
    # FINISHED if it counts. STARTED if it is under way, or is one of ours that is to be finished or made again.
    state: RemoteSegmentState = RemoteSegmentState.COPY_SEGMENT_STARTED
    size_bytes: int = 0  # of the log; 0 of an incomplete copy
    largest_timestamp: int = -1  # ms, -1 of an incomplete copy
    leader_epochs: LeaderEpochs = ()  # of the segment, ascending
    written_at: int = 0  # ms by the store's clock
    is_ours: bool = False  # known to be; not asked of a finished one
    is_brokers: bool | None = False  # no claim names it; None if that was not asked
    # A COPY_SEGMENT_FINISHED record names it; None if none is known and not all records were read.
    is_published: bool | None = None

    @property
    def is_finished(self) -> bool:
        """Return whether it counts."""
        return self.state is RemoteSegmentState.COPY_SEGMENT_FINISHED

    @property
    def facts(self) -> CopyFacts:
        """Return the facts that coverage is derived from."""
        return CopyFacts(
            self.base_offset,
            self.next_base_offset,
            self.leader_epochs,
            self.is_finished,
            is_ours=not self.is_brokers,
            is_published=self.is_published,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEvent:
    """A row of `remote_log_segments`: a state that a copy attempt entered, or a failure."""

    topic: Topic
    topic_id: TopicId
    partition: PartitionNumber
    base_offset: BaseOffset
    next_base_offset: Annotated[int, Meta(description="exclusive end of the remote segment")]
    size_bytes: Annotated[int, Meta(description="bytes of the segment's log")]
    largest_timestamp: Annotated[int, Meta(description="ms, largest timestamp of the segment")]
    leader_epochs: Annotated[LeaderEpochs, Meta(description="leader epochs of the segment and their start offsets")]
    written_at: Annotated[int, Meta(description="ms, when the state was entered")]
    segment_id: Annotated[
        str | None, Meta(description="id of the remote segment; null of a failure before there was an attempt")
    ] = None
    state: Annotated[
        RemoteSegmentState | None, Meta(description="KIP-405 state that the remote segment entered; null of an error")
    ] = None
    object_bytes: Annotated[
        int, Meta(description="bytes of all objects that were sent and are in remote storage; 0 if nothing was sent")
    ] = 0
    rebuilt_indexes: Annotated[
        Mapping[str, str], Meta(description="by name of an index: why it is not the broker's")
    ] = field(default_factory=dict)
    error: RecordedError | None = None
    is_ours: Annotated[
        bool, Meta(description="a run of this warehouse uploaded it; else it was found in remote storage")
    ] = True
    is_brokers: Annotated[bool | None, Meta(description="no claim of tiersnap names it; null of uploads")] = None
    is_published: Annotated[
        bool | None,
        Meta(
            description="a COPY_SEGMENT_FINISHED record names it; null if none is known and not all records were read"
        ),
    ] = None
    run: RunNumber = 0

    @property
    def is_finished(self) -> bool:
        """Return whether a copy of ours is finished since."""
        return self.state is RemoteSegmentState.COPY_SEGMENT_FINISHED

    @property
    def is_in_remote_storage(self) -> bool:
        """Return whether the segment is in remote storage, whoever copied it."""
        return self.error is None and (self.state is None or self.is_finished)


class LostRange(NamedTuple):
    """Offsets that remote storage lost and no local file holds."""

    start_offset: int
    end_offset: int  # exclusive


@dataclass(frozen=True, slots=True)
class RemoteListing:
    """The remote inventory of a partition, as far as a replay needs it."""

    copies: tuple[ListedCopy, ...] = ()
    encryption: Encryption | None = None  # None where nobody looked
    encrypted_by: str | None = None  # key of a manifest that shows that the plugin encrypts; None where none does
    leftover_count: int | None = None  # leftovers of ended attempts; None where nobody looked
    lost: tuple[LostRange, ...] = ()  # ascending; below the first local file

    def coverage(self, leader_epochs: LeaderEpochs | None, log_end_offset: int = ENDLESS) -> RemoteCoverage:
        """Return what remote storage holds under the leader epochs of the local log.

        Args:
            leader_epochs: (epoch, start offset), ascending; None where they are not known.
            log_end_offset: of the local log, exclusive.
        """
        return replace(
            coverage_of((copy.facts for copy in self.copies), leader_epochs or (), log_end_offset),
            in_flight=frozenset(copy.base_offset for copy in self._begun(is_ours=False)),
            unfinished=tuple((copy.base_offset, copy.next_base_offset) for copy in self._begun(is_ours=True)),
            broker_wrote_at=max((copy.written_at for copy in self.copies if copy.is_brokers), default=None),
            encrypted_by=self.encrypted_by or "",
        )

    def _begun(self, *, is_ours: bool) -> Iterator[ListedCopy]:
        """Yield the copies that are neither finished nor published."""
        begun = (copy for copy in self.copies if not copy.is_finished and not copy.is_published)
        return (copy for copy in begun if copy.is_ours == is_ours)

    def tiered_segments(self, partition: Partition) -> frozenset[int]:
        """Return the base offsets of the segments that remote storage holds whole."""
        remote = self.coverage(partition.leader_epochs)
        closed = ((each.base_offset, each.next_base_offset) for each in partition.segments)
        start = partition.log_start_offset
        return frozenset(base for base, end in closed if end is not None and remote.has_segment(base, end, start))


NOTHING_SEEN = RemoteListing()


@dataclass(frozen=True, slots=True)
class ClaimedStart:
    """A snapshot in remote storage that a replay may start from: that of a copy which ends at `offset`."""

    snapshot_offset: int  # exclusive
    segment_id: str
    segment_base_offset: int
    snapshot_crc32c: int  # of the whole snapshot, by the claim of the copy
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class RemoteState:
    """The state of a log at an offset, as remote storage tells it."""

    offset: int  # exclusive
    entries: np.ndarray  # ENTRY_DTYPE, ascending producer id
    is_complete: bool  # it tells all that the log ever told up to there, not only what a broker had kept
    refused: tuple[str, ...] = ()  # why later snapshots were not believed, a sentence each


class RemoteLook(Protocol):
    """Looks at what remote storage holds of a partition; picklable."""

    def __call__(self, partition: Partition, filesystem: FileSystem | None = None) -> RemoteListing:
        """Return what it holds; with a file system, compare it with the log there.

        Raises:
            TiersnapError: it cannot be known, or is of another log.
        """

    def with_records(self, records: Records) -> RemoteLook:
        """Return a look that says of copies what records tell of them."""

    def find_start(self, partition: Partition, copies: Iterable[ListedCopy]) -> ClaimedStart | None:
        """Return the first of these copies whose snapshot starts a replay. Raises TiersnapError: it cannot be known."""

    def read_start(self, partition: Partition, start: ClaimedStart) -> bytes:
        """Return the snapshot. Raises TiersnapError: it is gone, or another one."""

    def living_producers(self, partition: Partition, offset: int, expiry: BrokerExpiry) -> np.ndarray:
        """Return ids, ascending, of producers that live, of all that snapshots at an offset and below know.

        Raises:
            TiersnapError: it does not answer, or refuses.
        """

    def state_at(self, partition: Partition, offset: int, expiry: BrokerExpiry) -> RemoteState:
        """Return the state of the log at an offset, by the rule for remote snapshots.

        It may read whole remote segments.

        Raises:
            UnknownStateError: remote storage does not tell it.
            TiersnapError: it does not answer, or refuses.
        """


def lacks_beginning(partition: Partition, remote: RemoteListing) -> bool | None:
    """Return whether the log begins in remote storage and no segment of it is there; None if its start is unknown."""
    if any(copy.is_finished or not copy.is_published for copy in remote.copies):
        return False
    return True if begins_below(partition) else None


def place_error(name: str, place: str) -> TiersnapError:
    """Return the error of a doubt; `name` is that of a partition, `place` the URI of remote storage."""
    said = f"{name}: its log begins in remote storage, and nothing of it is at {place}"
    return UnknownStateError(said, hint=ELSEWHERE)


@dataclass
class PlaceDoubt:
    """The doubt about a place, from the inventories of one host's partitions."""

    _name: str = ""
    _is_refuted: bool = False

    def take(self, partition: Partition, remote: RemoteListing) -> None:
        """Take in one look."""
        lacks = lacks_beginning(partition, remote)
        self._is_refuted |= lacks is False
        if lacks and not self._name:
            self._name = partition.name

    def errors(self, place: str) -> tuple[TiersnapError, ...]:
        """Return the doubt, if there is one; `place` is the URI of remote storage."""
        return (place_error(self._name, place),) if self._name and not self._is_refuted else ()
