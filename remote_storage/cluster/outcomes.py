"""The actions of `mend` on segments, and the ends of `unblock` with topics."""

from __future__ import annotations

from enum import StrEnum


class MendAction(StrEnum):
    """The way in which a segment is mended."""

    COPY = "COPY"  # its objects as they are
    REBUILD = "REBUILD"  # its missing objects, made again
    REPLACE = "REPLACE"  # a right segment under a new id takes its place
    DELETE = "DELETE"  # brokers find another one instead: its record and objects go
    NONE = "NONE"  # it is not there, or is another segment


class MendOutcome(StrEnum):
    """The outcome for a segment."""

    PLANNED = "PLANNED"
    MENDED = "MENDED"
    DELETED = "DELETED"  # by brokers, meanwhile
    FAILED = "FAILED"


class End(StrEnum):
    """The end of a topic's run, or of its plan."""

    PLANNED = "PLANNED"
    FREED = "FREED"
    STUCK_AHEAD = "STUCK_AHEAD"  # the copier goes on behind what was published, and fails there
    RESTART = "RESTART"  # published, but the cluster does not let copying be switched off
    BLOCKED = "BLOCKED"  # the segment that is missing cannot be tiered
    REFUSED = "REFUSED"  # it was tiered and may not be published
