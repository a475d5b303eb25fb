"""The ends of `unblock` with topics."""

from __future__ import annotations

from enum import StrEnum


class End(StrEnum):
    """The end of a topic's run, or of its plan."""

    PLANNED = "PLANNED"
    FREED = "FREED"
    UNWATCHED = "UNWATCHED"  # published, but an error ended the run before the copy task was seen to continue
    STUCK_AHEAD = "STUCK_AHEAD"  # the copy task continued after the published segments, and fails there
    RESTART = "RESTART"  # published, but the cluster refuses to disable copying
    BLOCKED = "BLOCKED"  # the missing segment cannot be uploaded
    REFUSED = "REFUSED"  # uploaded segments may not be published
