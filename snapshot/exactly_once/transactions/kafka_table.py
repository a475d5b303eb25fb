"""Tables in the format of kafka-transactions.sh, byte for byte, with the headings of the tool.

Follows org.apache.kafka.tools.TransactionsCommand. Each column is as wide as its widest cell, and a tab follows each
cell. The contents differ from the tool's in two ways. The column Coordinator contains a partition of
`__transaction_state`, because a log directory does not show which broker is the coordinator. The rows are sorted, while
the tool prints them in the order of a hash map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

# Keys of our rows, and the headings of the tool in its order.
LIST = {
    "transactional_id": "TransactionalId",
    "coordinator": "Coordinator",
    "producer_id": "ProducerId",
    "transaction_state": "TransactionState",
}
DESCRIBE = {
    "coordinator": "CoordinatorId",
    "transactional_id": "TransactionalId",
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "transaction_state": "TransactionState",
    "transaction_timeout_ms": "TransactionTimeoutMs",
    "transaction_start_timestamp": "CurrentTransactionStartTimeMs",
    "transaction_duration_ms": "TransactionDurationMs",
    "topic_partitions": "TopicPartitions",
}
FIND_HANGING = {
    "topic": "Topic",
    "partition": "Partition",
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "coordinator_epoch": "CoordinatorEpoch",
    "transaction_start_offset": "StartOffset",
    "last_timestamp": "LastTimestamp",
    "duration_minutes": "Duration(min)",
}
DESCRIBE_PRODUCERS = {
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "coordinator_epoch": "LatestCoordinatorEpoch",
    "last_sequence": "LastSequence",
    "last_timestamp": "LastTimestamp",
    "transaction_start_offset": "CurrentTransactionStartOffset",
}


# Our own tables have the tool's headings, but ISO 8601 times.
_IN_WORDS = {
    "last_timestamp": ("last_time", "LastTime"),
    "transaction_start_timestamp": ("transaction_start_time", "CurrentTransactionStartTime"),
}


def in_words(headings: Mapping[str, str]) -> dict[str, str]:
    """Return the columns and headings of tiersnap's own table, which has ISO 8601 times."""
    return dict(_IN_WORDS.get(key, (key, heading)) for key, heading in headings.items())


def kafka_text(headings: Mapping[str, str], rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield lines as kafka-transactions.sh prints them, with line ends. `headings` is a dictionary of this module."""
    lines = [list(headings.values())]
    lines.extend([_text(row[key]) for key in headings] for row in rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "\t".join([*map(str.ljust, line, widths), "\n"])


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
