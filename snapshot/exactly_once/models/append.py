"""The broker's answer to a producer's next batch, and to an end-transaction marker.

The origin of a batch decides which checks the broker makes:

    CLIENT       a produce request on the leader. The broker checks in this order: verification of the transaction,
                 duplicates, the table SEQUENCES, a pending verification of an earlier batch, the open transaction
    COORDINATOR  offsets that a group coordinator commits in a transaction. The broker checks verification and epoch
    REPLICATION  a follower, a recovery or a replay. The broker refuses only a non-transactional batch of a producer
                 with an open transaction

The first row of MARKERS that matches a marker gives the answer. Since 2.4 a replica applies every marker of its leader.
The rule for markers since 4.2 is KIP-1228. Follows org.apache.kafka.storage.internals.log.ProducerAppendInfo and
UnifiedLog.analyzeAndValidateProducerState.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import LARGEST_EPOCH
from tiersnap.snapshot.exactly_once.models.decision_table import first_row, holding, read_table
from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import (
    LARGEST_SEQUENCE,
    NO_SEQUENCE,
    BatchMetadata,
    EndMarker,
    NextBatch,
    ProducerEntry,
    next_sequence,
)
from tiersnap.snapshot.exactly_once.models.verification import (
    VERIFIED,
    CheckResult,
    TransactionCheck,
    Verified,
    verify,
)

# Cells: ok = ACCEPT, OOO = OUT_OF_ORDER_SEQUENCE_NUMBER, NO_ID = UNKNOWN_PRODUCER_ID, DUP =
# DUPLICATE_SEQUENCE_NUMBER, STALE = INVALID_PRODUCER_EPOCH. The sequence is `version 2` if the
# batch begins a transaction of version 2 on the partition, or if such a transaction is being
# verified. An `unnumbered` entry has no sequence.
SEQUENCES = read_table("""
 #  | entry      | epoch  | sequence    | B0    | B1    | B2  | B3    | B4 | B5  | B6 | B7 | B8 | B9 | B10 | B11 | B12
 1  | unknown    | any    | zero        | ok    | =     | =   | =     | =  | =   | =  | =  | =  | =  | =   | =   | =
 2  | unknown    | any    | version 2   | -     | -     | -   | -     | -  | -   | -  | -  | -  | ok | OOO | =   | =
 3  | unknown    | any    | not zero    | OOO   | NO_ID | =   | =     | =  | ok  | =  | =  | =  | =  | =   | =   | =
 4  | known      | higher | zero        | ok    | =     | =   | =     | =  | =   | =  | =  | =  | =  | =   | =   | =
 5  | known      | higher | not zero    | OOO   | =     | =   | =     | =  | =   | =  | =  | =  | =  | =   | =   | =
 6  | known      | lower  | any         | STALE | =     | =   | =     | =  | =   | =  | =  | =  | =  | =   | =   | =
 7  | unnumbered | equal  | zero        | ok    | =     | =   | =     | =  | =   | =  | =  | =  | =  | =   | =   | =
 8  | unnumbered | equal  | not zero    | OOO   | =     | =   | NO_ID | =  | OOO | =  | =  | =  | =  | =   | =   | =
 9  | sequence   | equal  | next        | ok    | =     | =   | =     | =  | =   | =  | =  | =  | =  | =   | =   | =
 10 | sequence   | equal  | below cache | OOO   | DUP   | OOO | =     | =  | =   | =  | =  | =  | =  | =   | =   | =
 11 | sequence   | equal  | any         | OOO   | =     | =   | =     | =  | =   | =  | =  | =  | =  | =   | =   | =
""")
_CELLS = {
    "ok": Answer.ACCEPT,
    "OOO": Answer.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "NO_ID": Answer.UNKNOWN_PRODUCER_ID,
    "DUP": Answer.DUPLICATE_SEQUENCE_NUMBER,
    "STALE": Answer.INVALID_PRODUCER_EPOCH,
}


class AppendOrigin(StrEnum):
    """The origin of a batch (org.apache.kafka.storage.internals.log.AppendOrigin)."""

    CLIENT = "CLIENT"
    COORDINATOR = "COORDINATOR"
    REPLICATION = "REPLICATION"


@dataclass(frozen=True, slots=True)
class AppendAnswer:
    """The answer to the producer."""

    # The check that decided: the number of a row in SEQUENCES, or `verification`, `duplicate`, `epoch`, `pending
    # verification`, `transaction`, `origin`.
    rule: str
    answer: Answer
    duplicate_of: BatchMetadata | None = None  # the cached batch that was sent again; the answer has its offsets


def append(
    entry: ProducerEntry | None,
    batch: NextBatch,
    era: BrokerEra,
    *,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    verification: TransactionCheck = VERIFIED,
) -> AppendAnswer:
    """Return the answer to a data batch. `entry` is None if the broker does not have the producer."""
    refusal = None
    if origin is AppendOrigin.CLIENT:
        refusal = _refused_to_client(entry, batch, era, verification)
    elif origin is AppendOrigin.COORDINATOR:
        refusal = _refused_to_coordinator(entry, batch, era, verification)
    if refusal is not None:
        return refusal
    has_open_transaction = entry is not None and entry.txn_first_offset is not None
    if has_open_transaction and not batch.is_transactional:
        return AppendAnswer("transaction", Answer.INVALID_TXN_STATE)
    rule = "origin"
    if origin is AppendOrigin.CLIENT:
        rule, _ = sequence_rule(entry, batch, era)
    return AppendAnswer(rule, Answer.ACCEPT)


def _refused_to_client(
    entry: ProducerEntry | None, batch: NextBatch, era: BrokerEra, verification: TransactionCheck
) -> AppendAnswer | None:
    """Return the refusal of the first check that fails, None if the batch passes."""
    asked = verify(entry, batch, era, verification)
    # Kafka makes this check in the log, after the check for duplicates.
    is_late = verification.said is CheckResult.ENDED_MEANWHILE
    if asked.refusal is not None and not is_late:
        return AppendAnswer("verification", asked.refusal)
    duplicate = _duplicate_of(entry, batch, era)
    if duplicate is not None:
        return AppendAnswer("duplicate", Answer.DUPLICATE_ACK, duplicate)
    if asked.refusal is not None:
        return AppendAnswer("verification", asked.refusal)
    return _refused_by_sequence(entry, batch, era, verification, was_asked=asked.was_asked)


def _refused_by_sequence(
    entry: ProducerEntry | None,
    batch: NextBatch,
    era: BrokerEra,
    verification: TransactionCheck,
    *,
    was_asked: bool,
) -> AppendAnswer | None:
    """Return the refusal by SEQUENCES or by a pending verification, None if the batch passes."""
    version, is_above = 0, False
    if was_asked:
        version = batch.transaction_version
    if era.verifies and verification.pending is not None:
        version = verification.pending.transaction_version
        is_above = batch.first_sequence > verification.pending.lowest_sequence
    rule, answer = sequence_rule(entry, batch, era, begins_version_2=version >= 2)
    if is_above and answer is not Answer.INVALID_PRODUCER_EPOCH:
        return AppendAnswer("pending verification", Answer.OUT_OF_ORDER_SEQUENCE_NUMBER)
    if answer is Answer.ACCEPT:
        return None
    return AppendAnswer(rule, answer)


def _refused_to_coordinator(
    entry: ProducerEntry | None, batch: NextBatch, era: BrokerEra, verification: TransactionCheck
) -> AppendAnswer | None:
    asked = verify(entry, batch, era, verification) if era.verifies_offsets else Verified(was_asked=False)
    if asked.refusal is not None:
        return AppendAnswer("verification", asked.refusal)
    if _epoch_relation(entry, batch) == "lower":
        return AppendAnswer("epoch", Answer.INVALID_PRODUCER_EPOCH)
    return None


def _duplicate_of(entry: ProducerEntry | None, batch: NextBatch, era: BrokerEra) -> BatchMetadata | None:
    """Return the oldest cached batch with the same sequences (ProducerStateEntry.batchWithSequenceRange)."""
    if entry is None or entry.producer_epoch != batch.producer_epoch or batch.first_sequence == NO_SEQUENCE:
        return None
    sequences = batch.first_sequence, batch.last_sequence
    for each in entry.batches[-era.cached_batches :]:
        if (each.first_sequence, each.last_sequence) == sequences:
            return each
    return None


def sequence_rule(
    entry: ProducerEntry | None, batch: NextBatch, era: BrokerEra, *, begins_version_2: bool = False
) -> tuple[str, Answer]:
    """Return the number of the first row of SEQUENCES that matches, and its answer in the era."""
    cells = {
        "entry": _entry_kinds(entry),
        "epoch": {_epoch_relation(entry, batch)},
        "sequence": _sequence_relations(entry, batch, era, begins_version_2),
    }
    row = first_row((row for row in SEQUENCES if row[era.name] in _CELLS), cells)
    return row["#"], _CELLS[row[era.name]]


def _entry_kinds(entry: ProducerEntry | None) -> frozenset[str]:
    if entry is None:
        return frozenset({"unknown"})
    if entry.last_sequence == NO_SEQUENCE:
        return frozenset({"known", "unnumbered"})
    return frozenset({"known", "sequence"})


def _epoch_relation(entry: ProducerEntry | None, batch: NextBatch) -> str:
    if entry is None:
        return "any"
    if batch.producer_epoch == entry.producer_epoch:
        return "equal"
    return "higher" if batch.producer_epoch > entry.producer_epoch else "lower"


def _sequence_relations(
    entry: ProducerEntry | None, batch: NextBatch, era: BrokerEra, begins_version_2: bool
) -> frozenset[str]:
    """Return the words of the column `sequence` that match the batch."""
    found = set()
    if batch.first_sequence == 0:
        found.add("zero")
    else:
        found.add("not zero")
        if begins_version_2:
            found.add("version 2")
    if entry is None or entry.last_sequence == NO_SEQUENCE:
        return frozenset(found)
    if batch.first_sequence == next_sequence(entry.last_sequence):
        found.add("next")
    lowest = entry.batches[-era.cached_batches :][0].first_sequence
    # Since 1.0.0, a sequence that may have wrapped is not below the cache.
    may_have_wrapped = batch.last_sequence == 0 or lowest == LARGEST_SEQUENCE
    if batch.last_sequence < lowest and not may_have_wrapped:
        found.add("below cache")
    return frozenset(found)


MARKERS = read_table("""
 marker                    | origin      | answer
 older epoch               | COORDINATOR | INVALID_PRODUCER_EPOCH
 older epoch on a replica  | REPLICATION | INVALID_PRODUCER_EPOCH
 no bump, open transaction | COORDINATOR | INVALID_PRODUCER_EPOCH
 older coordinator         | COORDINATOR | TRANSACTION_COORDINATOR_FENCED
 any                       | any         | ACCEPT
""")


@dataclass(frozen=True, slots=True)
class MarkerAnswer:
    """The answer to the coordinator.

    Attributes:
        ended_first_offset: first offset of the transaction that the marker ends; None without a transaction.
    """

    answer: Answer
    ended_first_offset: int | None = None


def append_marker(
    entry: ProducerEntry | None, marker: EndMarker, era: BrokerEra, *, origin: AppendOrigin = AppendOrigin.COORDINATOR
) -> MarkerAnswer:
    """Return the answer to a marker. `entry` is None if the broker does not have the producer."""
    if entry is None:
        return MarkerAnswer(Answer.ACCEPT)
    row = first_row(MARKERS, {"origin": {origin}, "marker": holding(_MARKER_CONDITIONS, entry, marker, era)})
    answer = Answer[row["answer"]]
    if answer is not Answer.ACCEPT:
        return MarkerAnswer(answer)
    return MarkerAnswer(answer, entry.txn_first_offset)


def _lacks_bump(entry: ProducerEntry, marker: EndMarker, era: BrokerEra) -> bool:
    if not era.marker_needs_bump or marker.transaction_version < 2:
        return False
    if marker.producer_epoch != entry.producer_epoch:
        return False
    if era.tolerates_last_epoch and marker.producer_epoch == LARGEST_EPOCH:
        return False
    # Without an open transaction the marker is a retry.
    return entry.txn_first_offset is not None


_MARKER_CONDITIONS: dict[str, Callable[[ProducerEntry, EndMarker, BrokerEra], bool]] = {
    "older epoch": lambda entry, marker, _era: marker.producer_epoch < entry.producer_epoch,
    "older epoch on a replica": lambda entry, marker, era: (
        era.replica_refuses_older_marker and marker.producer_epoch < entry.producer_epoch
    ),
    "no bump, open transaction": _lacks_bump,
    "older coordinator": lambda entry, marker, _era: marker.coordinator_epoch < entry.coordinator_epoch,
}
