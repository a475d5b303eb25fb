"""The rows of `install`'s plan, and their actions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict


class InstallOutcome(StrEnum):
    """The action at one snapshot offset."""

    WRITE = "WRITE"
    REPLACE = "REPLACE"
    KEEP = "KEEP"  # the file exists and is trusted
    NOT_COMPARED = "NOT_COMPARED"  # the file exists, but the log begins in remote storage, which is not read
    NEEDS_REPLACE = "NEEDS_REPLACE"
    ABOVE_NEWEST = "ABOVE_NEWEST"
    STRAY = "STRAY"
    NEVER_TIERED = "NEVER_TIERED"
    UNVERIFIED = "UNVERIFIED"
    NOT_STORED = "NOT_STORED"  # the log needs a snapshot, and no run stored one
    NOT_ALIGNED = "NOT_ALIGNED"  # stored, but no segment begins at the offset
    NOT_REACHED = "NOT_REACHED"  # stored, but the log is damaged below the offset
    NOT_VOUCHED = "NOT_VOUCHED"  # stored, but in no manifest: the run did not finish
    CORRUPT = "CORRUPT"  # stored, but its bytes differ from the manifest's size or CRC
    DISAGREES = "DISAGREES"  # stored, but contradicts the log

    @property
    def writes(self) -> bool:
        """Return whether a file is written."""
        return self in (InstallOutcome.WRITE, InstallOutcome.REPLACE)

    @property
    def problem(self) -> Problem | None:
        """Return the problem that the user must solve before the segment gets its snapshot, or None."""
        return _PROBLEMS.get(self)


_PROBLEMS: dict[InstallOutcome, Problem] = {
    InstallOutcome.CORRUPT: OtherProblem.DAMAGED_STORED_SNAPSHOT,
    InstallOutcome.DISAGREES: OtherProblem.DAMAGED_STORED_SNAPSHOT,
    InstallOutcome.NOT_STORED: OtherProblem.NOT_STORED,
    InstallOutcome.NOT_VOUCHED: OtherProblem.NOT_STORED,
    InstallOutcome.NEEDS_REPLACE: SnapshotVerdict.SUSPECT,
    InstallOutcome.ABOVE_NEWEST: SnapshotVerdict.MISSING,
    InstallOutcome.UNVERIFIED: SnapshotVerdict.UNVERIFIED,
}


@dataclass(frozen=True, slots=True)
class StoredBy:
    """Facts about a stored snapshot: the finished run that stored it, its number of producers, and its provenance."""

    run_id: str
    producers: int
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PlannedInstall:
    """The plan for one snapshot offset."""

    offset: int
    action: InstallOutcome
    reason: str
    stored: StoredBy | None = None
    found: Annotated[
        SnapshotVerdict | None,
        Meta(description="verdict on the existing file; null if the verdict does not decide the action"),
    ] = None

    @property
    def problem(self) -> Problem | None:
        """Return the problem that the user must solve before the segment gets its snapshot, or None."""
        return self.found or self.action.problem
