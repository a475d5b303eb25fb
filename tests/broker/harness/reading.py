"""A partition as a real consumer sees it, whole."""

from __future__ import annotations

from typing import Literal, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.broker.harness.broker import Broker

Isolation = Literal["read_uncommitted", "read_committed"]
SECONDS = 30.0


class Record(NamedTuple):
    """Everything of a record that a client can see."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_type: int
    timestamp: int


def read_all(
    broker: Broker, topic: str, *, partition: int = 0, isolation: Isolation = "read_uncommitted", start: int = 0
) -> list[Record]:
    """Records from `start` to the end that `isolation` gives, in offset order.

    Raises:
        AssertionError: an error other than the end of the partition, or not finished within 30 s without a record.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "nobody",  # demanded, never used: nothing is subscribed to and nothing committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,  # the end of the partition is only told when a fetch comes back empty
            "log_level": 0,
        }
    )
    records: list[Record] = []
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        while True:
            message = consumer.poll(SECONDS)
            if message is None:
                raise AssertionError(f"{topic}-{partition}: no record and no end after {len(records)} records")
            error = message.error()
            if error is None:
                kind, stamp = message.timestamp()
                headers = tuple(message.headers() or ())
                records.append(Record(message.offset(), message.key(), message.value(), headers, kind, stamp))
            elif error.code() == KafkaError._PARTITION_EOF:
                return records
            else:
                raise AssertionError(f"{topic}-{partition} after {len(records)} records: {error}")
    finally:
        consumer.close()
