"""The verdicts on open transactions."""

from __future__ import annotations

from enum import StrEnum


class TransactionVerdict(StrEnum):
    """The verdict on an open transaction. The docstring of `hanging` has a table of the verdicts."""

    UNKNOWN = "UNKNOWN"
    YOUNG = "YOUNG"
    HANGING_NO_TID = "HANGING_NO_TID"
    HANGING_NOT_IN_TXN = "HANGING_NOT_IN_TXN"
    HANGING_LAST_EPOCH = "HANGING_LAST_EPOCH"
    HANGING_OVERDUE = "HANGING_OVERDUE"
    EXPECTED_MARKER = "EXPECTED_MARKER"
    TWO_PHASE = "TWO_PHASE"
    OVERDUE = "OVERDUE"
    ONGOING = "ONGOING"

    @property
    def is_hanging(self) -> bool:
        """Return whether only an operator can end the transaction."""
        return self in _HANGING


_HANGING = (
    *(TransactionVerdict.HANGING_NO_TID, TransactionVerdict.HANGING_NOT_IN_TXN),
    *(TransactionVerdict.HANGING_LAST_EPOCH, TransactionVerdict.HANGING_OVERDUE),
)
