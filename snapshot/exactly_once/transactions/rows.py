"""Transactions as plain rows: what kafka-transactions.sh prints, and what the log says beyond it.

`…_timestamp` is a time in ms since the epoch, -1 and None where there is none; `…_time` is the same in ISO 8601, UTC.
Offsets are inclusive. Topic partitions are `<topic>-<partition>`, as everywhere in Kafka.
"""

from __future__ import annotations

from tiersnap.snapshot.exactly_once.transactions.coordinator import KnownTransaction
from tiersnap.snapshot.exactly_once.transactions.hanging import (
    JudgedTransaction,
    TransactionVerdict,
    abort_command,
    terminate_command,
)
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.formats.transaction_state import TOPIC, TransactionLogValue
from tiersnap.snapshot.units import utc


def state_row(known: KnownTransaction, *, as_of: int) -> dict[str, object]:
    """A transactional id as its coordinator knows it: the columns of list and describe, then all else in its record.

    Under `coordinator` is the partition of `__transaction_state` whose leader is its coordinator.
    """
    value = known.value
    start = value.start_timestamp if value.start_timestamp >= 0 else None
    return {
        "transactional_id": known.transactional_id,
        "coordinator": f"{TOPIC}-{known.partition}",
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "transaction_state": str(value.state),
        "transaction_timeout_ms": value.timeout_ms,
        "transaction_start_timestamp": start,
        "transaction_start_time": utc(start),
        "transaction_duration_ms": None if start is None else as_of - start,
        "topic_partitions": partition_names(value),
        "last_update_timestamp": value.last_update_timestamp,
        "last_update_time": utc(value.last_update_timestamp),
        "previous_producer_id": value.previous_producer_id,
        "next_producer_id": value.next_producer_id,
        "client_transaction_version": value.client_transaction_version,
        "next_producer_epoch": value.next_producer_epoch,
        "unknown_tags": {str(tag): content.hex() for tag, content in value.unknown_tags.items()},
        "value_version": value.version,
        "offset": known.offset,
        "timestamp": known.timestamp,
        "time": utc(known.timestamp),
    }


def partition_names(value: TransactionLogValue) -> list[str]:
    """The partitions of its transaction, ascending."""
    return [_name(partition) for partition in sorted(value.partitions or ()) if value.has_partition(partition)]


def hanging_row(judged: JudgedTransaction, *, as_of: int) -> dict[str, object]:
    """An open transaction: the columns of find-hanging, then verdict, what it blocks, and the commands that abort it.

    The commands are None where nothing is to be aborted; `terminate_command` is for a transaction in two phases.
    """
    transaction, coordinated = judged.transaction, judged.coordinated
    is_hanging = judged.verdict.is_hanging
    return {
        "topic": transaction.topic,
        "partition": transaction.partition,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "coordinator_epoch": transaction.coordinator_epoch,
        "transaction_start_offset": transaction.start_offset,
        "last_timestamp": transaction.last_timestamp,
        "last_time": utc(transaction.last_timestamp),
        "duration_minutes": judged.minutes(as_of),
        "verdict": judged.verdict,
        "reason": judged.reason,
        "transactional_id": None if coordinated is None else coordinated.transactional_id,
        "transaction_state": None if coordinated is None else str(coordinated.value.state),
        "coordinator_producer_epoch": None if coordinated is None else coordinated.value.producer_epoch,
        "is_late": judged.is_late,
        "blocked_segment_count": len(transaction.blocked_segments),
        "blocked_segments": list(transaction.blocked_segments),
        "blocked_bytes": transaction.blocked_bytes,
        "abort_command": abort_command(transaction) if is_hanging else None,
        "abort_command_before_3_0": abort_command(transaction, before_3_0=True) if is_hanging else None,
        "terminate_command": terminate_command(coordinated.transactional_id)
        if coordinated is not None and judged.verdict is TransactionVerdict.TWO_PHASE
        else None,
    }


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
