"""The verification of transactions: a leader asks the coordinator before it accepts a new transaction (KIP-890).

The first row that matches the coordinator's answer and the request decides. The row's cell for the era is the error
that the producer receives, or `-` if the batch passes.

Follows kafka.server.AddPartitionsToTxnManager and ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.decision_table import first_row, read_table
from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import NextBatch, ProducerEntry


class CheckResult(StrEnum):
    """The coordinator's answer to a leader."""

    VERIFIED = "verified"
    WRONG_PRODUCER_ID = "wrong producer id"
    FENCED = "fenced"
    PARTITION_MISSING = "partition missing"
    CONCURRENT = "concurrent transactions"
    UNAVAILABLE = "unavailable"  # not the coordinator, still loading, or no connection
    ENDED_MEANWHILE = "ended meanwhile"  # verified, but the transaction ended before the append


TABLE = read_table("""
 said                    | request     | B7        | B8        | B9         | B10 | B11 | B12
 verified                | any         | -         | =         | =          | =   | =   | =
 wrong producer id       | any         | MAPPING   | =         | =          | =   | =   | =
 fenced                  | any         | STALE     | =         | =          | =   | =   | =
 partition missing       | produce v10 | TXN_STATE | =         | =          | =   | =   | =
 partition missing       | any         | TXN_STATE | ABORTABLE | =          | =   | =   | =
 concurrent transactions | version 2   | -         | -         | CONCURRENT | =   | =   | =
 concurrent transactions | any         | REPLICAS  | =         | =          | =   | =   | =
 unavailable             | any         | REPLICAS  | =         | =          | =   | =   | =
 ended meanwhile         | any         | TXN_STATE | =         | =          | =   | =   | =
""")
_CELLS = {
    "-": None,
    "MAPPING": Answer.INVALID_PRODUCER_ID_MAPPING,
    "STALE": Answer.INVALID_PRODUCER_EPOCH,
    "TXN_STATE": Answer.INVALID_TXN_STATE,
    "ABORTABLE": Answer.TRANSACTION_ABORTABLE,
    "CONCURRENT": Answer.CONCURRENT_TRANSACTIONS,
    "REPLICAS": Answer.NOT_ENOUGH_REPLICAS,
}
_FIRST_PRODUCE_WITH_ABORTABLE = 11


@dataclass(frozen=True, slots=True)
class PendingVerification:
    """A verification that waits for the coordinator's answer about a producer's transaction.

    The verification also delays the producer's batches outside transactions.
    """

    lowest_sequence: int  # lowest first sequence of the waiting batches, in the producer's newest epoch
    transaction_version: int = 1  # version of the first waiting batch


@dataclass(frozen=True, slots=True)
class TransactionCheck:
    """The facts on which a verification depends."""

    said: CheckResult = CheckResult.VERIFIED  # answer of the coordinator, if the leader asks
    is_enabled: bool = True  # transaction.partition.verification.enable; version 2 is always verified
    pending: PendingVerification | None = None  # another verification of the producer; None without one
    produce_version: int = _FIRST_PRODUCE_WITH_ABORTABLE  # version of the produce request


VERIFIED = TransactionCheck()


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification. `refusal` is the error, or None if the batch passes."""

    was_asked: bool
    refusal: Answer | None = None


def verify(entry: ProducerEntry | None, batch: NextBatch, era: BrokerEra, verification: TransactionCheck) -> Verified:
    """Return the result of the verification of a batch. A batch that cannot begin a transaction passes."""
    is_version_2 = batch.transaction_version >= 2 and era.speaks_version_2
    may_ask = era.verifies and (verification.is_enabled or is_version_2)
    if not may_ask or not batch.is_transactional or _is_ongoing(entry, batch, era):
        return Verified(was_asked=False)
    is_old_epoch = entry is not None and batch.producer_epoch < entry.producer_epoch
    if era.checks_epoch_first and is_old_epoch:
        return Verified(was_asked=False, refusal=Answer.INVALID_PRODUCER_EPOCH)
    requests = set(_request_kinds(verification.produce_version, is_version_2=is_version_2))
    row = first_row(TABLE, {"said": {verification.said}, "request": requests})
    return Verified(was_asked=True, refusal=_CELLS[row[era.name]])


def _request_kinds(produce_version: int, *, is_version_2: bool) -> Iterator[str]:
    """Yield the values of the column `request` that match the batch."""
    if produce_version < _FIRST_PRODUCE_WITH_ABORTABLE:
        yield "produce v10"
    if is_version_2:
        yield "version 2"


def _is_ongoing(entry: ProducerEntry | None, batch: NextBatch, era: BrokerEra) -> bool:
    """Return whether the batch continues a transaction that is open on the partition."""
    if entry is None or entry.txn_first_offset is None:
        return False
    return entry.producer_epoch == batch.producer_epoch or not era.ongoing_needs_epoch
