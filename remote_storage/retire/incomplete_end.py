"""Tell where an incomplete segment ends, so that `expire` deletes none that may hold an offset that stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.inventory.known_manifests import KnownManifests
from tiersnap.remote_storage.inventory.log_end import log_end
from tiersnap.remote_storage.inventory.remote_inventory import RemoteInventory
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.inventory.segment_objects import SegmentObjects
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.snapshot.errors import CorruptDataError

EndOf = Callable[[SegmentObjects], int | None]
"""Gives an offset (exclusive) behind all that an incomplete segment can hold; None if nothing tells it."""


def ids_below(found: Sequence[RemoteInventory], log_start: int, end_of: EndOf) -> frozenset[str]:
    """Return ids of incomplete segments of ours that hold no offset at the log start or above."""
    left = (each for inventory in found for each in inventory.leftovers if each.claim and each.objects)
    ends = {each.segment_id: end_of(each.objects) for each in left if each.objects and each.start_offset < log_start}
    return frozenset(segment_id for segment_id, end in ends.items() if end is not None and end <= log_start)


def end_of_incomplete(
    store: ObjectStore, known: KnownManifests, complete: Iterable[RemoteSegment], objects: SegmentObjects
) -> int | None:
    """Return an offset (exclusive) behind all that an incomplete segment can hold; None if nothing tells it.

    Its manifest tells it, or its log, whose batch headers are read. Of a log that the plugin compressed or encrypted
    the next complete segment does: a leader copies next the segment that holds the offset behind the last remote one,
    so that one may begin before this one ends, and ends behind it.

    Raises:
        TransientError: the store does not answer.
    """
    log = objects.objects.get(KeyKind.LOCAL_LOG if objects.is_local else KeyKind.LOG)
    if log is None:
        return objects.start_offset
    for read in (_end_by_manifest, _end_by_log):
        try:
            return read(store, known, objects, log)
        except (CorruptDataError, ObjectNotFoundError):
            continue
    behind = (each for each in complete if each.start_offset > objects.start_offset)
    following = min(behind, key=lambda each: each.bounds, default=None)
    return None if following is None else following.end_offset


def _end_by_manifest(_: ObjectStore, known: KnownManifests, objects: SegmentObjects, log: ObjectInfo) -> int:
    listed = objects.objects.get(KeyKind.RSM_MANIFEST)
    if listed is None:
        raise ObjectNotFoundError(f"{log.key} has no manifest")
    metadata = known.read(objects.segment_id, listed).metadata
    if (metadata.id.segment_id, metadata.start_offset) != (objects.segment_id, objects.start_offset):
        raise CorruptDataError(f"{listed.key}: tells of {metadata.id} from offset {metadata.start_offset}")
    return metadata.end_offset + 1


def _end_by_log(store: ObjectStore, _: KnownManifests, objects: SegmentObjects, log: ObjectInfo) -> int:
    return log_end(store, log, objects.start_offset)
