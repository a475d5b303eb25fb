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
    """A producer at the log end of a partition, as in DescribeProducers; -1 if it has no batch or no marker."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: Annotated[int, Meta(description="of its last marker, -1 without one")]
    last_sequence: int
    last_offset: int
    last_timestamp: Annotated[int, Meta(description="ms, of its last batch")]

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class ListedProducer:
    """A producer, and the first offset of its open transaction."""

    producer: PartitionProducer
    transaction_start_offset: int | None

    @property
    def last_time(self) -> str | None:
        """Return `last_timestamp` in ISO 8601."""
        return utc(self.producer.last_timestamp)


@dataclass(frozen=True, slots=True)
class PartitionTransaction:
    """A producer's open transaction on one partition."""

    producer: PartitionProducer
    transaction_start_offset: Annotated[int, Meta(description="of its first record")]
    blocked_segments: Annotated[
        tuple[int, ...],
        Meta(
            description="base offsets of the closed segments that end above `transaction_start_offset`; "
            "none in a topic that is never tiered"
        ),
    ]
    blocked_bytes: Annotated[int, Meta(description="of these segments' log files")]


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The place of a record of `__transaction_state`, and its timestamp in ms."""

    partition: Annotated[int, Meta(description=f"of {TOPIC}")]
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class KnownTransaction:
    """The newest readable state of a transactional id, and the record that has it."""

    transactional_id: str
    record: RecordPlace
    value: TransactionLogValue
