"""Orphans, their kinds, and the actions of `remove-orphans`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import UnfinishedUpload
from tiersnap.snapshot.units import human_bytes


class OrphanKind(StrEnum):
    """A kind of orphan."""

    COPY = "COPY"  # all objects of a segment
    ATTEMPT = "ATTEMPT"  # some objects of a segment
    SNAPSHOT = "SNAPSHOT"
    MANIFEST = "MANIFEST"
    CLAIM = "CLAIM"
    KNOWN_MANIFESTS = "KNOWN_MANIFESTS"
    CLUSTER = "CLUSTER"
    UNBLOCK = "UNBLOCK"  # topic configs that `unblock` saved
    PROBE = "PROBE"
    UPLOAD = "UPLOAD"  # an unfinished multipart upload
    FILE = "FILE"  # a file in .tiersnap-unfinished
    PARTITION = "PARTITION"  # all orphans of a refused partition


class Fate(StrEnum):
    """The action on an orphan."""

    REMOVE = "REMOVE"
    WAIT = "WAIT"  # too young; a later run may remove it
    LEAVE = "LEAVE"  # only listed; the user decides
    REFUSE = "REFUSE"


@dataclass(frozen=True, slots=True)
class Orphan:
    """Objects that perhaps no cluster references. `action` is REMOVE only if this is certain."""

    kind: OrphanKind
    action: Fate
    reason: str
    keys: Annotated[
        tuple[str, ...], Meta(description="keys of the objects, in the order in which they must be deleted")
    ]
    size_bytes: Annotated[int, Meta(description="bytes of all objects; 0 for an upload, whose size is unknown")] = 0
    partition: TopicIdPartition | None = None
    segment_id: str = ""
    upload: Annotated[
        UnfinishedUpload | None, Meta(description="the unfinished upload; null except for UPLOAD and FILE")
    ] = None
    removable_at: Annotated[
        int,
        Meta(
            description="time from which the objects may be removed, ms by the store's clock; 0 if they are old enough"
        ),
    ] = 0

    @property
    def objects(self) -> int:
        """Return the number of objects."""
        return len(self.keys)

    @property
    def size(self) -> str:
        """Return the size for messages, such as "3 KiB"."""
        return human_bytes(self.size_bytes)

    @property
    def name(self) -> str:
        """Return the segment id, or the last part of the first key."""
        return self.segment_id or self.keys[0].rpartition("/")[2]


def with_action(orphans: Iterable[Orphan], action: Fate) -> list[Orphan]:
    """Return the orphans with this action."""
    return [each for each in orphans if each.action is action]
