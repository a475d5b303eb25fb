"""The rows of the plan of `repair`, and their actions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict


class RepairAction(StrEnum):
    """The planned action for one snapshot or small file."""

    WRITE = "WRITE"
    REPLACE = "REPLACE"
    KEEP = "KEEP"  # the file is trusted
    UNVERIFIED = "UNVERIFIED"  # the file was not compared, because it could not be read
    NOT_COMPARED = "NOT_COMPARED"  # the file was not compared: the log begins in remote storage, which was not asked
    NEEDS_REPLACE = "NEEDS_REPLACE"  # the file is not trusted, and --replace was not given
    ABOVE_NEWEST = "ABOVE_NEWEST"  # the file would become the live state, and --above-newest was not given
    STRAY = "STRAY"  # no segment begins at the file's offset: the broker deletes the file when it opens the partition
    NO_START = "NO_START"  # the state at the first local offset is unknown
    NOT_TOLD = "NOT_TOLD"  # a small file is lost, and no source has its content
    NEVER_TIERED = "NEVER_TIERED"  # the topic is compacted or internal

    @property
    def writes(self) -> bool:
        """Return whether the action writes a file."""
        return self in (RepairAction.WRITE, RepairAction.REPLACE)

    @property
    def waits(self) -> bool:
        """Return whether a person must act before the file can be written or trusted."""
        return self in _WAITS


_WAITS = frozenset(
    {
        *(RepairAction.NEEDS_REPLACE, RepairAction.ABOVE_NEWEST, RepairAction.UNVERIFIED, RepairAction.NO_START),
        RepairAction.NOT_TOLD,
    }
)


@dataclass(frozen=True, slots=True)
class PlannedSnapshot:
    """The plan for one snapshot offset.

    `producers`, `size_bytes` and `provenance` describe the computed snapshot. They are None if the producer state at
    the first local offset is unknown, because no snapshot can then be computed.
    """

    offset: int
    action: RepairAction
    found: Annotated[SnapshotVerdict, Meta(description="verdict on the existing file")]
    reason: str
    provenance: Provenance | None
    producers: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """The plan for a missing or wrong small file."""

    file: Annotated[str, Meta(description="name of the file in the partition's folder")]
    base_offset: Annotated[
        int | None, Meta(description="base offset of the segment of an index; null for a file of the whole partition")
    ]
    action: RepairAction
    reason: str
    is_there: bool
