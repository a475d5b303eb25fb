"""The possible results of `unblock` for a partition."""

from __future__ import annotations

from enum import StrEnum


class End(StrEnum):
    """The result for one partition."""

    PLANNED = "PLANNED"
    FREED = "FREED"
    UNWATCHED = "UNWATCHED"  # published, but an error ended the run while it watched the copy task
    STUCK_AHEAD = "STUCK_AHEAD"  # the copy task fails at the segment after the published ones
    RESTART = "RESTART"  # published, but the cluster refuses to disable copying
    BLOCKED = "BLOCKED"  # the missing segment cannot be uploaded
    REFUSED = "REFUSED"  # uploaded segments may not be published
