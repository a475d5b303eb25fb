"""The ends of `unblock` with topics."""

from __future__ import annotations

from enum import StrEnum


class End(StrEnum):
    """The end of a topic's run, or of its plan."""

    PLANNED = "PLANNED"
    FREED = "FREED"
    UNWATCHED = "UNWATCHED"  # published, and an error ended the run before the copy task was seen to continue
    STUCK_AHEAD = "STUCK_AHEAD"  # the copier goes on behind what was published, and fails there
    RESTART = "RESTART"  # published, but the cluster does not let copying be switched off
    BLOCKED = "BLOCKED"  # the segment that is missing cannot be tiered
    REFUSED = "REFUSED"  # it was tiered and may not be published
