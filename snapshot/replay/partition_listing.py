"""A partition with its remote segments, the input of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from tiersnap.snapshot.errors import RecordedError, TiersnapError, TransientError
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import ENDLESS
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.replay.remote_listing import NOTHING_SEEN, ClaimedStart, ListedCopy, RemoteListing, RemoteLook
from tiersnap.snapshot.replay.remote_records import PartitionRecords
from tiersnap.snapshot.replay.replay_start import claimed_start, copies_up_to, is_continued
from tiersnap.snapshot.replay.window_start import LeaderOffsets

# Remote segments whose claims are read for a state; an older state only makes the replay read a few segments again.
_MOST_STARTS = 4


@dataclass(frozen=True, slots=True)
class PartitionListing:
    """One partition as it was listed."""

    filesystem: FileSystem
    partition: Partition
    cluster_id: str | None = None  # the cluster of the log; None if the disk does not name it
    remote: RemoteListing = NOTHING_SEEN  # the remote segments
    remote_error: RecordedError | None = None  # why the remote segments are unknown
    # A snapshot in remote storage to start from; None if none was wanted or found.
    start: ClaimedStart | None = None
    tiered: frozenset[int] = frozenset()  # base offsets of the segments that are complete in remote storage
    window_offset: int | None = None  # first offset of the scan window; None if the whole log is scanned
    leader: LeaderOffsets | None = None  # offsets that the leader returned; None without a cluster
    # ms by base offset, from the time indexes, if these were read.
    largest_timestamps: Mapping[int, int] = field(default_factory=dict)
    # The object that holds the decode, by base offset; only of a collected folder.
    decode_objects: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_remote_known(self) -> bool:
        """Return whether remote storage was asked, and answered."""
        return self.remote is not NOTHING_SEEN and self.remote_error is None


@dataclass(frozen=True)
class RemoteLister:
    """Adds the remote segments to listings. After one request without an answer it sends no further ones."""

    look: RemoteLook | None = None  # lists remote segments; None to leave remote storage alone
    wants_start: bool = False  # find a snapshot to start from, since no table has a state
    _away: list[str] = field(default_factory=list)

    def with_remote(self, listing: PartitionListing, records: PartitionRecords | None = None) -> PartitionListing:
        """Return the listing with the partition's remote segments, and with the states that `records` have of them."""
        partition, look = listing.partition, self.look
        if look is None or not _may_be_tiered(partition):
            return listing
        if self._away:
            why = f"not asked after: {self._away[0]}"
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
        return self._with_start(seen, look) if self.wants_start else seen

    def _with_start(self, listing: PartitionListing, look: RemoteLook) -> PartitionListing:
        """Add the state to start from: at the end of a remote segment, if all local segments before it are tiered."""
        partition, copies = listing.partition, listing.remote.copies
        behind = copies_up_to(_tiered_ends(listing), copies, partition)
        newest = sorted(behind, key=lambda copy: copy.next_base_offset, reverse=True)[:_MOST_STARTS]
        if not newest:
            return listing
        try:
            # Another replica whose log began there may have uploaded the snapshot.
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
    """Return the newest remote segment that ends at the first local offset; None without one."""
    partition, copies = listing.partition, listing.remote.copies
    if not is_continued(partition, copies):
        return None
    ending = copies_up_to({partition.first_base_offset}, copies, partition)
    return max(ending, key=lambda copy: copy.written_at, default=None)


def _tiered_ends(listing: PartitionListing) -> set[int]:
    """Return the ends of the tiered segments before the first untiered one, up to the high watermark."""
    partition = listing.partition
    tiered = takewhile(lambda segment: segment.base_offset in listing.tiered, partition.segments)
    high_watermark = ENDLESS if partition.high_watermark is None else partition.high_watermark
    return {end for each in tiered if (end := each.next_base_offset) is not None and end <= high_watermark}
