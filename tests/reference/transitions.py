"""Whether a record of `__transaction_state` can follow the one before it of the same transactional id.

    state          what may come before it
    Empty          Empty, CompleteCommit, CompleteAbort
    Ongoing        Ongoing, Empty, CompleteCommit, CompleteAbort
    PrepareCommit  Ongoing
    PrepareAbort   Ongoing; with transaction.version 2 also Empty, CompleteCommit, CompleteAbort
    Complete…      the Prepare… of its name

Follows TransactionState.VALID_PREVIOUS_STATES of 4.1.1. A coordinator keeps what it loads whatever came before, and the
cleaner takes older records away, so only a log that was never cleaned can break the table.
"""

from __future__ import annotations

from tiersnap.snapshot.exactly_once.transactions.transaction_log import impossible
from tiersnap.snapshot.formats.transaction_state import TransactionLogValue, TransactionStatus

_ENDED = frozenset({TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT})
BEFORE = {
    TransactionStatus.EMPTY: _ENDED,
    TransactionStatus.ONGOING: _ENDED | {TransactionStatus.ONGOING},
    TransactionStatus.PREPARE_COMMIT: frozenset({TransactionStatus.ONGOING}),
    TransactionStatus.PREPARE_ABORT: _ENDED | {TransactionStatus.ONGOING},
    TransactionStatus.COMPLETE_COMMIT: frozenset({TransactionStatus.PREPARE_COMMIT}),
    TransactionStatus.COMPLETE_ABORT: frozenset({TransactionStatus.PREPARE_ABORT}),
}


def illegal_transition(
    before: TransactionLogValue | None, after: TransactionLogValue, *, is_cleaned: bool = True
) -> str:
    """Why `after` cannot follow `before`; "" where it can.

    Args:
        before: None for the first record of the id, or after a tombstone.
        is_cleaned: records in between may have been cleaned away; then only the state itself is looked at.
    """
    said = impossible(after)
    if said or is_cleaned:
        return said
    if before is None:
        return "" if after.transaction_state is TransactionStatus.EMPTY else f"begins with {after.transaction_state}"
    was, now = before.transaction_state, after.transaction_state
    return "" if was in BEFORE[now] else f"{now} after {was}"
