"""Tell where an incomplete segment ends, so that `expire` deletes none that may hold an offset that stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.inventory.known_manifests import KnownManifests
from tiersnap.remote_storage.inventory.log_end import log_end
from tiersnap.remote_storage.inventory.remote_inventory import RemoteInventory
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.inventory.segment_objects import SegmentObjects
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.retire.retention import Breach
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError

EndOf = Callable[[SegmentObjects], int | None]
"""Gives an offset (exclusive) behind all that an incomplete segment can hold; None if nothing tells it."""


@dataclass(frozen=True, slots=True)
class IncompleteLimits:
    """The limits of retention for incomplete segments, of which nothing tells when their records were written.

    Attributes:
        behind: the log start that is recorded, or behind complete segments that go.
        asked: --log-start; 0 if none was given.
        oldest: the first offset of segments that stay; None if none stays.
        written_before: ms, by the store's clock; a segment that was last written so long ago has passed --retention.
    """

    behind: int
    asked: int
    oldest: int | None
    written_before: int

    @property
    def log_start(self) -> int:
        """Return the log start, inside of no segment that stays."""
        return max(self.behind, self.asked if self.oldest is None else min(self.asked, self.oldest))

    @property
    def recorded(self) -> IncompleteLimits:
        """Return these limits with the log start that is recorded: behind no offset that nothing tells of."""
        return replace(self, behind=max(self.behind, min(self.asked, self.oldest or 0)), asked=0)

    def may_pass(self, objects: SegmentObjects) -> bool:
        """Return whether a segment can have passed them, wherever it ends."""
        return objects.start_offset < self.log_start or objects.modified <= self.written_before

    def breach_of(self, objects: SegmentObjects, end: int | None) -> Breach | None:
        """Return the limit that a segment has passed, if it ends at `end`: nothing that stays begins before that."""
        if end is not None and end <= self.log_start:
            return Breach.LOG_START
        last = objects.start_offset if end is None else end - 1
        is_first = self.oldest is None or last < self.oldest
        return Breach.TIME if is_first and objects.modified <= self.written_before else None

    def with_staying(self, start_offset: int) -> IncompleteLimits:
        """Return these limits where a segment that begins there stays, too."""
        return replace(self, oldest=start_offset if self.oldest is None else min(self.oldest, start_offset))


def ids_past(found: Iterable[RemoteInventory], limits: IncompleteLimits, end_of: EndOf) -> frozenset[str]:
    """Return ids of incomplete segments of ours that have passed the limits."""
    left = (each.objects for inventory in found for each in inventory.leftovers if each.claim and each.objects)
    may = [each for each in left if limits.may_pass(each)]
    return frozenset(each.segment_id for each in may if limits.breach_of(each, end_of(each)))


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
    if objects.log is None:
        return objects.start_offset
    with suppress(CorruptDataError, ObjectNotFoundError):
        return _end_by_manifest(known, objects)
    with suppress(CorruptDataError, ObjectNotFoundError):
        return log_end(store, objects.log, objects.start_offset)
    behind = (each for each in complete if each.start_offset > objects.start_offset)
    following = min(behind, key=lambda each: each.bounds, default=None)
    return None if following is None else following.end_offset


def _end_by_manifest(known: KnownManifests, objects: SegmentObjects) -> int:
    listed = objects.objects.get(KeyKind.RSM_MANIFEST)
    if listed is None:
        raise ObjectNotFoundError(f"{objects.segment_id} has no manifest")
    metadata = known.read(objects.segment_id, listed).metadata
    if (metadata.id.segment_id, metadata.start_offset) != (objects.segment_id, objects.start_offset):
        raise CorruptDataError(f"{listed.key}: tells of {metadata.id} from offset {metadata.start_offset}")
    return metadata.end_offset + 1
