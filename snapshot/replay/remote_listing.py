"""The remote segments of a partition, as listing and replay need them.

If a log begins in remote storage, the brokers' remote location has segments of it. If --remote has no segments of any
such log, --remote is probably another location. If --remote has segments of other logs but none of this one, the
checkpoint of this log is probably old.
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

ELSEWHERE = "give --remote, its prefix and --layout as in server.properties of the brokers"


class Encryption(StrEnum):
    """The encryption of the Aiven plugin, as its manifests show it."""

    PLAIN = "PLAIN"
    ENCRYPTED = "ENCRYPTED"
    UNKNOWN = "UNKNOWN"  # no manifest exists


class RemoteSegmentState(StrEnum):
    """The states of a remote segment, in the order in which a copy attempt enters them.

    Follows org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState.
    """

    COPY_SEGMENT_STARTED = "COPY_SEGMENT_STARTED"
    COPY_SEGMENT_FINISHED = "COPY_SEGMENT_FINISHED"
    DELETE_SEGMENT_STARTED = "DELETE_SEGMENT_STARTED"
    DELETE_SEGMENT_FINISHED = "DELETE_SEGMENT_FINISHED"


@dataclass(frozen=True, slots=True)
class ListedCopy:
    """A remote segment from a listing of remote storage, or from a record of `__remote_log_metadata`.

    Its copy attempt may still be running.
    """

    segment_id: str
    base_offset: int
    next_base_offset: int  # exclusive end
    # COPY_SEGMENT_FINISHED if the segment is complete and counts as covered. COPY_SEGMENT_STARTED if its attempt is
    # running, or if it is a segment of tiersnap that must be finished or rebuilt.
    state: RemoteSegmentState = RemoteSegmentState.COPY_SEGMENT_STARTED
    size_bytes: int = 0  # of the log object; 0 for an incomplete segment
    largest_timestamp: int = -1  # ms; -1 for an incomplete segment
    leader_epochs: LeaderEpochs = ()  # of the segment, ascending
    written_at: int = 0  # ms by the store's clock
    is_ours: bool = False  # whether tiersnap is known to have uploaded it; not asked for a finished segment
    is_brokers: bool | None = False  # True if no claim of tiersnap names it; None if that was not asked
    # Whether a COPY_SEGMENT_FINISHED record names it; None if no such record was found and not all records were read.
    is_published: bool | None = None

    @property
    def is_finished(self) -> bool:
        """Return whether the segment is complete, so that coverage includes its offsets."""
        return self.state is RemoteSegmentState.COPY_SEGMENT_FINISHED

    @property
    def facts(self) -> CopyFacts:
        """Return the facts from which coverage is computed."""
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
    """A row of `remote_log_segments`: a state that a remote segment entered, or a failed copy attempt."""

    topic: Topic
    topic_id: TopicId
    partition: PartitionNumber
    base_offset: BaseOffset
    next_base_offset: Annotated[int, Meta(description="exclusive end offset of the remote segment")]
    size_bytes: Annotated[int, Meta(description="bytes of the segment's log")]
    largest_timestamp: Annotated[int, Meta(description="ms, largest timestamp of the segment")]
    leader_epochs: Annotated[LeaderEpochs, Meta(description="leader epochs of the segment and their start offsets")]
    written_at: Annotated[int, Meta(description="ms, time at which the remote segment entered the state")]
    segment_id: Annotated[
        str | None, Meta(description="id of the remote segment; null if the error came before a copy attempt began")
    ] = None
    state: Annotated[
        RemoteSegmentState | None, Meta(description="KIP-405 state that the remote segment entered; null for an error")
    ] = None
    object_bytes: Annotated[
        int,
        Meta(description="bytes of all objects of the segment that were uploaded and exist; 0 if nothing was uploaded"),
    ] = 0
    rebuilt_indexes: Annotated[
        Mapping[str, str],
        Meta(description="names of the indexes that the upload rebuilt, each with the reason"),
    ] = field(default_factory=dict)
    error: RecordedError | None = None
    is_ours: Annotated[
        bool,
        Meta(
            description="whether a run of this warehouse uploaded the segment; false if a run found the segment in "
            "remote storage"
        ),
    ] = True
    is_brokers: Annotated[
        bool | None, Meta(description="false if a claim of tiersnap names the segment, else true; null for uploads")
    ] = None
    is_published: Annotated[
        bool | None,
        Meta(description="whether a COPY_SEGMENT_FINISHED record names the segment; null if not all records were read"),
    ] = None
    run: RunNumber = 0

    @property
    def is_finished(self) -> bool:
        """Return whether the event is the end of a successful upload by tiersnap."""
        return self.state is RemoteSegmentState.COPY_SEGMENT_FINISHED

    @property
    def is_in_remote_storage(self) -> bool:
        """Return whether the segment is in remote storage, uploaded by tiersnap or by a broker."""
        return self.error is None and (self.state is None or self.is_finished)


class LostRange(NamedTuple):
    """Offsets that remote storage lost and that no local file contains."""

    start_offset: int
    end_offset: int  # exclusive


@dataclass(frozen=True, slots=True)
class RemoteListing:
    """The remote segments of a partition, with the facts that a replay needs."""

    copies: tuple[ListedCopy, ...] = ()
    encryption: Encryption | None = None  # None if it was not asked
    encrypted_by: str | None = None  # key of a manifest which shows that the plugin encrypts; None without one
    leftover_count: int | None = None  # number of leftovers of ended attempts; None if it was not asked
    lost: tuple[LostRange, ...] = ()  # ascending; below the first local offset

    def coverage(self, leader_epochs: LeaderEpochs | None, log_end_offset: int = ENDLESS) -> RemoteCoverage:
        """Return the offsets of the local log's lineage that remote segments cover.

        Args:
            leader_epochs: (epoch, start offset) of the local log, ascending; None if they are unknown.
            log_end_offset: exclusive end of the local log.
        """
        in_flight = frozenset(copy.base_offset for copy in self._begun(is_ours=False))
        unfinished = [(copy.base_offset, copy.next_base_offset) for copy in self._begun(is_ours=True)]
        return replace(
            coverage_of((copy.facts for copy in self.copies), leader_epochs or (), log_end_offset),
            in_flight=in_flight,
            unfinished=tuple(unfinished),
            broker_wrote_at=max((copy.written_at for copy in self.copies if copy.is_brokers), default=None),
            encrypted_by=self.encrypted_by or "",
        )

    def _begun(self, *, is_ours: bool) -> Iterator[ListedCopy]:
        """Yield the segments that are neither finished nor published."""
        for copy in self.copies:
            if copy.is_ours == is_ours and not copy.is_finished and not copy.is_published:
                yield copy

    def tiered_segments(self, partition: Partition) -> frozenset[int]:
        """Return the base offsets of the local segments that are complete in remote storage."""
        remote = self.coverage(partition.leader_epochs)
        found: set[int] = set()
        for segment in partition.segments:
            base, end = segment.base_offset, segment.next_base_offset
            if end is not None and remote.has_segment(base, end, partition.log_start_offset):
                found.add(base)
        return frozenset(found)


NOTHING_SEEN = RemoteListing()


@dataclass(frozen=True, slots=True)
class ClaimedStart:
    """A snapshot in remote storage from which a replay may start.

    The values come from the claim of the snapshot's remote segment.
    """

    snapshot_offset: int  # exclusive; the end of the remote segment
    segment_id: str
    segment_base_offset: int
    snapshot_crc32c: int  # of the whole snapshot object, as the claim records it
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class RemoteState:
    """The producer state of a log at an offset, from remote storage."""

    offset: int  # exclusive
    entries: np.ndarray  # ENTRY_DTYPE, ascending producer id
    is_complete: bool  # True if it has all producers of the log below `offset`, and not only those that a broker kept
    refused: tuple[str, ...] = ()  # for each later snapshot that is not trusted, the reason


class RemoteLook(Protocol):
    """A reader of the remote segments and snapshots of a partition; picklable."""

    def __call__(self, partition: Partition, filesystem: FileSystem | None = None) -> RemoteListing:
        """Return the remote segments of a partition. If `filesystem` is given, compare them with the local log.

        Raises:
            TiersnapError: the remote segments cannot be listed, or belong to another log.
        """

    def with_records(self, records: Records) -> RemoteLook:
        """Return a RemoteLook that takes the states of remote segments from `records`."""

    def find_start(self, partition: Partition, copies: Iterable[ListedCopy]) -> ClaimedStart | None:
        """Return the snapshot of the first of these remote segments whose claim marks the snapshot as trusted, or None.

        Raises:
            TiersnapError: the claims cannot be read.
        """

    def read_start(self, partition: Partition, start: ClaimedStart) -> bytes:
        """Return the snapshot's bytes. Raises TiersnapError: the snapshot was deleted, or its CRC is wrong."""

    def living_producers(self, partition: Partition, offset: int, expiry: BrokerExpiry) -> np.ndarray:
        """Return the ascending ids of producers that a broker would keep now, from remote snapshots up to `offset`.

        Raises:
            TiersnapError: remote storage does not answer, or refuses.
        """

    def state_at(self, partition: Partition, offset: int, expiry: BrokerExpiry) -> RemoteState:
        """Return the producer state of the log at an offset, from trusted snapshots and segments in remote storage.

        This may read whole remote segments.

        Raises:
            UnknownStateError: remote storage cannot provide the state.
            TiersnapError: remote storage does not answer, or refuses.
        """


def lacks_beginning(partition: Partition, remote: RemoteListing) -> bool | None:
    """Return whether the log begins in remote storage, but the remote location has no segment of it.

    Return None if the log is not known to begin in remote storage.
    """
    if any(copy.is_finished or not copy.is_published for copy in remote.copies):
        return False
    if begins_below(partition):
        return True
    return None


def place_error(name: str, place: str) -> TiersnapError:
    """Return the error about a remote location that lacks a log's beginning.

    Args:
        name: name of the partition.
        place: URI of the remote location.
    """
    said = f"{name}: the log begins in remote storage, but {place} has no segment of it"
    return UnknownStateError(said, hint=ELSEWHERE)


@dataclass
class LocationCheck:
    """Checks, with the partitions of one host, whether --remote may be the brokers' remote location."""

    _name: str = ""
    _is_refuted: bool = False

    def take(self, partition: Partition, remote: RemoteListing) -> None:
        """Add the listing of one partition."""
        lacks = lacks_beginning(partition, remote)
        self._is_refuted |= lacks is False
        if lacks and not self._name:
            self._name = partition.name

    def errors(self, place: str) -> tuple[TiersnapError, ...]:
        """Return an error if the remote location lacks a log's beginning and has no segments of any listed partition.

        `place` is the URI of the remote location.
        """
        if self._is_refuted or not self._name:
            return ()
        return (place_error(self._name, place),)
