"""List remote storage for a log directory. `Observe` implements replay.remote_listing.RemoteLook.

A segment that tiersnap uploaded is lost if a claim names it, but an object is missing or has the wrong size. If the
local log still has the offsets, retention did not delete the segment, and `tier` uploads it again. If the cluster's
records name the segment, `mend` restores it, and `tier` uploads no second segment. Lost offsets below the first local
file are an error (lost_below.py), because no command can upload them.

If a partition has closed segments but no complete remote segment, the partition is listed in the other layout, too.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, epochs_in_range, name_of
from tiersnap.remote_storage.remote_log.complete import check_other_layout, complete_in_other_layout
from tiersnap.remote_storage.remote_log.encryption import EncryptionLook
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.listing_ahead import ListingAhead, PartitionKeys
from tiersnap.remote_storage.remote_log.log_head import AskLogStart
from tiersnap.remote_storage.remote_log.lost_below import LostBelow
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory, leftovers_of, list_remote_partition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.same_log import check_same_log
from tiersnap.remote_storage.remote_log.segment_objects import ids_of
from tiersnap.remote_storage.remote_log.starts import find_start, living_producers, read_start, state_at
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import Interval
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import begins_below
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import (
    ClaimedStart,
    ListedCopy,
    RemoteListing,
    RemoteSegmentState,
    RemoteState,
)
from tiersnap.snapshot.replay.remote_records import PartitionRecords, Records, records_of


@dataclass(frozen=True)
class Observe:
    """Lists the remote segments of partitions in one remote location."""

    location: RemoteLocation
    refuses_plaintext: bool = False  # whether listings include the encryption of the segments
    records: Records | None = None  # from `__remote_log_metadata`; None if they were not read
    untrusted: Collection[str] = ()  # ids of segments whose snapshots start no replay
    wrong: Collection[str] = ()  # ids of complete segments that count as missing
    of_brokers: Collection[str] | None = None  # ids of the brokers' segments that count; None if all count
    ask_log_start: AskLogStart | None = None  # asks the cluster for a log start; None without a cluster
    # Serves neighbouring partitions from one listing of their topic. Without it, each partition is listed alone.
    ahead: ListingAhead | None = field(default=None, compare=False, repr=False)
    _known: dict[TopicIdPartition, KnownManifests] = field(default_factory=dict, compare=False, repr=False)
    # The claims that the last listing read, by segment id.
    _claims: dict[str, Claim] = field(default_factory=dict, compare=False, repr=False)

    def known(self, partition: TopicIdPartition) -> KnownManifests:
        """Return the KnownManifests of a partition. Only the object for the last partition is kept."""
        known = self._known.get(partition)
        if known is None:
            known = KnownManifests(self.location.store, partition)
            self._known.clear()
            self._known[partition] = known
        return known

    @cached_property
    def _encryption(self) -> EncryptionLook:
        return EncryptionLook(self.location.store)

    def __call__(self, partition: Partition, filesystem: FileSystem | None = None) -> RemoteListing:
        """See RemoteLook. A listing that was read ahead is used only if it shows that the partition needs no work."""
        keys = None
        if self.ahead is not None:
            keys = self.ahead.keys_of(self.location, name_of(partition))
        if keys is not None:
            with suppress(CorruptDataError, RemoteStorageError):
                listed = self._inventory(partition, keys)
                if _is_settled(listed):
                    listing = self._listing(partition, filesystem, listed)
                    if _needs_nothing(partition, listing):
                        return listing
        listed = self._inventory(partition)
        if _closed(partition) and not listed.has_complete:
            records = self._records_of(partition)
            check_other_layout(self.location, listed.partition, ids_of(() if records is None else records.published))
        return self._listing(partition, filesystem, listed)

    def _records_of(self, partition: Partition) -> PartitionRecords | None:
        return records_of(self.records, partition.topic, partition.partition, partition.topic_id)

    def _inventory(self, partition: Partition, listed: PartitionKeys | None = None) -> RemoteInventory:
        name, local_start = name_of(partition), partition.segments[0].base_offset
        found = list_remote_partition(
            self.location,
            name,
            local_start=local_start,
            known=self.known(name),
            of_brokers=self.of_brokers,
            listed=listed,
        )
        self._claims.clear()
        for each in found.segments:
            if each.claim is not None:
                self._claims[each.segment_id] = each.claim
        return found

    def _listing(self, partition: Partition, filesystem: FileSystem | None, listed: RemoteInventory) -> RemoteListing:
        name, local_start = name_of(partition), partition.segments[0].base_offset
        records = self._records_of(partition)
        found = listed.counted(self.wrong, self.of_brokers)
        if filesystem is not None:
            check_same_log(self.location, found.segments, filesystem, partition)
        # A log directory's replica of `__remote_log_metadata` may lag, so only complete records prove a missing object.
        whole = records if records is not None and records.is_complete else None
        copies = [*_copies(found), *self._lost(found, partition, whole), *_in_flight(found)]
        if records is not None:
            copies = list(with_records(copies, records))
        if whole is not None:
            complete = ids_of((*listed.segments, *listed.uncounted))
            copies += missing_objects(whole, complete, local_start)
        lost = LostBelow(self.location, partition, listed, self.known(name), records, self.ask_log_start).find()
        listing = RemoteListing(tuple(copies), leftover_count=len(leftovers_of(found)), lost=lost)
        return self._with_encryption(listing, found) if _closed(partition) else listing

    def _lost(
        self, found: RemoteInventory, partition: Partition, whole: PartitionRecords | None
    ) -> Iterator[ListedCopy]:
        ended = None if whole is None else whole.ended
        return find_lost(self.location, found, _closed(partition), partition.leader_epochs or (), ended)

    def _with_encryption(self, listing: RemoteListing, found: RemoteInventory) -> RemoteListing:
        """Add the encryption of the remote segments to the listing, if `refuses_plaintext` is True.

        LocalTieredStorage never encrypts.
        """
        if not self.refuses_plaintext or self.location.is_local:
            return listing
        shown = self._encryption.of_found(found)
        return replace(listing, encryption=shown.encryption, encrypted_by=shown.manifest or None)

    def with_records(self, records: Records) -> Observe:
        return replace(self, records=records)

    def find_start(self, partition: Partition, copies: Iterable[ListedCopy]) -> ClaimedStart | None:
        return find_start(self.location.store, name_of(partition), copies, self._claims)

    def read_start(self, partition: Partition, start: ClaimedStart) -> bytes:
        return read_start(self.location, name_of(partition), start)

    def living_producers(self, partition: Partition, offset: int, expiry: BrokerExpiry) -> np.ndarray:
        return living_producers(self.location, partition, offset, expiry)

    def state_at(self, partition: Partition, offset: int, expiry: BrokerExpiry) -> RemoteState:
        return state_at(self.location, partition, offset, expiry, untrusted=self.untrusted)


def _needs_nothing(partition: Partition, listing: RemoteListing) -> bool:
    """Return whether all closed segments are tiered, and no remote segment is unfinished, lost or a leftover.

    If remote offsets below the local log are missing, the result is False.
    """
    if listing.lost or listing.leftover_count or not _reaches_local_log(partition, listing):
        return False
    tiered = listing.tiered_segments(partition)
    is_finished = all(copy.is_finished for copy in listing.copies)
    return is_finished and all(base in tiered for base, _ in _closed(partition))


def _reaches_local_log(partition: Partition, listing: RemoteListing) -> bool:
    """Return whether the listing covers the offset directly below the first local segment.

    If the log begins with the first local segment, return True. After a listing was read ahead, a broker may upload a
    segment and delete its local files. Such a listing lacks the segment, although the local log was read later.
    """
    if begins_below(partition) is False:
        return True
    first = partition.first_base_offset
    return listing.coverage(partition.whole_epochs).covers(first - 1, first)


def _is_settled(listed: RemoteInventory) -> bool:
    """Return whether no segment is incomplete, no claim is damaged, and each segment of ours has its claim.

    If the claims were listed before an upload and the segments after it, the listing lacks the claim of the segment.
    """
    if listed.leftovers or listed.problems:
        return False
    return all(each.is_brokers or each.claimed_as in listed.claimed for each in listed.segments)


def _closed(partition: Partition) -> list[Interval]:
    """Return the base offset and the exclusive end of each closed segment."""
    return [
        (each.base_offset, each.next_base_offset) for each in partition.segments if each.next_base_offset is not None
    ]


def _copies(found: RemoteInventory) -> Iterator[ListedCopy]:
    """Yield the complete segments, as COPY_SEGMENT_FINISHED or COPY_SEGMENT_STARTED.

    A segment is STARTED if its claim is unfinished or names another attempt. `tier` finishes such a segment, or uploads
    it again.
    """
    for each in found.segments:
        yield _listed(each, is_done=not each.is_unfinished)
    for each in found.uncounted:
        yield _listed(each, is_done=False)


def _in_flight(found: RemoteInventory) -> Iterator[ListedCopy]:
    """Yield the segments that a broker is copying. Their ends are unknown, so each end offset is start offset + 1."""
    for left in found.in_flight():
        start = left.start_offset
        yield ListedCopy(left.segment_id, start, start + 1, written_at=left.written_at, is_brokers=True)


def _listed(segment: RemoteSegment, *, is_done: bool) -> ListedCopy:
    return ListedCopy(
        segment.segment_id,
        segment.start_offset,
        segment.end_offset,
        RemoteSegmentState.COPY_SEGMENT_FINISHED if is_done else RemoteSegmentState.COPY_SEGMENT_STARTED,
        segment.metadata.segment_size,
        segment.metadata.max_timestamp,
        segment.leader_epochs,
        segment.written_at,
        is_ours=not is_done,
        is_brokers=segment.is_brokers,
    )


def with_records(copies: Iterable[ListedCopy], records: PartitionRecords) -> Iterator[ListedCopy]:
    """Set `is_published` of each segment, and yield the segments.

    If records are incomplete, `is_published` of a segment without a record is None.
    """
    published = ids_of(records.published)
    for each in copies:
        is_published: bool | None = each.segment_id in published
        if not is_published and not records.is_complete:
            is_published = None
        yield replace(each, is_published=is_published)


def missing_objects(records: PartitionRecords, complete: Container[str], local_start: int) -> Iterator[ListedCopy]:
    """Yield the published remote segments that lack objects, as COPY_SEGMENT_STARTED.

    Args:
        complete: ids of the complete segments.
        local_start: base offset of the first local segment. Segments below it are skipped, because `complete` may lack
            their ids.
    """
    for each in records.listing.copies:
        if each.segment_id not in complete and each.next_base_offset > local_start:
            yield replace(each, state=RemoteSegmentState.COPY_SEGMENT_STARTED)


def _end_of(found: RemoteInventory, lineage: LeaderEpochs) -> int:
    """Return the highest exclusive end offset that the remote segments of the lineage reach; 0 without segments."""
    reached = 0
    for copy in found.segments:
        for _, end in copy.facts.held(lineage):
            reached = max(reached, end)
    return reached


def find_lost(
    location: RemoteLocation,
    found: RemoteInventory,
    segments: Iterable[Interval],
    lineage: LeaderEpochs,
    known_to_brokers: Container[str] | None = None,
) -> Iterator[ListedCopy]:
    """Yield each lost segment with the offsets of its local segment. `tier` uploads the local segment again.

    Each local segment with a claim but without a complete remote segment costs one request.

    Args:
        segments: base offset and exclusive end offset of the closed local segments, ascending.
        lineage: (epoch, start offset) of the local log, ascending.
        known_to_brokers: ids of segments that the cluster's records name. These segments are skipped. None means that
            no records were read.
    """
    if known_to_brokers is None:
        known_to_brokers = ()
    whole = ids_of(found.segments)
    whole_from = {copy.start_offset for copy in found.segments}
    reached = _end_of(found, lineage)
    for base, end in segments:
        if end > reached:
            break
        if base in whole_from:
            continue
        ids = _claimed_ids(location, found, epochs_in_range(lineage, base, end), base)
        if not ids or ids & whole:
            continue
        if any(each in known_to_brokers for each in ids):
            continue
        if not complete_in_other_layout(location, found.partition, ids):
            yield ListedCopy(min(ids), base, end, is_ours=True)


def _claimed_ids(location: RemoteLocation, found: RemoteInventory, epochs: LeaderEpochs, base: int) -> frozenset[str]:
    """Return the id of the attempt that finished a segment's claim, or all ids in the claim if no attempt did."""
    if not epochs:
        return frozenset()
    claimed = ClaimedSegment(found.partition, base, epochs[-1][0])
    if claimed not in found.claimed:
        return frozenset()
    try:
        claim = read_claim(location.store, claimed)
    except CorruptDataError:
        return frozenset()
    if claim is None:
        return frozenset()
    if claim.finished is None:
        return frozenset(claim.segment_ids)
    return frozenset((claim.finished,))
