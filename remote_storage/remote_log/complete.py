"""Find the complete remote segments of a partition, and detect segments in the other layout. No claim is read.

The layout of a remote location is the Aiven plugin's or LocalTieredStorage's. The other layout is the one that the
location does not use.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from tiersnap.remote_storage.errors import OtherLayoutError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import group, ids_of, list_segments
from tiersnap.remote_storage.stores.object_store import LIST_PAGE


def complete_segments(
    location: RemoteLocation, partition: TopicIdPartition, segment_ids: Collection[str]
) -> frozenset[str]:
    """Return the ids of complete segments among `segment_ids`.

    The function makes one listing, and calls `read_segment` for each listed segment with one of these ids.
    """
    complete = set()
    for each in list_segments(location, partition):
        if each.segment_id in segment_ids and isinstance(read_segment(location.store, each), RemoteSegment):
            complete.add(each.segment_id)
    return frozenset(complete)


def complete_in_other_layout(
    location: RemoteLocation, partition: TopicIdPartition, segment_ids: Collection[str]
) -> frozenset[str]:
    """Return the ids among `segment_ids` whose segments are complete in the layout that `location` does not use.

    If `segment_ids` is empty, make no request.
    """
    if not segment_ids:
        return frozenset()
    return complete_segments(location.in_other_layout, partition, segment_ids)


def check_layout(location: RemoteLocation, partition: TopicIdPartition, finished: str) -> None:
    """Raise OtherLayoutError if the segment with the id `finished` is complete in the other layout."""
    if complete_in_other_layout(location, partition, {finished}):
        raise other_layout_error(location, f"the segment {finished} of {partition} is complete")


def check_other_layout(location: RemoteLocation, partition: TopicIdPartition, published: Collection[str]) -> None:
    """Raise OtherLayoutError if the partition's segments are in the other layout.

    Call this function only if the partition has no complete segment in the layout of `location`. It makes one request:
    it lists at most one page of the other layout. A segment is in the other layout if all its objects exist there. No
    manifest is read.

    Args:
        published: ids of the segments that brokers read, according to the cluster's records. If the other layout has
            none of them, brokers do not read the other layout, and no error is raised. Pass an empty collection if no
            records were read.
    """
    other = location.in_other_layout
    page = islice(location.store.list(keys.partition_segments(partition, local=other.is_local)), LIST_PAGE)
    listed = group(page, local=other.is_local).get(partition, ())
    complete = ids_of(each for each in listed if not each.missing)
    if not complete:
        return
    if published and complete.isdisjoint(published):
        return
    raise other_layout_error(location, "remote segments exist in this location")


def other_layout_error(location: RemoteLocation, fact: str) -> OtherLayoutError:
    """Return the error that names the location's layout and the other one. The message begins with `fact`."""
    name, other = location.layout.name, location.in_other_layout.layout.name
    return OtherLayoutError(
        f"{fact} in the layout {other}, but this run uses {name}: a location has only one layout",
        hint=f"give --layout {other}; to use {name}, give another --remote that has no segments yet",
    )
