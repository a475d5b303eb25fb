"""Decide which producer snapshots are trusted, by the verdict on a file and the provenance of its content."""

from __future__ import annotations

from enum import StrEnum


class SnapshotVerdict(StrEnum):
    """The verdict on a snapshot file."""

    MATCHES = "MATCHES"  # equals the fold of the log
    EXTENDS = "EXTENDS"  # equals the fold, plus values from batches that are no longer in the log
    MISSING = "MISSING"
    CORRUPT = "CORRUPT"  # no valid snapshot file
    SUSPECT = "SUSPECT"  # valid, but contradicts the log
    UNVERIFIED = "UNVERIFIED"  # not compared: the log is damaged below its offset, or the file cannot be read
    NOT_COMPARED = "NOT_COMPARED"  # the log begins in remote storage, which was not asked

    @property
    def is_trusted(self) -> bool:
        """Return whether the file contains every producer of the log."""
        return self in TRUSTED


class Provenance(StrEnum):
    """The origin of a snapshot's content."""

    BROKER = "BROKER"
    BROKER_UNVERIFIED = "BROKER_UNVERIFIED"  # a broker's file below the scan window, which was not compared
    COMPUTED = "COMPUTED"  # from offset 0, or from a trusted snapshot
    COMPUTED_FROM_LOG_START = (
        "COMPUTED_FROM_LOG_START"  # retention deleted the earlier records, so a broker would compute the same
    )
    COMPUTED_FROM_SNAPSHOT = (
        "COMPUTED_FROM_SNAPSHOT"  # from the remote snapshot at the first local offset of a tiered log
    )
    COMPUTED_FROM_LOCAL_START = (
        "COMPUTED_FROM_LOCAL_START"  # the earlier records are in remote storage and were not read
    )
    COMPUTED_WITHIN_WINDOW = "COMPUTED_WITHIN_WINDOW"  # producers from below the scan window may be missing

    @property
    def lacks_start(self) -> bool:
        """Return whether the content may lack producers of the remote log."""
        return self is Provenance.COMPUTED_FROM_LOCAL_START

    @property
    def is_of_window(self) -> bool:
        """Return whether the snapshot may belong to a segment below a scan window. Such a segment was not replayed."""
        return self in (Provenance.BROKER_UNVERIFIED, Provenance.COMPUTED_WITHIN_WINDOW)


# The possible results of the strict comparison of a file with the log.
COMPARED = frozenset(
    {SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS, SnapshotVerdict.SUSPECT, SnapshotVerdict.CORRUPT}
)
TRUSTED = frozenset({SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS})
# Provenances of snapshots that have all producers. COMPUTED_WITHIN_WINDOW is not among them.
_PROVEN = frozenset({Provenance.COMPUTED, Provenance.COMPUTED_FROM_LOG_START, Provenance.COMPUTED_FROM_SNAPSHOT})


def may_be_uploaded(provenance: Provenance, verdict: SnapshotVerdict | None) -> bool:
    """Return whether a segment may be uploaded with the snapshot.

    Args:
        verdict: verdict on a broker's file. It ignores errors in entries that a broker drops when it loads the file.
            None if the file was not compared.
    """
    if provenance is Provenance.BROKER:
        return verdict in TRUSTED
    return not provenance.lacks_start


def may_start_replay(provenance: str, strict: str | None) -> bool:
    """Return whether the snapshot contains every producer of the log below its offset.

    Args:
        provenance, strict: texts from a claim. Values that this version does not know are not trusted.
        strict: result of the strict comparison of a broker's file; None if the file was not compared.
    """
    if provenance == Provenance.BROKER:
        return strict in TRUSTED
    return provenance in _PROVEN
