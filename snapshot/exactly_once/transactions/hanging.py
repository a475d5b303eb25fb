"""The verdicts on open transactions. A transaction hangs if no coordinator will ever write its marker.

| verdict | transactional id with this producer id | hangs |
| --- | --- | --- |
| UNKNOWN | part of `__transaction_state` was not read | |
| YOUNG | as for UNKNOWN or HANGING_…, but its producer wrote recently | |
| HANGING_NO_TID | none | yes |
| HANGING_NOT_IN_TXN | its transaction does not include the partition | yes |
| HANGING_LAST_EPOCH | Ongoing beyond its timeout in epoch 32767, includes the partition | yes, up to Kafka 4.2 |
| HANGING_OVERDUE | Ongoing, although its coordinator ran for an hour or more after the timeout | yes |
| EXPECTED_MARKER | PrepareCommit or PrepareAbort, includes the partition | no: a marker will come |
| TWO_PHASE | Ongoing without a timeout (KIP-939), includes the partition | no: only its application ends it |
| OVERDUE | Ongoing beyond its timeout, includes the partition | no: after its next start, the coordinator aborts it |
| ONGOING | Ongoing, includes the partition | no |

Follows FindHangingTransactionsCommand of kafka-transactions.sh (KIP-664). The tool uses the time of the producer's last
write, not the start of the transaction. It compares no epochs and never reports Ongoing transactions. In memory, a
coordinator removes a partition from a transaction as soon as the marker is written to the partition. On disk, the
coordinator removes the partitions after all markers. The tool asks the coordinator, and this search reads the disk. So
the tool also reports the transactions that this search reports, except HANGING_LAST_EPOCH and HANGING_OVERDUE.

A segment may be tiered only if its next base offset is at or below the last stable offset. An open transaction keeps
the last stable offset at its first offset (verdict ABOVE_LSO).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.exactly_once.log_replay import LogReplay
from tiersnap.snapshot.exactly_once.models.coordinator_state import LARGEST_EPOCH, TWO_PHASE_TIMEOUT_MS, is_timed_out
from tiersnap.snapshot.exactly_once.transactions.kinds import KnownTransaction, PartitionTransaction
from tiersnap.snapshot.exactly_once.transactions.producers import entries_at_end, partition_producer
from tiersnap.snapshot.exactly_once.transactions.transaction_log import TransactionLog
from tiersnap.snapshot.exactly_once.transactions.transaction_verdict import TransactionVerdict
from tiersnap.snapshot.formats.transaction_state import TransactionStatus
from tiersnap.snapshot.gate.kafka_tools import abort_transaction
from tiersnap.snapshot.gate.step_template import NextStep
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.units import format_duration, human_duration


def open_transactions(replayed: LogReplay) -> Iterator[PartitionTransaction]:
    """Yield the open transactions of a partition, ascending by start offset."""
    partition, entries = replayed.examination.partition, entries_at_end(replayed)
    is_open = entries["current_txn_first_offset"] >= 0
    for entry in np.sort(entries[is_open], order=("current_txn_first_offset", "producer_id")):
        start_offset = int(entry["current_txn_first_offset"])
        blocked = list(_blocked(partition, start_offset))
        yield PartitionTransaction(
            partition_producer(partition, entry),
            start_offset,
            tuple(segment.base_offset for segment in blocked),
            sum(segment.log.size for segment in blocked),
        )


def _blocked(partition: Partition, start_offset: int) -> Iterator[Segment]:
    if never_tiered_reason(partition):
        return
    for segment in partition.segments:
        if segment.next_base_offset is not None and segment.next_base_offset > start_offset:
            yield segment


NEXT_STEP = {
    TransactionVerdict.UNKNOWN: "add the log directories that have the missing partitions of __transaction_state",
    TransactionVerdict.YOUNG: "look again later",
    TransactionVerdict.EXPECTED_MARKER: "start the broker that coordinates the transaction: after its start the broker "
    "writes the markers again",
    TransactionVerdict.TWO_PHASE: "wait until the application commits or aborts the transaction: no timeout ends the "
    "transaction",
    TransactionVerdict.OVERDUE: "start the broker that coordinates the transaction: the coordinator aborts "
    "transactions after their timeout",
    TransactionVerdict.ONGOING: "wait for the producer to end the transaction, or for its timeout",
}


# A transaction is late if it is this much older than transaction.max.timeout.ms (KIP-664's metric, since 3.2).
LATE_BUFFER_MS = 300_000


def is_late(transaction: PartitionTransaction, *, as_of: int, max_transaction_timeout: int) -> bool:
    """Return whether a broker counts the partition in PartitionsWithLateTransactionsCount.

    `as_of` is in ms since the epoch, and `max_transaction_timeout` in ms.
    """
    return as_of - transaction.producer.last_timestamp > max_transaction_timeout + LATE_BUFFER_MS


@dataclass(frozen=True, slots=True)
class JudgedTransaction:
    """An open transaction with its verdict."""

    transaction: PartitionTransaction
    verdict: TransactionVerdict
    reason: str
    coordinated: KnownTransaction | None  # transactional id that has the producer id; None if unknown
    is_late: bool  # see the function `is_late`

    def minutes(self, as_of: int) -> int:
        """Return the minutes since the producer's last write, rounded towards 0 as in kafka-transactions.sh."""
        idle = as_of - self.transaction.producer.last_timestamp
        return idle // 60_000 if idle >= 0 else -(-idle // 60_000)


def judge_transaction(
    transaction: PartitionTransaction, log: TransactionLog, *, as_of: int, max_transaction_timeout: int
) -> JudgedTransaction:
    """Return the verdict on an open transaction.

    Args:
        as_of: time of the verdict, epoch ms.
        max_transaction_timeout: ms, transaction.max.timeout.ms of the brokers. A producer that wrote within this time
            may still be active. kafka-transactions.sh has the option --max-transaction-timeout, in minutes.
    """
    coordinated = log.states.of_producer(transaction.producer.producer_id)
    verdict, reason = _of_coordinator(transaction, coordinated, log, as_of)
    idle = as_of - transaction.producer.last_timestamp
    if (verdict.is_hanging or verdict is TransactionVerdict.UNKNOWN) and idle <= max_transaction_timeout:
        verdict = TransactionVerdict.YOUNG
        reason = f"the producer wrote at most {format_duration(max_transaction_timeout)} ago; {reason}"
    late = is_late(transaction, as_of=as_of, max_transaction_timeout=max_transaction_timeout)
    return JudgedTransaction(transaction, verdict, reason, coordinated, late)


def _of_coordinator(
    transaction: PartitionTransaction, coordinated: KnownTransaction | None, log: TransactionLog, as_of: int
) -> tuple[TransactionVerdict, str]:
    if coordinated is None:
        return _without_id(transaction.producer.producer_id, log)
    value, name = coordinated.value, repr(coordinated.transactional_id)
    state = value.transaction_state
    if not log.is_current(coordinated.transactional_id):
        return TransactionVerdict.UNKNOWN, f"the records of {name} in __transaction_state were not all read"
    if not value.has_partition(transaction.producer.topic_partition):
        return TransactionVerdict.HANGING_NOT_IN_TXN, (
            f"{name} is in state {state}, but its transaction does not include this partition"
        )
    if state.is_prepared:
        return TransactionVerdict.EXPECTED_MARKER, f"{name} is in state {state}: its coordinator will write the marker"
    if state is TransactionStatus.ONGOING:
        return _of_ongoing(coordinated, log, as_of)
    return TransactionVerdict.ONGOING, f"{name} is {state}"


def _without_id(producer_id: int, log: TransactionLog) -> tuple[TransactionVerdict, str]:
    """Return the verdict on a transaction whose producer id belongs to no known transactional id."""
    if not log.is_complete:
        why = f"no transactional id with producer id {producer_id} was found, but some transactional ids were not read"
        return TransactionVerdict.UNKNOWN, why
    other = log.states.formerly_of(producer_id)
    why = f"no transactional id has producer id {producer_id}"
    if other is not None:
        why = f"{why}; {other.transactional_id!r} had this producer id earlier, and has {other.value.producer_id} now"
    return TransactionVerdict.HANGING_NO_TID, why


def _of_ongoing(known: KnownTransaction, log: TransactionLog, as_of: int) -> tuple[TransactionVerdict, str]:
    """Return the verdict on an Ongoing transaction that includes the partition."""
    value, name = known.value, repr(known.transactional_id)
    if value.transaction_timeout_ms == TWO_PHASE_TIMEOUT_MS:
        return TransactionVerdict.TWO_PHASE, (
            f"{name} has an ongoing two-phase commit transaction: only its application ends the transaction"
        )
    timeout = value.transaction_timeout_ms
    if is_timed_out(start_timestamp=value.start_timestamp, timeout_ms=timeout, now=as_of):
        return _of_overdue(known, log, as_of)
    return TransactionVerdict.ONGOING, f"{name} is {value.transaction_state}"


HANGS_AFTER_MS = 3_600_000
"""A transaction hangs if its coordinator ran for this long after the timeout and did not abort it. Coordinators
check for such transactions every 10 s (transaction.abort.timed.out.transaction.cleanup.interval.ms)."""


def _of_overdue(known: KnownTransaction, log: TransactionLog, as_of: int) -> tuple[TransactionVerdict, str]:
    """Return the verdict on a transaction beyond its timeout."""
    value, deadline = known.value, known.value.start_timestamp + known.value.transaction_timeout_ms
    told = (
        f"the transaction of {known.transactional_id!r} has been Ongoing for longer than its timeout of "
        f"{format_duration(value.transaction_timeout_ms)}"
    )
    if value.producer_epoch == LARGEST_EPOCH:
        why = (
            f"the producer epoch is {LARGEST_EPOCH}, and no coordinator up to Kafka 4.2 can abort a transaction of "
            "this epoch (KAFKA-20090)"
        )
        return TransactionVerdict.HANGING_LAST_EPOCH, f"{told}: {why}"
    at_work = log.work_after(known.record.partition, deadline, as_of)
    if at_work >= HANGS_AFTER_MS:
        why = (
            f"the coordinator has run for {human_duration(at_work)} since the timeout and did not abort the transaction"
        )
        return TransactionVerdict.HANGING_OVERDUE, f"{told}: {why}"
    return TransactionVerdict.OVERDUE, f"{told}: the coordinator will abort the transaction"


def abort_step(transaction: PartitionTransaction, *, before_3_0: bool = False) -> NextStep:
    """Return the command that makes the partition's leader write an abort marker.

    Args:
        before_3_0: whether the leader is older than Kafka 3.0 and cannot find a producer by start offset.
    """
    producer = transaction.producer
    if before_3_0:
        words = ["--producer-id", str(producer.producer_id), "--producer-epoch", str(producer.producer_epoch)]
        # The tool replaces -1 by 0, but it parses the word -1 as an option.
        words += ["--coordinator-epoch", str(max(0, producer.coordinator_epoch))]
    else:
        words = ["--start-offset", str(transaction.transaction_start_offset)]
    return abort_transaction(producer.topic, producer.partition, *words)
