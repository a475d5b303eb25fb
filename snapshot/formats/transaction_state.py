"""Decode records of `__transaction_state`, in which transaction coordinators store the state of transactional ids.

Key, version 0, the only one:

    int16 version   int16 length   transactional id, UTF-8

Value, null in a tombstone. Version 1 has the flexible encoding (KIP-482); brokers write it if the cluster's feature
transaction.version is 1 or later:

    field                                    version 0                  version 1
    version                                  int16                      int16
    ProducerId                               int64                      int64
    ProducerEpoch                            int16                      int16
    TransactionTimeoutMs                     int32                      int32
    TransactionStatus                        int8                       int8
    TransactionPartitions, may be null       int32 count                compact array
        Topic                                int16 length, UTF-8        compact string
        PartitionIds                         int32 count, int32 each    compact array of int32
                                                                        tags
    TransactionLastUpdateTimestampMs         int64                      int64
    TransactionStartTimestampMs, -1 = none   int64                      int64
                                                                        tags:
    PreviousProducerId                                                  tag 0 int64   -1 = none
    NextProducerId                                                      tag 1 int64   -1 = none
    ClientTransactionVersion                                            tag 2 int16   0 by default
    NextProducerEpoch                                                   tag 3 int16   -1 = none

Big-endian. A tag with the default value is not written. Follows TransactionLogKey.json, TransactionLogValue.json and
org.apache.kafka.coordinator.transaction.TransactionLog; states as in TransactionState (KIP-98, KIP-890).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeVar

from msgspec import Meta

from tiersnap.snapshot.errors import CorruptTransactionStateError, UnknownVersionError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.formats.flexible_encoding import FlexibleReader

_T = TypeVar("_T")

TOPIC = "__transaction_state"
KEY_VERSION = 0
LATEST_VALUE_VERSION = 1
_VERSION_BYTES = 2
_KNOWN_VERSIONS = frozenset(struct.pack(">h", version) for version in range(LATEST_VALUE_VERSION + 1))
_HINT = "to see the batch: tiersnap dump FILE; other transactional ids are not affected"
_NEWER = "a newer broker wrote this record: use a tiersnap that supports the version"


class TransactionStatus(StrEnum):
    """Kafka's TransactionState, in the order of its numbers 0 to 5. Brokers never write Dead and PrepareEpochFence."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @classmethod
    def of_number(cls, number: int) -> TransactionStatus:
        """Return the status with this number. Raises ValueError: no status has this number."""
        if not 0 <= number < len(cls):
            raise ValueError(f"{number} is not a valid TransactionStatus")
        return list(cls)[number]

    @property
    def is_prepared(self) -> bool:
        """Return whether the coordinator has decided to commit or abort, and has not yet written all markers."""
        return self in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)


@dataclass(frozen=True, slots=True)
class TransactionLogValue:
    """The state of a transactional id, as its coordinator stores it. Times are ms since the epoch."""

    value_version: int
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_state: TransactionStatus
    partitions: Annotated[
        tuple[TopicPartition, ...] | None,
        Meta(
            description="topic and partition number; null if the record stores null, which differs from an empty list"
        ),
    ]
    last_update_timestamp: int
    start_timestamp: Annotated[int, Meta(description="ms; -1 if there is no transaction")]
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    next_producer_epoch: int = -1
    unknown_tags: Annotated[
        dict[int, bytes], Meta(description="tagged fields of a later schema version, base64 by tag")
    ] = field(default_factory=dict)

    def has_partition(self, partition: TopicPartition) -> bool:
        """Return whether the coordinator counts the partition as part of the transaction; False in state Empty."""
        return self.transaction_state is not TransactionStatus.EMPTY and partition in (self.partitions or ())


_TAGS = (
    ("previous_producer_id", ">q"),
    ("next_producer_id", ">q"),
    ("client_transaction_version", ">h"),
    ("next_producer_epoch", ">h"),
)


def decode_key(key: bytes | None) -> str:
    """Return the transactional id of a key.

    Raises:
        UnknownVersionError: the key's version is not 0. Brokers skip such a record.
        CorruptTransactionStateError: the key is missing, or does not follow its schema.
    """
    if key is None:
        raise CorruptTransactionStateError("the record has no key", hint=_HINT)
    return _decoded(key, "key", _key)


def decode_value(value: bytes) -> TransactionLogValue:
    """Return the state in a value.

    Raises:
        UnknownVersionError: the version is not 0 or 1. Brokers from 4.3 on skip such a record; older brokers stop
            loading the partition of `__transaction_state` at this record.
        CorruptTransactionStateError: the value does not follow its schema, or has a status that brokers never write.
    """
    return _decoded(value, "value", _value)


def has_known_version(value: bytes | None) -> bool:
    """Return whether tiersnap can decode this version of a value.

    Return True for tombstones and values without a version.
    """
    return value is None or len(value) < _VERSION_BYTES or value[:_VERSION_BYTES] in _KNOWN_VERSIONS


def _decoded(data: bytes, what: str, decode: Callable[[FlexibleReader], _T]) -> _T:
    reader = FlexibleReader(data)
    try:
        decoded = decode(reader)
        reader.ensure_end()
    except (ValueError, struct.error) as error:
        raise CorruptTransactionStateError(f"{what}: {error}", hint=_HINT) from error
    return decoded


def _key(reader: FlexibleReader) -> str:
    (version,) = reader.take(">h")
    if version != KEY_VERSION:
        raise UnknownVersionError(f"the version of the key is {version}, expected {KEY_VERSION}", hint=_NEWER)
    return _string(reader)


def _value(reader: FlexibleReader) -> TransactionLogValue:
    (version,) = reader.take(">h")
    if not 0 <= version <= LATEST_VALUE_VERSION:
        raise UnknownVersionError(
            f"the version of the value is {version}, expected 0 to {LATEST_VALUE_VERSION}", hint=_NEWER
        )
    is_flexible = version > 0
    producer_id, epoch, timeout, status = reader.take(">qhib")
    partitions = _compact_partitions(reader) if is_flexible else _partitions(reader)
    last_update, start = reader.take(">qq")
    tags = reader.tags() if is_flexible else {}
    known: dict[str, int] = {}
    for tag, (name, layout) in enumerate(_TAGS):
        if tag in tags:
            (known[name],) = struct.unpack(layout, tags.pop(tag))
    return TransactionLogValue(
        version,
        producer_id,
        epoch,
        timeout,
        TransactionStatus.of_number(status),
        partitions,
        last_update,
        start,
        unknown_tags=tags,
        **known,
    )


def _partitions(reader: FlexibleReader) -> tuple[TopicPartition, ...] | None:
    (count,) = reader.take(">i")
    if count < 0:
        return None
    found: list[TopicPartition] = []
    for _ in range(count):
        topic = _string(reader)
        (partitions,) = reader.take(">i")
        found += [(topic, partition) for partition in _int32s(reader, partitions)]
    return tuple(found)


def _compact_partitions(reader: FlexibleReader) -> tuple[TopicPartition, ...] | None:
    count = reader.compact_length()
    if count is None:
        return None
    found: list[TopicPartition] = []
    for _ in range(count):
        topic = _required(reader.compact_bytes(), "topic").decode("utf-8")
        partitions = _required(reader.compact_length(), "list of partition ids")
        found += [(topic, partition) for partition in _int32s(reader, partitions)]
        reader.tags()
    return tuple(found)


def _int32s(reader: FlexibleReader, count: int) -> tuple[int, ...]:
    return struct.unpack(f">{count}i", reader.raw(4 * count))


def _string(reader: FlexibleReader) -> str:
    (length,) = reader.take(">h")
    return reader.raw(length).decode("utf-8")


def _required(found: _T | None, what: str) -> _T:
    if found is None:
        raise ValueError(f"{what} is null")
    return found
