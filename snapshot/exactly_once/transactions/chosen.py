"""Which of the known transactions were asked for."""

from __future__ import annotations

from re import Pattern

from tiersnap.snapshot.errors import CorruptTransactionStateError, UsageError
from tiersnap.snapshot.exactly_once.transactions.coordinator import KnownTransaction
from tiersnap.snapshot.exactly_once.transactions.transaction_log import TransactionLog
from tiersnap.snapshot.formats.transaction_state import TOPIC
from tiersnap.snapshot.log.selection import matches_topic


def with_partitions(log: TransactionLog, topic: Pattern[str] | None, partition: int | None) -> list[KnownTransaction]:
    """Those that have a partition which both conditions select; all without any condition."""
    return [each for each in log.states.known.values() if _has(each, topic, partition)]


def _has(known: KnownTransaction, topic: Pattern[str] | None, partition: int | None) -> bool:
    if topic is None and partition is None:
        return True
    value = known.value
    return any(
        value.has_partition(each) and matches_topic(each[0], topic) and partition in (None, each[1])
        for each in value.partitions or ()
    )


def described(log: TransactionLog, transactional_id: str) -> KnownTransaction:
    """What is known of one id.

    Raises:
        UsageError: nothing is.
        CorruptTransactionStateError: its record cannot be read.
    """
    known = log.states.known.get(transactional_id)
    if known is not None:
        return known
    if transactional_id in log.states.unreadable:
        raise CorruptTransactionStateError(
            f"the newest record of {transactional_id!r} cannot be read",
            hint="tiersnap transactions list LOGDIR says what is wrong with it",
        )
    if log.is_current(transactional_id):
        raise UsageError(
            f"no transactional id {transactional_id!r}: it never was, or it has expired",
            hint="tiersnap transactions list LOGDIR shows all",
        )
    missing = log.missing_finding
    raise UsageError(
        f"{transactional_id!r} is not in what could be read of {TOPIC}"
        + (f": {missing.message}" if missing is not None else ""),
        hint="name the log directories that hold all its partitions, and --partition-count",
    )
