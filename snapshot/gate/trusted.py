"""The rule for which producer snapshots are trusted: by the verdict on a file and the provenance of its content."""

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
        """Return whether the file says all that the log says."""
        return self in TRUSTED


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
TRUSTED = frozenset({SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS})
# Computed from all batches that count. A scan window may miss a producer.
_PROVEN = frozenset({Provenance.COMPUTED, Provenance.COMPUTED_FROM_LOG_START, Provenance.COMPUTED_FROM_SNAPSHOT})


def may_be_uploaded(provenance: Provenance, verdict: SnapshotVerdict | None) -> bool:
    """Return whether a segment may be uploaded with the snapshot.

    Args:
        verdict: of a broker's file, counting only entries that a broker would keep; None if it was not compared.
    """
    if provenance is Provenance.BROKER:
        return verdict in TRUSTED
    return not provenance.lacks_start


def may_start_replay(provenance: str, strict: str | None) -> bool:
    """Return whether the snapshot holds every producer of the log below it.

    Args:
        provenance, strict: as a claim stores them; an unknown word is not trusted.
        strict: of a broker's file, every entry counted; None if it was not compared.
    """
    return strict in TRUSTED if provenance == Provenance.BROKER else provenance in _PROVEN
