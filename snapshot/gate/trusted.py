"""Verdicts on producer snapshots, and the provenance of their content."""

from __future__ import annotations

from enum import StrEnum


class SnapshotVerdict(StrEnum):
    """The verdict on a boundary's snapshot file."""

    MATCHES = "MATCHES"  # says what the log says
    EXTENDS = "EXTENDS"  # says that and more, about batches which the log no longer holds
    MISSING = "MISSING"
    CORRUPT = "CORRUPT"  # not readable as a snapshot
    SUSPECT = "SUSPECT"  # readable, contradicts the log
    UNVERIFIED = "UNVERIFIED"  # never compared: the log is damaged below it, or nobody looked
    NOT_COMPARED = "NOT_COMPARED"  # the log begins in remote storage, which was not asked

    @property
    def is_trusted(self) -> bool:
        """Return whether a segment may be tiered with this file."""
        return self in (SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS)


class Provenance(StrEnum):
    """The provenance of a snapshot's content."""

    BROKER = "BROKER"
    BROKER_UNVERIFIED = "BROKER_UNVERIFIED"  # nobody compared it: it lies before the window that was scanned
    COMPUTED = "COMPUTED"  # from offset 0, or from a snapshot that says all that the log says, and more
    COMPUTED_FROM_LOG_START = "COMPUTED_FROM_LOG_START"  # what came before is gone, as it would be for a broker
    COMPUTED_FROM_SNAPSHOT = "COMPUTED_FROM_SNAPSHOT"  # of a tiered log: from the one known where its files begin
    COMPUTED_FROM_LOCAL_START = "COMPUTED_FROM_LOCAL_START"  # what came before is in remote storage, and was not seen
    COMPUTED_WITHIN_WINDOW = "COMPUTED_WITHIN_WINDOW"  # what came before the scanned window may have expired

    @property
    def lacks_start(self) -> bool:
        """Return whether producers may be missing that a broker restored from remote storage knows."""
        return self is Provenance.COMPUTED_FROM_LOCAL_START


# What a file can be after it was compared with the log, each entry counted.
COMPARED = frozenset(
    {SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS, SnapshotVerdict.SUSPECT, SnapshotVerdict.CORRUPT}
)
