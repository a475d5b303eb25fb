"""The actions of `repair` on a snapshot file."""

from __future__ import annotations

from enum import StrEnum


class RepairAction(StrEnum):
    """The action at one offset."""

    WRITE = "WRITE"
    REPLACE = "REPLACE"
    KEEP = "KEEP"  # there and trusted
    UNVERIFIED = "UNVERIFIED"  # there and not compared: it could not be read
    NOT_COMPARED = "NOT_COMPARED"  # there; the log begins in remote storage, which was not asked
    NEEDS_REPLACE = "NEEDS_REPLACE"  # there and not to be trusted; --replace was not given
    ABOVE_NEWEST = "ABOVE_NEWEST"  # would become the live state; --above-newest was not given
    STRAY = "STRAY"  # not aligned and not the newest: the broker deletes it when it opens the partition
    NO_START = "NO_START"  # the log begins in remote storage, and no state is known where its files begin
    NOT_TOLD = "NOT_TOLD"  # a file beside the log is lost, and nothing here tells what it held
    NEVER_TIERED = "NEVER_TIERED"  # of a compacted or internal topic

    @property
    def writes(self) -> bool:
        """Return whether a file is written."""
        return self in (RepairAction.WRITE, RepairAction.REPLACE)

    @property
    def waits(self) -> bool:
        """Return whether a segment waits for this snapshot until somebody acts."""
        return self in _WAITS


_WAITS = frozenset(
    {
        *(RepairAction.NEEDS_REPLACE, RepairAction.ABOVE_NEWEST, RepairAction.UNVERIFIED, RepairAction.NO_START),
        RepairAction.NOT_TOLD,
    }
)
