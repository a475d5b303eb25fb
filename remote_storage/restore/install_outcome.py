"""The action of `install` at one offset."""

from __future__ import annotations

from enum import StrEnum


class InstallOutcome(StrEnum):
    """The action at one offset."""

    WRITE = "WRITE"
    REPLACE = "REPLACE"
    KEEP = "KEEP"  # there and trusted
    NOT_COMPARED = "NOT_COMPARED"  # there; the log begins in remote storage, which is not asked
    NEEDS_REPLACE = "NEEDS_REPLACE"
    ABOVE_NEWEST = "ABOVE_NEWEST"
    STRAY = "STRAY"
    NEVER_TIERED = "NEVER_TIERED"
    UNVERIFIED = "UNVERIFIED"
    NOT_STORED = "NOT_STORED"  # wanted here, and no run stored it
    NOT_ALIGNED = "NOT_ALIGNED"  # stored, but no segment begins there
    NOT_REACHED = "NOT_REACHED"  # stored, but the log is damaged below it
    NOT_VOUCHED = "NOT_VOUCHED"  # stored, but no manifest names it: the run did not finish
    CORRUPT = "CORRUPT"  # stored, but not the bytes that the manifest names
    DISAGREES = "DISAGREES"  # stored, but contradicts the log

    @property
    def writes(self) -> bool:
        """Return whether a file is written."""
        return self in (InstallOutcome.WRITE, InstallOutcome.REPLACE)

    @property
    def is_damage(self) -> bool:
        """Return whether remote storage holds a snapshot that must not be installed."""
        return self in (InstallOutcome.CORRUPT, InstallOutcome.DISAGREES)

    @property
    def waits(self) -> bool:
        """Return whether a segment lacks its snapshot until somebody acts."""
        return self in (
            InstallOutcome.NEEDS_REPLACE,
            InstallOutcome.ABOVE_NEWEST,
            InstallOutcome.UNVERIFIED,
            InstallOutcome.NOT_STORED,
            InstallOutcome.NOT_VOUCHED,
        )
