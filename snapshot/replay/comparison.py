"""The result of the comparison of a snapshot file with the log, and the verdicts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.snapshot.gate.trusted import SnapshotVerdict

if TYPE_CHECKING:
    from tiersnap.snapshot.replay.expiry import BrokerExpiry

# The value of `harmful_until` for an open transaction: no broker ever drops such an entry.
NEVER = 2**63 - 1
# Verdicts of a file that was compared with only a part of the log.
_PARTLY = frozenset({SnapshotVerdict.NOT_COMPARED, SnapshotVerdict.UNVERIFIED})


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a snapshot file with the log, as a table stores it. Counts are numbers of producers."""

    compared: Annotated[
        SnapshotVerdict,
        Meta(description="result of the strict comparison of the file with the log, in which every entry counts"),
    ]
    explanation: Annotated[str, Meta(description="description of the result")]
    lacking: Annotated[int, Meta(description="producers of the log that the file lacks")] = 0
    differing: Annotated[int, Meta(description="producers whose values in the file differ from the log")] = 0
    without_coordinator_epoch: Annotated[
        int,
        Meta(description="producers that differ only because the file lacks the coordinator epoch that the log has"),
    ] = 0
    unexplained: Annotated[
        int,
        Meta(
            description="producers that only the file has, although the log still has all batches that the file names"
        ),
    ] = 0
    extending: Annotated[
        int, Meta(description="values of the file that come from batches which are no longer in the log")
    ] = 0
    # From the entries of file and log; NEVER if one of them has an open transaction.
    harmful_until: Annotated[
        int,
        Meta(
            description="ms, largest timestamp of all producers that are missing, differ or are unexplained; -1 if "
            "there is none"
        ),
    ] = -1

    @property
    def is_start(self) -> bool:
        """Return whether a replay may start from the file."""
        return self.compared.is_trusted

    @property
    def _contradicts_log(self) -> bool:
        return bool(self.lacking or self.differing or self.unexplained)

    def does_harm(self, expiry: BrokerExpiry) -> bool:
        """Return whether an error in the file affects a producer that a broker would keep now."""
        if expiry.expiration is None:
            return self._contradicts_log or self.without_coordinator_epoch > 0
        if not self._contradicts_log:
            return False
        return expiry.now - self.harmful_until < expiry.expiration  # always True for NEVER

    def _is_harmless_suspect(self, expiry: BrokerExpiry) -> bool:
        """Return whether the file is SUSPECT only because of entries that a broker would drop."""
        return self.compared is SnapshotVerdict.SUSPECT and not self.does_harm(expiry)

    def verdict(self, expiry: BrokerExpiry) -> SnapshotVerdict:
        """Return the verdict on the file, which decides whether a segment may be uploaded with it.

        Errors in the file are ignored if they do no harm (`does_harm`).

        A file that was compared with only a part of the log can be proven wrong, but not right.
        """
        if self.compared in _PARTLY and self.does_harm(expiry):
            return SnapshotVerdict.SUSPECT
        if not self._is_harmless_suspect(expiry):
            return self.compared
        if self.extending:
            return SnapshotVerdict.EXTENDS
        return SnapshotVerdict.MATCHES

    def reason(self, expiry: BrokerExpiry) -> str:
        """Return the reason for the verdict."""
        if not self._is_harmless_suspect(expiry):
            return self.explanation
        if not self._contradicts_log:
            return (
                f"{self.explanation}: harmless, because the next marker of each producer sets the coordinator epoch "
                "again"
            )
        return f"{self.explanation}: harmless, because a broker that loads the file drops such idle producers anyway"


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A snapshot file with the verdict on it."""

    offset: int
    verdict: SnapshotVerdict
    reason: str
    comparison: Comparison
