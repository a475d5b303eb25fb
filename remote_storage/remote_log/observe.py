"""List remote storage for a log directory: replay.remote_listing.RemoteLook over a store.

A remote segment of ours is lost if a claim names it and not all of its objects exist in the right sizes. The claim is
finished, or was until an upload that replaced the segment was interrupted. The local log holds the segment at or above
the log start, so retention did not delete it: `tier` uploads it again. With a cluster its records decide: `mend` brings
back a segment that they name, and `tier` uploads no second one. Lost offsets below the first local file are an error
(lost_below): no command uploads them.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, epochs_in_range, name_of
from tiersnap.remote_storage.remote_log.complete import complete_in_other_layout
from tiersnap.remote_storage.remote_log.encryption import EncryptionLook
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.log_head import AskLogStart
from tiersnap.remote_storage.remote_log.lost_below import LostBelow
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory, leftovers_of, list_remote_partition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.same_log import check_same_log
from tiersnap.remote_storage.remote_log.starts import find_start, living_producers, read_start, state_at
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import Interval
from tiersnap.snapshot.log.log_dir import Partition
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
    refuses_plaintext: bool = False  # also finds out whether the plugin encrypts the partition's segments
    records: Records | None = None  # of `__remote_log_metadata`; None if none were read
    unbelieved: Collection[str] = ()  # ids of segments whose snapshots no replay starts from
    wrong: Collection[str] = ()  # ids of complete segments that count as missing
    of_brokers: Collection[str] | None = None  # ids of the brokers' segments that count; None for all
    ask_log_start: AskLogStart | None = None  # asks the cluster after a listing; None without a cluster
    _known: dict[TopicIdPartition, KnownManifests] = field(default_factory=dict, compare=False, repr=False)

    def known(self, partition: TopicIdPartition) -> KnownManifests:
        """Return the manifests of a partition that were read before; those of other partitions are forgotten."""
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
        local_start = partition.segments[0].base_offset
        name = name_of(partition)
        listed = list_remote_partition(
            self.location, name, local_start=local_start, known=self.known(name), of_brokers=self.of_brokers
        )
        found = listed.counted(self.wrong, self.of_brokers)
        if filesystem is not None:
            check_same_log(self.location, found.segments, filesystem, partition)
        records = records_of(self.records, partition.topic, partition.partition, partition.topic_id)
        # The replica of a log directory may lag: brokers may have deleted a segment since.
        whole = records if records is not None and records.is_complete else None
        copies = [*_copies(found), *self._lost(found, partition, whole), *_in_flight(found)]
        if records is not None:
            copies = list(with_records(copies, records))
        if whole is not None:
            complete = {each.segment_id for each in (*listed.segments, *listed.uncounted)}
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
        """Return the listing with the encryption of the segments, if plain text is refused and the layout has any."""
        if not self.refuses_plaintext or self.location.is_local:
            return listing
        shown = self._encryption.of_found(found)
        return replace(listing, encryption=shown.encryption, encrypted_by=shown.manifest or None)

    def with_records(self, records: Records) -> Observe:
        return replace(self, records=records)

    def find_start(self, partition: Partition, copies: Iterable[ListedCopy]) -> ClaimedStart | None:
        return find_start(self.location.store, name_of(partition), copies)

    def read_start(self, partition: Partition, start: ClaimedStart) -> bytes:
        return read_start(self.location, name_of(partition), start)

    def living_producers(self, partition: Partition, offset: int, expiry: BrokerExpiry) -> np.ndarray:
        return living_producers(self.location, partition, offset, expiry)

    def state_at(self, partition: Partition, offset: int, expiry: BrokerExpiry) -> RemoteState:
        return state_at(self.location, partition, offset, expiry, unbelieved=self.unbelieved)


def _closed(partition: Partition) -> list[Interval]:
    """Return the base offset and the exclusive end of each closed segment."""
    ends = ((each.base_offset, each.next_base_offset) for each in partition.segments)
    return [(base, end) for base, end in ends if end is not None]


def _copies(found: RemoteInventory) -> Iterator[ListedCopy]:
    """Yield the complete segments.

    A segment is not done if its attempt did not finish it, or if another attempt has its claim. No run copies such a
    segment now, so `tier` finishes it or uploads it again.
    """
    for each in found.segments:
        yield _listed(each, is_done=not each.is_unfinished)
    for each in found.uncounted:
        yield _listed(each, is_done=False)


def _in_flight(found: RemoteInventory) -> Iterator[ListedCopy]:
    """Yield the segments that a broker copies now; their ends are unknown."""
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
    """Yield the copies, each with whether the records name it; incomplete records prove that alone."""
    published = {each.segment_id for each in records.published}
    otherwise = False if records.is_complete else None
    for each in copies:
        yield replace(each, is_published=True if each.segment_id in published else otherwise)


def missing_objects(records: PartitionRecords, complete: Container[str], local_start: int) -> Iterator[ListedCopy]:
    """Yield the remote segments that brokers know and that lack objects.

    Args:
        complete: ids of the segments with all objects, from the first local offset `local_start` on; older segments
            were not all read.
    """
    for each in records.listing.copies:
        if each.segment_id not in complete and each.next_base_offset > local_start:
            yield replace(each, state=RemoteSegmentState.COPY_SEGMENT_STARTED)


def _end_of(found: RemoteInventory, lineage: LeaderEpochs) -> int:
    """Return the exclusive end of the offsets of a lineage that remote segments hold."""
    held = (interval for copy in found.segments for interval in copy.facts.held(lineage))
    return max((end for _, end in held), default=0)


def find_lost(
    location: RemoteLocation,
    found: RemoteInventory,
    segments: Iterable[Interval],
    lineage: LeaderEpochs,
    known_to_brokers: Container[str] | None = None,
) -> Iterator[ListedCopy]:
    """Yield the lost segments, which `tier` uploads again although remote storage holds newer offsets.

    Each has the offsets of the local segment. One request for each such segment that is claimed and not complete.

    Args:
        segments: base offset and exclusive end of the closed local segments from the log start on.
        lineage: (epoch, start offset) of the local log, ascending.
        known_to_brokers: ids of the segments that the cluster's records name, which are not yielded; None without a
            cluster.
    """
    if known_to_brokers is None:
        known_to_brokers = ()
    whole = {copy.segment_id for copy in found.segments}
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
    """Return the id of the finished attempt by the claim of a segment, or of all its attempts; none without a claim."""
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
