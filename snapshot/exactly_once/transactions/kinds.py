"""Rows about producers and transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.formats.transaction_state import TOPIC, TransactionLogValue
from tiersnap.snapshot.units import utc


@dataclass(frozen=True, slots=True)
class PartitionProducer:
    """A producer at the log end of a partition, as in DescribeProducers. Values of a missing batch or marker are -1."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: Annotated[
        int, Meta(description="coordinator epoch of the producer's last marker; -1 without a marker")
    ]
    last_sequence: int
    last_offset: int
    last_timestamp: Annotated[int, Meta(description="ms, timestamp of the producer's last batch")]

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the topic and the number of the partition."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class ListedProducer:
    """A producer with the first offset of its open transaction. The offset is None without a transaction."""

    producer: PartitionProducer
    transaction_start_offset: int | None

    @property
    def last_time(self) -> str | None:
        """Return `last_timestamp` as ISO 8601 text."""
        return utc(self.producer.last_timestamp)


@dataclass(frozen=True, slots=True)
class PartitionTransaction:
    """An open transaction of a producer on one partition."""

    producer: PartitionProducer
    transaction_start_offset: Annotated[int, Meta(description="offset of the first record of the transaction")]
    blocked_segments: Annotated[
        tuple[int, ...],
        Meta(
            description="base offsets of the closed segments that end above `transaction_start_offset`; empty if "
            "the topic is never tiered"
        ),
    ]
    blocked_bytes: Annotated[int, Meta(description="bytes of the log files of the blocked segments")]


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The position of a record in `__transaction_state`, and its timestamp in ms."""

    partition: Annotated[int, Meta(description=f"partition of {TOPIC}")]
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class KnownTransaction:
    """The newest readable state of a transactional id, with the position of its record."""

    transactional_id: str
    record: RecordPlace
    value: TransactionLogValue
