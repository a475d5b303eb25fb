"""List the remote segments of a partition, and choose the state that its replay starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tiersnap.snapshot.errors import RecordedError, TiersnapError, TransientError
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import ENDLESS
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.replay.remote_listing import NOTHING_SEEN, ClaimedStart, ListedCopy, RemoteListing, RemoteLook
from tiersnap.snapshot.replay.remote_records import PartitionRecords
from tiersnap.snapshot.replay.replay_start import claimed_start, copies_up_to, is_continued
from tiersnap.snapshot.replay.window_start import LeaderOffsets

# Number of remote segments whose claims are read to find a state. From an older state, the replay reads more segments.
_MOST_STARTS = 4


@dataclass(frozen=True, slots=True)
class PartitionListing:
    """A listed partition with its remote segments: the input of a replay."""

    filesystem: FileSystem
    partition: Partition
    cluster_id: str | None = None  # the cluster of the log; None if the disk does not name it
    remote: RemoteListing = NOTHING_SEEN  # the remote segments
    remote_error: RecordedError | None = None  # why the remote segments are unknown
    # A snapshot in remote storage to start from; None if none was wanted or found.
    start: ClaimedStart | None = None
    tiered: frozenset[int] = frozenset()  # base offsets of segments that are complete in remote storage
    window_offset: int | None = None  # first offset of the scan window; None if the whole log is scanned
    leader: LeaderOffsets | None = None  # offsets that the leader returned; None without a cluster
    # Largest timestamps in ms by base offset, from the time indexes; empty if these were not read.
    largest_timestamps: Mapping[int, int] = field(default_factory=dict)
    # Only for a collected folder: the object with the decoded batches, by base offset.
    decode_objects: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_remote_known(self) -> bool:
        """Return whether remote storage was asked and has answered."""
        return self.remote is not NOTHING_SEEN and self.remote_error is None

    @property
    def end_to_upload(self) -> int:
        """Return the exclusive end offset of the closed segments that remote storage lacks.

        Return 0 if it lacks none, or if the remote segments are unknown.
        """
        if not self.is_remote_known:
            return 0
        missing = (each for each in self.partition.segments if each.base_offset not in self.tiered)
        return max((each.next_base_offset or 0 for each in missing), default=0)


@dataclass(frozen=True)
class RemoteLister:
    """Adds the remote segments to listings. After a request without an answer it sends no further requests."""

    look: RemoteLook | None = None  # lists remote segments; None to send no request
    wants_start: bool = False  # whether to find a snapshot in remote storage to start from
    _away: list[str] = field(default_factory=list)

    def with_remote(self, listing: PartitionListing, records: PartitionRecords | None = None) -> PartitionListing:
        """Return the listing with the partition's remote segments.

        If `records` are given, the states of the remote segments come from them.
        """
        partition, look = listing.partition, self.look
        if look is None or not _may_be_tiered(partition):
            return listing
        if self._away:
            why = (
                f"remote storage was not asked about this partition, because an earlier request failed: {self._away[0]}"
            )
            return replace(listing, remote_error=RecordedError(why, is_transient=True))
        if records is not None and records.error:
            return replace(listing, remote_error=RecordedError(f"{partition.name}: {records.error}", is_transient=True))
        if records is not None:
            look = look.with_records({(partition.topic, partition.partition): records})
        try:
            view = look(partition, listing.filesystem)
        except TiersnapError as error:
            return self._unanswered(listing, error)
        seen = replace(listing, remote=view, tiered=view.tiered_segments(partition))
        if self.wants_start:
            return self._with_start(seen, look)
        return seen

    def _with_start(self, listing: PartitionListing, look: RemoteLook) -> PartitionListing:
        """Add a snapshot from which the replay may start.

        The snapshot must be at the end of a remote segment, and all local segments below this end must be tiered.
        """
        partition, copies = listing.partition, listing.remote.copies
        behind = copies_up_to(_tiered_ends(listing), copies, partition)
        newest = sorted(behind, key=lambda copy: copy.next_base_offset, reverse=True)[:_MOST_STARTS]
        if not newest:
            return listing
        try:
            # A snapshot may come from another replica, whose log began later. So refuse one that was folded from there.
            doubts = is_continued(partition, copies) is not False
            return replace(listing, start=claimed_start(look, partition, newest, doubts_log_start=doubts))
        except TiersnapError as error:
            return self._unanswered(listing, error)

    def _unanswered(self, listing: PartitionListing, error: TiersnapError) -> PartitionListing:
        if isinstance(error, TransientError):
            self._away.append(error.message)
        message = f"{listing.partition.name}: {error.message}"
        return replace(listing, remote_error=RecordedError.of(error, message))


def _may_be_tiered(partition: Partition) -> bool:
    return bool(partition.segments) and partition.topic_id is not None and not never_tiered_reason(partition)


def copy_before(listing: PartitionListing) -> ListedCopy | None:
    """Return the newest remote segment that ends at the first local offset, or None."""
    partition, copies = listing.partition, listing.remote.copies
    if not is_continued(partition, copies):
        return None
    ending = copies_up_to({partition.first_base_offset}, copies, partition)
    return max(ending, key=lambda copy: copy.written_at, default=None)


def _tiered_ends(listing: PartitionListing) -> set[int]:
    """Return the end offsets, up to the high watermark, of all tiered segments below the first untiered segment."""
    partition = listing.partition
    high_watermark = ENDLESS if partition.high_watermark is None else partition.high_watermark
    found: set[int] = set()
    for segment in partition.segments:
        if segment.base_offset not in listing.tiered:
            break
        if segment.next_base_offset is not None and segment.next_base_offset <= high_watermark:
            found.add(segment.next_base_offset)
    return found
