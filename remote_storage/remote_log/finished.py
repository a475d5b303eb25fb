"""Find the finished remote segments of a store, as KIP-405 metadata.

A complete segment without a claim counts as finished. A complete segment with a claim is skipped in three cases:

    the claim is damaged
    no attempt has finished the claim, so another attempt may take over the claim and delete the segment
    a later attempt finished the claim in the same layout, so the segment of that attempt is used instead
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Claim
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.remote_log.complete import complete_in_other_layout
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory, list_remote_partition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.segment_objects import ids_of
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.indexes import decode_time_index

_log = logging.getLogger(__name__)
_LARGEST_INDEX = 64 << 20  # bytes


def finished_segments(location: RemoteLocation, is_wanted: Callable[[str], bool]) -> list[RemoteLogSegmentMetadata]:
    """Return the finished segments of the topics that `is_wanted` accepts, sorted by partition and start offset."""
    finished: list[RemoteLogSegmentMetadata] = []
    partitions = {each for each in _partitions_with_logs(location) if is_wanted(each.topic)}
    for partition in sorted(partitions):
        finished += finished_of(location, partition)
    return finished


def _partitions_with_logs(location: RemoteLocation) -> Iterator[TopicIdPartition]:
    """Yield the partition of each log object in a location. A partition is yielded once for each of its log objects."""
    kind = KeyKind.LOCAL_LOG if location.is_local else KeyKind.LOG
    for found in location.store.list():
        key = keys.recognise(found.key)
        if key is not None and key.kind is kind:
            yield key.partition


def finished_of(location: RemoteLocation, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
    """Return the finished segments of a partition, ascending, in the state COPY_SEGMENT_FINISHED.

    The broker id is -1. The event timestamp is the newest write time of the objects. `publish` replaces these values.
    For the largest timestamp see `largest_timestamp`.
    """
    inventory = list_remote_partition(location, partition)
    gone = ids_of(inventory.superseded)
    for copy in inventory.uncounted:
        _log.warning(
            "segment skipped: %s at offset %d: another copy attempt holds its claim; upload the segment again "
            "with tier",
            partition,
            copy.start_offset,
        )

    def finished(copy: RemoteSegment) -> RemoteLogSegmentMetadata | None:
        if copy.segment_id in gone or not _is_settled(location, inventory, copy):
            return None
        moment = largest_timestamp(location.store, copy)
        return replace(copy.metadata, broker_id=-1, max_timestamp=moment, event_timestamp=copy.written_at)

    return list(filter(None, in_parallel(finished, inventory.segments)))


def _is_settled(location: RemoteLocation, inventory: RemoteInventory, copy: RemoteSegment) -> bool:
    segment = copy.claimed_as
    if _has_no_claim(inventory, copy):
        return True
    try:
        claim = copy.claim or read_claim(location.store, segment)
    except CorruptDataError as error:
        _log.warning("segment skipped: %s: %s", segment, error.message)
        return False
    named = claim is not None and claim.names(copy.segment_id)
    if claim is None or claim.finished == copy.segment_id:
        return True
    if not named:
        return not (copy.segment_id in claim.kept and _is_replaced(inventory, claim, copy))
    # Readers of this layout cannot read a segment in the other layout, so this one still counts.
    if claim.finished and complete_in_other_layout(location, inventory.partition, {claim.finished}):
        return True
    _log.warning("segment skipped: %s: its claim is not finished; upload the segment again with tier", segment)
    return False


def _has_no_claim(inventory: RemoteInventory, copy: RemoteSegment) -> bool:
    """Return whether a segment has no claim: none was listed, and a broker uploaded the segment.

    Brokers write no claims. A host may have written the claim of its own segment after the claims were listed.
    """
    return copy.claimed_as not in inventory.claimed and copy.metadata.broker_id >= 0


def _is_replaced(inventory: RemoteInventory, claim: Claim, copy: RemoteSegment) -> bool:
    return any(each.segment_id == claim.finished and each.bounds == copy.bounds for each in inventory.segments)


def largest_timestamp(store: ObjectStore, segment: RemoteSegment) -> int:
    """Return the largest record timestamp of a segment in ms: from the manifest, or else from the time index.

    If neither has a timestamp, return the write time of the objects. A broker likewise uses the file's modification
    time (org.apache.kafka.storage.internals.log.LogSegment.largestTimestamp). The result is never -1, because a broker
    would delete a segment with the timestamp -1 at its next retention check.
    """
    largest = segment.metadata.max_timestamp
    index = segment.objects.objects.get(KeyKind.LOCAL_TIME_INDEX)
    if largest < 0 and index is not None:
        with suppress(CorruptDataError, ObjectNotFoundError):
            data = store.get(index.key, limit=_LARGEST_INDEX)
            entries = decode_time_index(data, base_offset=segment.start_offset, name=store.uri + index.key)
            if entries.size:
                largest = int(entries["timestamp"][-1])
    if largest < 0:
        return segment.written_at
    return largest
