"""The actions of `mend` on segments, and the outcomes."""

from __future__ import annotations

from enum import StrEnum


class MendAction(StrEnum):
    """The way in which a segment is mended."""

    COPY = "COPY"  # copy its objects unchanged
    REBUILD = "REBUILD"  # rebuild its missing objects
    REPLACE = "REPLACE"  # publish a right segment under a new id instead
    DELETE = "DELETE"  # delete the segment, because brokers find another one instead
    NONE = "NONE"  # no source has the segment, or the source has another segment


class MendOutcome(StrEnum):
    """The outcome for a segment."""

    PLANNED = "PLANNED"
    MENDED = "MENDED"
    DELETED = "DELETED"  # brokers deleted the segment after it was found
    FAILED = "FAILED"
