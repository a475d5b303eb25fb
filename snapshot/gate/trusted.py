"""The rule for which producer snapshots are trusted: by the verdict on a file and the provenance of its content."""

from __future__ import annotations

from enum import StrEnum


class SnapshotVerdict(StrEnum):
    """The verdict on a boundary's snapshot file."""

    MATCHES = "MATCHES"  # equals the fold of the log
    EXTENDS = "EXTENDS"  # holds more than the fold, from batches that the log has lost
    MISSING = "MISSING"
    CORRUPT = "CORRUPT"  # not readable as a snapshot
    SUSPECT = "SUSPECT"  # readable, contradicts the log
    UNVERIFIED = "UNVERIFIED"  # not compared: the log is damaged below it, or the file cannot be read
    NOT_COMPARED = "NOT_COMPARED"  # the log begins in remote storage, which was not asked

    @property
    def is_trusted(self) -> bool:
        """Return whether the file holds every producer that the log holds."""
        return self in TRUSTED


class Provenance(StrEnum):
    """The provenance of a snapshot's content."""

    BROKER = "BROKER"
    BROKER_UNVERIFIED = "BROKER_UNVERIFIED"  # not compared: it is older than the scan window
    COMPUTED = "COMPUTED"  # from offset 0, or from a trusted snapshot
    COMPUTED_FROM_LOG_START = (
        "COMPUTED_FROM_LOG_START"  # retention deleted the earlier records, so a broker would compute the same
    )
    COMPUTED_FROM_SNAPSHOT = (
        "COMPUTED_FROM_SNAPSHOT"  # of a tiered log: from the remote snapshot at its first local offset
    )
    COMPUTED_FROM_LOCAL_START = (
        "COMPUTED_FROM_LOCAL_START"  # the earlier records are in remote storage and were not read
    )
    COMPUTED_WITHIN_WINDOW = "COMPUTED_WITHIN_WINDOW"  # producers from before the scan window may be missing

    @property
    def lacks_start(self) -> bool:
        """Return whether the content may lack producers of the remote log."""
        return self is Provenance.COMPUTED_FROM_LOCAL_START

    @property
    def is_of_window(self) -> bool:
        """Return whether the snapshot may be before a scan window, where nothing was replayed."""
        return self in (Provenance.BROKER_UNVERIFIED, Provenance.COMPUTED_WITHIN_WINDOW)


# The possible results of the strict comparison of a file with the log.
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
