"""Objects of remote segments, grouped by segment ID: one ID is one copy attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectInfo

_AIVEN = (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST)
_LOCAL = tuple(kind for kind in KeyKind if kind.is_local and kind is not KeyKind.LOCAL_TRANSACTION_INDEX)


def mandatory(*, local: bool) -> tuple[str, ...]:
    """Return the suffixes of the objects that every complete remote segment has."""
    return tuple(kind.suffix for kind in (_LOCAL if local else _AIVEN))


@dataclass(frozen=True, slots=True)
class SegmentObjects:
    """The objects under one segment ID, as they were listed."""

    partition: TopicIdPartition
    start_offset: int
    segment_id: str
    objects: Mapping[KeyKind, ObjectInfo]

    @property
    def is_local(self) -> bool:
        """Return whether these are files of LocalTieredStorage."""
        return next(iter(self.objects)).is_local

    @property
    def missing(self) -> tuple[str, ...]:
        """Suffixes of mandatory objects that are not there."""
        return tuple(kind.suffix for kind in (_LOCAL if self.is_local else _AIVEN) if kind not in self.objects)

    @property
    def log(self) -> ObjectInfo | None:
        """Return the segment file; None if it is not there."""
        return self.objects.get(KeyKind.LOCAL_LOG if self.is_local else KeyKind.LOG)

    @property
    def is_visible(self) -> bool:
        """Return whether the object that is written last is there, so that readers take it for a segment."""
        return not {KeyKind.RSM_MANIFEST, KeyKind.LOCAL_SNAPSHOT}.isdisjoint(self.objects)

    @property
    def modified(self) -> int:
        """Return when the last object was written: ms, by the store's clock."""
        return max(info.modified for info in self.objects.values())

    @property
    def stored(self) -> int:
        """Bytes of all objects."""
        return sum(info.size for info in self.objects.values())

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each object, by key."""
        return {info.key: info.size for info in self.objects.values()}

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of all objects, what makes the copy visible first: the order to delete them in."""
        order = sorted(self.objects, key=lambda kind: kind in {KeyKind.RSM_MANIFEST, KeyKind.LOCAL_SNAPSHOT})
        return tuple(self.objects[kind].key for kind in reversed(order))


def list_segments(location: RemoteLocation, partition: TopicIdPartition) -> tuple[SegmentObjects, ...]:
    """List the segments of a partition in one layout, in ascending start offset, then segment id."""
    listed = location.store.list(keys.partition_segments(partition, local=location.is_local))
    return group(listed, local=location.is_local).get(partition, ())


def segments_by_id(location: RemoteLocation, partition: TopicIdPartition) -> dict[str, SegmentObjects]:
    """List the segments of a partition in one layout, by segment id; in the order of `list_segments`."""
    return {each.segment_id: each for each in list_segments(location, partition)}


def group(listed: Iterable[ObjectInfo], *, local: bool) -> dict[TopicIdPartition, tuple[SegmentObjects, ...]]:
    """Return attempts by partition, in ascending start offset, then segment id; other objects are skipped.

    Args:
        local: LocalTieredStorage's files, or the objects of the Aiven plugin.
    """
    found: dict[TopicIdPartition, dict[tuple[int, str], dict[KeyKind, ObjectInfo]]] = {}
    for info in listed:
        key = keys.recognise(info.key)
        if key is None or key.kind.is_local is not local or key.offset is None or key.segment_id is None:
            continue
        found.setdefault(key.partition, {}).setdefault((key.offset, key.segment_id), {})[key.kind] = info
    return {
        partition: tuple(SegmentObjects(partition, *attempt, objects) for attempt, objects in sorted(attempts.items()))
        for partition, attempts in found.items()
    }
