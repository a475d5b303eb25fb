"""The plan of `repair`: its rows and their actions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict


class RepairAction(StrEnum):
    """The action at one offset."""

    WRITE = "WRITE"
    REPLACE = "REPLACE"
    KEEP = "KEEP"  # exists and is trusted
    UNVERIFIED = "UNVERIFIED"  # exists and was not compared, because it could not be read
    NOT_COMPARED = "NOT_COMPARED"  # exists; the log begins in remote storage, which was not asked
    NEEDS_REPLACE = "NEEDS_REPLACE"  # exists and is not trusted; --replace was not given
    ABOVE_NEWEST = "ABOVE_NEWEST"  # would become the live state; --above-newest was not given
    STRAY = "STRAY"  # not aligned and not the newest: the broker deletes it when it opens the partition
    NO_START = "NO_START"  # the log begins in remote storage, and the state where its files begin is unknown
    NOT_TOLD = "NOT_TOLD"  # another file is lost, and no source has its content
    NEVER_TIERED = "NEVER_TIERED"  # of a compacted or internal topic

    @property
    def writes(self) -> bool:
        """Return whether a file is written."""
        return self in (RepairAction.WRITE, RepairAction.REPLACE)

    @property
    def waits(self) -> bool:
        """Return whether a segment waits for this snapshot until a person acts."""
        return self in _WAITS


_WAITS = frozenset(
    {
        *(RepairAction.NEEDS_REPLACE, RepairAction.ABOVE_NEWEST, RepairAction.UNVERIFIED, RepairAction.NO_START),
        RepairAction.NOT_TOLD,
    }
)


@dataclass(frozen=True, slots=True)
class PlannedSnapshot:
    """A snapshot offset of the plan.

    `producers`, `size_bytes` and `provenance` describe the computed snapshot. They are None if the log has a part
    before the local files, since the state of the files alone is no snapshot.
    """

    offset: int
    action: RepairAction
    found: Annotated[SnapshotVerdict, Meta(description="of the file that exists")]
    reason: str
    provenance: Provenance | None
    producers: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A missing or wrong file that is no snapshot."""

    file: Annotated[str, Meta(description="name in the partition's folder")]
    base_offset: Annotated[int | None, Meta(description="of an index; null for a file of the whole partition")]
    action: RepairAction
    reason: str
    is_there: bool
