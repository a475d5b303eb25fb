"""Objects of remote segments, grouped by segment id. Each copy attempt has its own segment id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectInfo

_AIVEN = (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST)
_LOCAL = tuple(kind for kind in KeyKind if kind.is_local and kind is not KeyKind.LOCAL_TRANSACTION_INDEX)


def mandatory(*, local: bool) -> tuple[str, ...]:
    """Return the suffixes of the objects that every complete remote segment has."""
    kinds = _mandatory_kinds(local=local)
    return tuple(kind.suffix for kind in kinds)


def _mandatory_kinds(*, local: bool) -> tuple[KeyKind, ...]:
    if local:
        return _LOCAL
    return _AIVEN


class Identified(Protocol):
    """An object with the segment id of a copy attempt."""

    @property
    def segment_id(self) -> str:
        """Return the id of the attempt."""


_Segment = TypeVar("_Segment", bound=Identified)


def by_id(segments: Iterable[_Segment]) -> dict[str, _Segment]:
    """Return the segments by segment id, in the same order."""
    return {each.segment_id: each for each in segments}


def ids_of(segments: Iterable[Identified]) -> frozenset[str]:
    """Return the segment ids."""
    return frozenset(each.segment_id for each in segments)


@dataclass(frozen=True, slots=True)
class SegmentObjects:
    """The listed objects of one segment id."""

    partition: TopicIdPartition
    start_offset: int
    segment_id: str
    objects: Mapping[KeyKind, ObjectInfo]

    @property
    def is_local(self) -> bool:
        """Return whether the objects are in the layout of LocalTieredStorage."""
        return next(iter(self.objects)).is_local

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the suffixes of mandatory objects that do not exist."""
        kinds = _mandatory_kinds(local=self.is_local)
        return tuple(kind.suffix for kind in kinds if kind not in self.objects)

    @property
    def log(self) -> ObjectInfo | None:
        """Return the log object; None if it does not exist."""
        return self.objects.get(KeyKind.LOCAL_LOG if self.is_local else KeyKind.LOG)

    @property
    def is_visible(self) -> bool:
        """Return whether the object exists that an upload writes last: rsm-manifest or `.snapshot`."""
        return not {KeyKind.RSM_MANIFEST, KeyKind.LOCAL_SNAPSHOT}.isdisjoint(self.objects)

    @property
    def modified(self) -> int:
        """Return the newest write time of the objects: ms, by the store's clock."""
        return max(info.modified for info in self.objects.values())

    @property
    def stored(self) -> int:
        """Return the total size of the objects in bytes."""
        return sum(info.size for info in self.objects.values())

    @property
    def sizes(self) -> dict[str, int]:
        """Return the size of each object in bytes, by key."""
        return {info.key: info.size for info in self.objects.values()}

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys in the order of deletion: the object that makes the segment visible is first."""
        order = sorted(self.objects, key=lambda kind: kind in {KeyKind.RSM_MANIFEST, KeyKind.LOCAL_SNAPSHOT})
        return tuple(self.objects[kind].key for kind in reversed(order))


def list_segments(location: RemoteLocation, partition: TopicIdPartition) -> tuple[SegmentObjects, ...]:
    """Return the segments of a partition in one layout, in ascending start offset, then segment id."""
    listed = location.store.list(keys.partition_segments(partition, local=location.is_local))
    return group(listed, local=location.is_local).get(partition, ())


def segments_by_id(location: RemoteLocation, partition: TopicIdPartition) -> dict[str, SegmentObjects]:
    """Return the segments of a partition in one layout by segment id, in the order of `list_segments`."""
    return by_id(list_segments(location, partition))


def group(listed: Iterable[ObjectInfo], *, local: bool) -> dict[TopicIdPartition, tuple[SegmentObjects, ...]]:
    """Return the segments by partition, in ascending start offset, then segment id. Skip other objects.

    Args:
        local: True for the objects of LocalTieredStorage, False for the objects of the Aiven plugin.
    """
    found: dict[TopicIdPartition, dict[tuple[int, str], dict[KeyKind, ObjectInfo]]] = {}
    for info in listed:
        key = keys.recognise(info.key)
        if key is None or key.kind.is_local is not local or key.offset is None or key.segment_id is None:
            continue
        found.setdefault(key.partition, {}).setdefault((key.offset, key.segment_id), {})[key.kind] = info
    grouped = {}
    for partition, attempts in found.items():
        segments = [SegmentObjects(partition, *attempt, objects) for attempt, objects in sorted(attempts.items())]
        grouped[partition] = tuple(segments)
    return grouped
