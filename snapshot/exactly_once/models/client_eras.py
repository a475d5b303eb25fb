"""Which Java clients react alike, and what a reaction is.

Severities are KIP-691's: RETRY is invisible to the application; ABORTABLE wants an abort and keeps the producer; FATAL
ends it; FAIL_BATCH gives the exception to the batch's callback and the producer goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.eras import Era


@dataclass(frozen=True, slots=True)
class ClientEra(Era):
    """Java clients of some releases."""


CLIENT_ERAS = (
    ClientEra("C0", (0, 11), "0.11", "KIP-98"),
    ClientEra("C1", (1, 0), "1.0-2.4", "KAFKA-5494, KAFKA-5793"),
    ClientEra("C2", (2, 5), "2.5-2.6", "KIP-360"),
    ClientEra("C3", (2, 7), "2.7-3.9", "KIP-588"),
    ClientEra("C4", (4, 0), "4.0", "KIP-890"),
    ClientEra("C5", (4, 1), "4.1-4.4", "KIP-1050"),
)
CLIENT_ERA = {era.name: era for era in CLIENT_ERAS}


class Severity(StrEnum):
    """How bad it is for the application."""

    IGNORE = "IGNORE"
    RETRY = "RETRY"
    FAIL_BATCH = "FAIL_BATCH"
    ABORTABLE = "ABORTABLE"
    FATAL = "FATAL"


class Reaction(StrEnum):
    """What the client does next; the words of the tables."""

    SUCCESS = "success"
    RETRY = "retry"
    SPLIT = "split"
    RENUMBER = "renumber"
    BUMP = "bump"
    NEW_ID = "new id"
    FAIL = "fail"
    FAIL_LOWER = "fail+lower"
    FAIL_NEW_ID = "fail+id"
    FAIL_BUMP = "fail+bump"
    ABORT = "abort"
    ABORT_LOWER = "abort+lower"
    FATAL = "fatal"
    UNINITIALIZED = "undo"

    @property
    def severity(self) -> Severity:
        """How bad it is for the application."""
        return _SEVERITY[self]

    @property
    def next_step(self) -> str:
        """What the client sends or does next."""
        return _NEXT_STEP[self]

    @property
    def may_duplicate(self) -> bool:
        """Whether what is sent next can be in the log already where no broker recognizes it.

        A batch whose sequence, epoch or producer id changes is a new one to every broker; if the failed attempt was
        written, it is there twice. No release of the client looks whether it may have been.
        """
        return self in _RENAMES


_SEVERITY = {
    Reaction.SUCCESS: Severity.IGNORE,
    Reaction.RETRY: Severity.RETRY,
    Reaction.SPLIT: Severity.RETRY,
    Reaction.RENUMBER: Severity.RETRY,
    Reaction.BUMP: Severity.RETRY,
    Reaction.NEW_ID: Severity.RETRY,
    Reaction.FAIL: Severity.FAIL_BATCH,
    Reaction.FAIL_LOWER: Severity.FAIL_BATCH,
    Reaction.FAIL_NEW_ID: Severity.FAIL_BATCH,
    Reaction.FAIL_BUMP: Severity.FAIL_BATCH,
    Reaction.ABORT: Severity.ABORTABLE,
    Reaction.ABORT_LOWER: Severity.ABORTABLE,
    Reaction.FATAL: Severity.FATAL,
    Reaction.UNINITIALIZED: Severity.ABORTABLE,
}
_NEXT_STEP = {
    Reaction.SUCCESS: "goes on; offset and timestamp of the batch stay unknown",
    Reaction.RETRY: "sends the same batch again",
    Reaction.SPLIT: "sends the records again in smaller batches",
    Reaction.RENUMBER: "numbers all batches in flight from sequence 0 in the same epoch, and sends them again",
    Reaction.BUMP: "takes the next epoch, numbers all batches in flight from sequence 0, and sends them again",
    Reaction.NEW_ID: "asks for a new producer id, numbers all batches in flight from sequence 0, and sends them again",
    Reaction.FAIL: "fails the batch and sends the next one",
    Reaction.FAIL_LOWER: "fails the batch, lowers the sequences of later ones, and sends those",
    Reaction.FAIL_NEW_ID: "fails the batch and goes on with a new producer id",
    Reaction.FAIL_BUMP: "fails the batch and goes on in the next epoch from sequence 0",
    Reaction.ABORT: "waits for the application to abort the transaction",
    Reaction.ABORT_LOWER: "lowers the sequences of later batches, and waits for the application to abort",
    Reaction.FATAL: "fails everything; the application has to close the producer",
    Reaction.UNINITIALIZED: "goes back to where it was before initTransactions",
}
_RENAMES = frozenset({Reaction.RENUMBER, Reaction.BUMP, Reaction.NEW_ID, Reaction.FAIL_NEW_ID, Reaction.FAIL_BUMP})
