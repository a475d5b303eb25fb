"""Choose the remote segments that may be restored, by the records of the cluster or by claims.

Segments that the cluster deleted are not restored, even if their objects still exist. Segments that were never
published are not restored unless the user asks for them. A published segment without any object counts as missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from tiersnap.remote_storage.errors import DeletedByClusterError
from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claimed_segments, read_claim
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.remote_log.partition_objects import PartitionObjects
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, ids_of
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.units import count_of

Published = Mapping[str, RemoteLogSegmentMetadata]
_DELETED = (SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED)
_S = TypeVar("_S", RemoteSegment, IncompleteSegment)


def as_published(remote: RemoteInventory, published: Published, *, unpublished: bool = False) -> RemoteInventory:
    """Return the inventory with only the segments that the cluster published and did not delete.

    Segments without a record are moved to `unpublished` of the inventory. A published segment that is not in the store
    is added to `leftovers` of the inventory, because the segment cannot be used.

    Args:
        unpublished: whether the user wants the segments without a record, too.

    Raises:
        DeletedByClusterError: all published segments are deleted.
    """
    deleted = {segment_id for segment_id, known in published.items() if known.state in _DELETED}
    stored = ids_of(remote.segments) | ids_of(remote.leftovers)
    unknown = ids_of(remote.segments).difference(published)
    recorded = stored.intersection(published)
    is_deleted = bool(recorded) and recorded <= deleted
    if is_deleted and not (unknown and unpublished):
        raise _deleted(remote, len(unknown))
    left = without_ids(remote.leftovers, deleted)
    return replace(
        _set_apart(remote, unknown, "never published", without=deleted),
        leftovers=_sorted((*left, *_lost(published, stored))),
    )


def without_ids(segments: Iterable[_S], segment_ids: Collection[str]) -> list[_S]:
    """Return the segments whose ids are not among `segment_ids`."""
    return [each for each in segments if each.segment_id not in segment_ids]


def _deleted(remote: RemoteInventory, unknown: int) -> DeletedByClusterError:
    more = ""
    if unknown:
        more = f"; to restore {count_of(unknown, 'segment')} without a record, add --unpublished"
    return DeletedByClusterError(
        f"{remote.partition}: all published remote segments have been deleted by the cluster",
        hint=f"the topic was deleted, or retention deleted all its segments{more}",
    )


def _lost(published: Published, stored: Collection[str]) -> Iterator[IncompleteSegment]:
    """Yield the segments with a COPY_SEGMENT_FINISHED record that are not in the store."""
    why = "the segment is published, but the store does not have it"
    for segment_id, known in published.items():
        if known.state is SegmentState.COPY_SEGMENT_FINISHED and segment_id not in stored:
            yield IncompleteSegment(segment_id, known.start_offset, why, end_offset=known.end_offset + 1)


def as_claimed(store: ObjectStore, remote: RemoteInventory) -> RemoteInventory:
    """Move the segments that tiersnap uploaded to `unpublished`, and return the inventory.

    A restore without a cluster uses only segments of brokers, because brokers publish every segment that they upload. A
    segment counts as tiersnap's if a claim contains its id, or if the claim at its offset cannot be decoded.
    """
    claimed = _claimed(store, remote)
    return _set_apart(remote, claimed, "uploaded by tiersnap, and not known to be published")


def _set_apart(
    remote: RemoteInventory, segment_ids: Collection[str], why: str, *, without: Collection[str] = ()
) -> RemoteInventory:
    """Move the segments with these ids to `unpublished`, and omit the segments whose ids are in `without`."""
    left = without_ids(remote.segments, without)
    apart = tuple(copy for copy in left if copy.segment_id in segment_ids)
    if not apart:
        why = ""
    return replace(remote, segments=tuple(without_ids(left, segment_ids)), unpublished=apart, why_unpublished=why)


def _claimed(store: ObjectStore, remote: RemoteInventory) -> frozenset[str]:
    by_offset: dict[int, list[RemoteSegment]] = {}
    for copy in remote.segments:
        by_offset.setdefault(copy.start_offset, []).append(copy)
    claims = [each for each in claimed_segments(store, remote.partition) if each.base_offset in by_offset]
    named = in_parallel(partial(_named, store, by_offset), claims)
    return frozenset(chain.from_iterable(named))


def _named(store: ObjectStore, by_offset: Mapping[int, Iterable[RemoteSegment]], segment: ClaimedSegment) -> set[str]:
    try:
        found = read_claim(store, segment)
    except CorruptDataError:
        return {copy.segment_id for copy in by_offset[segment.base_offset]}
    if found is None:
        return set()
    return set(found.segment_ids)


def taking_all(remote: RemoteInventory) -> RemoteInventory:
    """Return the inventory with the segments in `unpublished` moved to `segments`."""
    return replace(remote, segments=_sorted((*remote.segments, *remote.unpublished)), unpublished=())


def refusing(remote: RemoteInventory) -> RemoteInventory:
    """Return the inventory with the segments in `unpublished` moved to `leftovers`, as incomplete segments."""
    refused = (
        IncompleteSegment(each.segment_id, each.start_offset, remote.why_unpublished, end_offset=each.end_offset)
        for each in remote.unpublished
    )
    return replace(remote, leftovers=_sorted((*remote.leftovers, *refused)), unpublished=())


def _sorted(segments: Iterable[_S]) -> tuple[_S, ...]:
    return tuple(sorted(segments, key=lambda each: (each.start_offset, each.segment_id)))


def read_copies(store: ObjectStore, listed: PartitionObjects) -> RemoteInventory:
    """Return the complete and the incomplete segments of a listing, with their metadata.

    A segment that the plugin compressed can be restored. A segment that the plugin encrypted is returned as incomplete.
    """

    def read(attempt: SegmentObjects) -> RemoteSegment | IncompleteSegment:
        found = read_segment(store, attempt)
        if isinstance(found, RemoteSegment) and found.is_encrypted:
            problem = "the plugin encrypted the segment; only a broker with the plugin's key can read it"
            return IncompleteSegment(attempt.segment_id, attempt.start_offset, problem)
        return found

    complete: list[RemoteSegment] = []
    incomplete: list[IncompleteSegment] = []
    for each in in_parallel(read, listed.attempts):
        if isinstance(each, RemoteSegment):
            complete.append(each)
        else:
            incomplete.append(each)
    return RemoteInventory(listed.partition, tuple(complete), tuple(incomplete))
