"""Find the complete remote segments of a partition in either layout. No claim is read."""

from __future__ import annotations

from collections.abc import Collection

from tiersnap.remote_storage.errors import OtherLayoutError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import list_segments


def complete_segments(
    location: RemoteLocation, partition: TopicIdPartition, segment_ids: Collection[str]
) -> frozenset[str]:
    """Return the ids of complete segments among `segment_ids`.

    This needs one listing, and for each id the requests of `read_segment`.
    """
    complete = set()
    for each in list_segments(location, partition):
        if each.segment_id in segment_ids and isinstance(read_segment(location.store, each), RemoteSegment):
            complete.add(each.segment_id)
    return frozenset(complete)


def complete_in_other_layout(
    location: RemoteLocation, partition: TopicIdPartition, segment_ids: Collection[str]
) -> frozenset[str]:
    """Return the ids among `segment_ids` whose segments are complete in the other layout.

    If `segment_ids` is empty, make no request.
    """
    if not segment_ids:
        return frozenset()
    return complete_segments(location.in_other_layout, partition, segment_ids)


def check_layout(location: RemoteLocation, partition: TopicIdPartition, finished: str) -> None:
    """Raise OtherLayoutError if the segment with the id `finished` is complete in the other layout."""
    if complete_in_other_layout(location, partition, {finished}):
        name, other = location.layout.name, location.in_other_layout.layout.name
        raise OtherLayoutError(
            f"the segment is complete in this location in the layout {other}, but this run uses {name}: a "
            "location has only one layout",
            hint=f"give --layout {other}; to use {name}, give another --remote that has no segments yet",
        )
