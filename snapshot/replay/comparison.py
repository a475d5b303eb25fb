"""The comparison of a snapshot file with the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.snapshot.gate.trusted import SnapshotVerdict

if TYPE_CHECKING:
    from tiersnap.snapshot.replay.expiry import BrokerExpiry

# `harmful_until` if a transaction is open: no broker ever drops such an entry.
NEVER = 2**63 - 1
# Verdicts if the log begins in remote storage and the state there is unknown.
_PARTLY = frozenset({SnapshotVerdict.NOT_COMPARED, SnapshotVerdict.UNVERIFIED})


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one snapshot file with the log, as a row of a table holds it. Counts are of producers."""

    compared: Annotated[
        SnapshotVerdict,
        Meta(description="result of the strict comparison of the file: every entry counts"),
    ]
    explanation: Annotated[str, Meta(description="the result of the comparison in words")]
    lacking: Annotated[int, Meta(description="producers of the log that the file lacks")] = 0
    differing: Annotated[int, Meta(description="producers in both, with other values")] = 0
    forgotten: Annotated[
        int,
        Meta(description="producers in both of which only the coordinator epoch is unset: idle ones that returned"),
    ] = 0
    unexplained: Annotated[
        int, Meta(description="producers of the file alone, although the log still holds all their batches")
    ] = 0
    extending: Annotated[int, Meta(description="values whose batches the log no longer holds")] = 0
    # Of the entries of both sides; NEVER if one has an open transaction.
    harmful_until: Annotated[
        int,
        Meta(description="ms, largest timestamp of all that is lacking, differing or unexplained; -1 if nothing is"),
    ] = -1

    @property
    def is_start(self) -> bool:
        """Return whether a replay may start from the file."""
        return self.compared.is_trusted

    @property
    def _contradicts_log(self) -> bool:
        return bool(self.lacking or self.differing or self.unexplained)

    def does_harm(self, expiry: BrokerExpiry) -> bool:
        """Return whether a broker that loads the file would keep an entry that counts against it."""
        if expiry.expiration is None:
            return self._contradicts_log or self.forgotten > 0
        if not self._contradicts_log:
            return False
        return expiry.now - self.harmful_until < expiry.expiration  # always so for NEVER

    def _is_harmless_suspect(self, expiry: BrokerExpiry) -> bool:
        """Return whether only the strict comparison counts against the file."""
        return self.compared is SnapshotVerdict.SUSPECT and not self.does_harm(expiry)

    def verdict(self, expiry: BrokerExpiry) -> SnapshotVerdict:
        """Return the verdict on the file (see `does_harm`): may a segment be uploaded with it?

        A file that was compared with only a part of the log cannot be proven right, but it can be proven wrong.
        """
        if self.compared in _PARTLY and self.does_harm(expiry):
            return SnapshotVerdict.SUSPECT
        if not self._is_harmless_suspect(expiry):
            return self.compared
        return SnapshotVerdict.EXTENDS if self.extending else SnapshotVerdict.MATCHES

    def reason(self, expiry: BrokerExpiry) -> str:
        """Return the reason of the verdict."""
        if not self._is_harmless_suspect(expiry):
            return self.explanation
        if not self._contradicts_log:
            return f"{self.explanation}: harmless, the next marker of each sets it again"
        return f"{self.explanation}: harmless, a broker that loads the file drops such idle producers anyway"


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A snapshot file, with its verdict and reason at some time."""

    offset: int
    verdict: SnapshotVerdict
    reason: str
    comparison: Comparison
