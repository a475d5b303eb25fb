"""Where a replay hands the snapshots that it computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from tiersnap.snapshot.replay.lost_offsets import LostOffsets


@dataclass(frozen=True, slots=True)
class SnapshotObject:
    """A computed snapshot on its way to object storage.

    `gaps` gives the offsets below it that are in no segment; it is asked only where another object is there.
    """

    topic: str
    topic_id: str | None
    partition: int
    cluster_id: str | None
    end_offset: int
    data: bytes
    provenance: str
    folded_from: int
    entry_count: int
    gaps: Callable[[], Iterable[LostOffsets]] = tuple


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """What is in object storage at one boundary; `crc32c` of all its bytes, `crc` the one that the file names.

    `is_new`: this call wrote it; else it was there. `is_mended`: in the place of one that no broker could read.
    """

    key: str
    end_offset: int
    size: int
    crc32c: int
    crc: int
    entry_count: int
    provenance: str
    folded_from: int
    is_new: bool
    is_mended: bool = False


class SnapshotSink(Protocol):
    """Where computed snapshots go; picklable."""

    @property
    def uri(self) -> str:
        """The place, one name for one place."""
        ...

    def put(self, snapshot: SnapshotObject) -> StoredSnapshot:
        """Store it unless it, or one that knows more, is there; returns what is there. Raises TiersnapError."""
        ...

    def commit(self, topic: str, topic_id: str | None, partition: int, snapshots: list[StoredSnapshot]) -> None:
        """Say in a manifest what is there, unless one says so already. Raises TiersnapError."""
        ...
