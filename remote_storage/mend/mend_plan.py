"""Choose the segments that `mend` replaces and those that it may delete, by the records that brokers know.

Nothing here asks anybody: tests/broker/test_remote_index.py holds it, with publish_plan, against Kafka's own cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tiersnap.remote_storage.metadata.metadata_records import SegmentUpdate
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState

NO_BROKER = -1
"""The broker id in our deletion records: a run knows by it which deletions it must go on with."""


def wrong_and_read(index: RemoteIndex, wrong: Collection[str], log_start: int) -> list[RemoteLogSegmentMetadata]:
    """Return the wrong segments of which brokers find an offset from the log start on, ascending; `wrong` are ids."""
    found = [
        each
        for each in index.finished()
        if each.id.segment_id in wrong
        and any(copy is not None and copy.id == each.id and last >= log_start for _, last, copy in index.read(each))
    ]
    return sorted(found, key=lambda each: (each.start_offset, each.id.segment_id))


def unread(index: RemoteIndex) -> Iterator[RemoteLogSegmentMetadata]:
    """Return finished segments of which brokers find no offset, under no leader epoch."""
    found = index.found()
    return (each for each in index.finished() if each.id not in found)


def may_be_deleted(
    index: RemoteIndex, deleting: Collection[RemoteLogSegmentMetadata], sound: Collection[str]
) -> list[RemoteLogSegmentMetadata]:
    """Return segments whose deletion was begun by an earlier run; then unread ones that are not sound, or copied twice.

    Args:
        deleting: in DELETE_SEGMENT_STARTED.
        sound: ids of segments that are complete and not known to be wrong.
    """
    found = {_extent(copy) for epoch in index.epochs.values() for copy, _ in epoch.copies}
    begun = (each for each in deleting if each.broker_id == NO_BROKER)
    left = (each for each in unread(index) if each.id.segment_id not in sound or _extent(each) in found)
    return [*begun, *left]


def deletion(segment: RemoteLogSegmentMetadata, state: SegmentState, now: int) -> SegmentUpdate:
    """Return a deletion record of ours; `now` in ms."""
    return SegmentUpdate(segment.id, NO_BROKER, now, state)


def _extent(copy: RemoteLogSegmentMetadata) -> tuple[object, ...]:
    return copy.start_offset, copy.end_offset, copy.segment_leader_epochs
