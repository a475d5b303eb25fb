"""The actions of `mend` on segments, and their outcomes."""

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
    DELETED = "DELETED"  # brokers deleted the segment after it was found
    FAILED = "FAILED"
