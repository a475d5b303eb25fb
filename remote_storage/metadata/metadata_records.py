"""Encode and decode the records of `__remote_log_metadata`. They tell brokers which remote segments exist.

A record's key is null. Its value, all big-endian:

    frame version   unsigned varint, 1
    api key         unsigned varint: 0 segment, 1 segment update, 2 partition delete
    version         unsigned varint, 0
    message         in Kafka's flexible encoding; it is the last part of the value

    0 RemoteLogSegmentMetadataRecord          1 RemoteLogSegmentMetadataUpdateRecord
      segment id        see below               segment id        see below
      start offset      int64                   broker id         int32
      end offset        int64, inclusive        event timestamp   int64, ms
      broker id         int32                   custom metadata   compact nullable bytes
      max timestamp     int64, ms               state             int8
      event timestamp   int64, ms               tags
      leader epochs     compact array of      2 RemotePartitionDeleteMetadataRecord
        leader epoch    int32                   partition         see below
        start offset    int64                   broker id         int32
        tags                                    event timestamp   int64, ms
      segment size      int32, bytes            state             int8
      custom metadata   compact nullable bytes  tags
      state             int8, always 0
      tags              0: TxnIndexEmpty, one byte, left out if false (since Kafka 4.0)

    segment id: partition, segment id (16 bytes), tags
    partition:  topic (compact string), topic id (16 bytes), partition (int32), tags

A compact length is an unsigned varint of length + 1, or 0 for null. Tags are an unsigned varint count, and for each tag
its number and its size (unsigned varints) and its bytes. Unknown tags are skipped.

Follows org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde and the message
definitions in storage/src/main/resources/message.

The metadata partition for the records of a user partition (RemoteLogMetadataTopicPartitioner, Utils.murmur2) does not
depend on the topic's name:

    hash       = 31 * (31 * (31 + H(low 64 bits of the topic id)) + H(high 64 bits)) + partition, in 32 bits with
                 wrap-around, where H(v) is the low 32 bits of v ^ (v >>> 32): Java's hashCode of TopicIdPartition
    partition  = (murmur2 of the hash's 4 big-endian bytes, sign bit cleared) % partition count
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    uuid_text,
)
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch
from tiersnap.snapshot.formats.flexible_encoding import FlexibleReader, compact_bytes, compact_length, unsigned_varint

METADATA_TOPIC = "__remote_log_metadata"

_FRAME_VERSION, _MESSAGE_VERSION = 1, 0
_SEGMENT, _UPDATE, _PARTITION_DELETE = 0, 1, 2
_TXN_INDEX_EMPTY = 0
_NO_TAGS = b"\x00"


class CorruptMetadataRecordError(CorruptDataError):
    """Raised when a value is not a record of `__remote_log_metadata` that this version can decode."""


class PartitionDeleteState(IntEnum):
    """State of a partition whose topic is deleted. Brokers up to 4.3 never write it."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """The first record of a segment, with all metadata, in the state COPY_SEGMENT_STARTED."""

    metadata: RemoteLogSegmentMetadata
    custom_metadata: bytes | None = None  # opaque bytes of the storage plugin
    txn_index_empty: bool = False  # True if the segment has no transaction index; False means unknown


@dataclass(frozen=True, slots=True)
class SegmentUpdate:
    """A record that changes the state of a segment. Other metadata keeps its value. `event_timestamp` is in ms."""

    id: RemoteLogSegmentId
    broker_id: int
    event_timestamp: int
    state: SegmentState
    custom_metadata: bytes | None = None


@dataclass(frozen=True, slots=True)
class PartitionDelete:
    """A step in the deletion of all remote segments of a partition. `event_timestamp` is in ms."""

    partition: TopicIdPartition
    broker_id: int
    event_timestamp: int
    state: PartitionDeleteState


MetadataRecord = SegmentRecord | SegmentUpdate | PartitionDelete


def encode(record: MetadataRecord) -> bytes:
    """Return the value of a record, byte for byte as Kafka 4.3 encodes it.

    Raises:
        InvalidKeyError: a number does not fit its field, or a partition has no topic id.
    """
    try:
        if isinstance(record, SegmentRecord):
            return _frame(_SEGMENT) + _encode_segment(record)
        if isinstance(record, SegmentUpdate):
            return _frame(_UPDATE) + _encode_update(record)
        return _frame(_PARTITION_DELETE) + _encode_partition_delete(record)
    except struct.error as error:
        raise InvalidKeyError(f"{record}: a number does not fit its field: {error}") from error


def decode(value: bytes) -> MetadataRecord:
    """Return the record in a value.

    Raises:
        CorruptMetadataRecordError: the value has an unknown frame version, api key or message version, a text or state
            that Kafka does not allow, too few bytes, or too many.
    """
    reader = FlexibleReader(value)
    try:
        frame, api_key, version = reader.unsigned_varint(), reader.unsigned_varint(), reader.unsigned_varint()
        decoder = _DECODERS.get(api_key)
        if frame != _FRAME_VERSION or version != _MESSAGE_VERSION or decoder is None:
            raise CorruptMetadataRecordError(
                f"frame version {frame}, api key {api_key}, version {version}: this tiersnap cannot decode the record",
                hint="a newer Kafka wrote the record: use a newer tiersnap",
            )
        record = decoder(reader)
        reader.ensure_end()
    except (ValueError, InvalidKeyError) as error:
        raise CorruptMetadataRecordError(
            f"not a record of {METADATA_TOPIC}: {error}",
            hint="find the program that writes to the topic: only brokers and tiersnap should",
        ) from error
    return record


def _frame(api_key: int) -> bytes:
    return unsigned_varint(_FRAME_VERSION) + unsigned_varint(api_key) + unsigned_varint(_MESSAGE_VERSION)


def _encode_segment(record: SegmentRecord) -> bytes:
    metadata = record.metadata
    epochs = [struct.pack(">iq", epoch, start) + _NO_TAGS for epoch, start in metadata.segment_leader_epochs]
    times = (metadata.broker_id, metadata.max_timestamp, metadata.event_timestamp)
    tags = _NO_TAGS
    if record.txn_index_empty:
        tags = bytes((1, _TXN_INDEX_EMPTY, 1, 1))
    return b"".join(
        (
            _encode_id(metadata.id),
            struct.pack(">qqiqq", metadata.start_offset, metadata.end_offset, *times),
            compact_length(len(epochs)),
            *epochs,
            struct.pack(">i", metadata.segment_size),
            compact_bytes(record.custom_metadata),
            struct.pack(">b", metadata.state),
            tags,
        )
    )


def _decode_segment(reader: FlexibleReader) -> SegmentRecord:
    segment_id = _decode_id(reader)
    start_offset, end_offset, broker_id, max_timestamp, event_timestamp = reader.take(">qqiqq")
    epochs = []
    for _ in range(reader.compact_length() or 0):
        epoch, start = reader.take(">iq")
        epochs.append(LeaderEpoch(epoch, start))
        reader.tags()
    (size,) = reader.take(">i")
    custom_metadata = reader.compact_bytes()
    (state,) = reader.take(">b")
    txn_index_empty = reader.tags().get(_TXN_INDEX_EMPTY, b"\x00")
    metadata = RemoteLogSegmentMetadata(
        id=segment_id,
        start_offset=start_offset,
        end_offset=end_offset,
        broker_id=broker_id,
        max_timestamp=max_timestamp,
        event_timestamp=event_timestamp,
        segment_leader_epochs=tuple(epochs),
        segment_size=size,
        state=SegmentState(state),
    )
    return SegmentRecord(metadata, custom_metadata, txn_index_empty != b"\x00")


def _encode_update(record: SegmentUpdate) -> bytes:
    times = struct.pack(">iq", record.broker_id, record.event_timestamp)
    state = struct.pack(">b", record.state)
    return _encode_id(record.id) + times + compact_bytes(record.custom_metadata) + state + _NO_TAGS


def _decode_update(reader: FlexibleReader) -> SegmentUpdate:
    segment_id = _decode_id(reader)
    broker_id, event_timestamp = reader.take(">iq")
    custom_metadata = reader.compact_bytes()
    (state,) = reader.take(">b")
    reader.tags()
    return SegmentUpdate(segment_id, broker_id, event_timestamp, SegmentState(state), custom_metadata)


def _encode_partition_delete(record: PartitionDelete) -> bytes:
    numbers = struct.pack(">iqb", record.broker_id, record.event_timestamp, record.state)
    return _encode_partition(record.partition) + numbers + _NO_TAGS


def _decode_partition_delete(reader: FlexibleReader) -> PartitionDelete:
    partition = _decode_partition(reader)
    broker_id, event_timestamp, state = reader.take(">iqb")
    reader.tags()
    return PartitionDelete(partition, broker_id, event_timestamp, PartitionDeleteState(state))


def _encode_id(segment_id: RemoteLogSegmentId) -> bytes:
    return _encode_partition(segment_id.topic_id_partition) + uuid_bytes(segment_id.segment_id) + _NO_TAGS


def _decode_id(reader: FlexibleReader) -> RemoteLogSegmentId:
    partition = _decode_partition(reader)
    segment_id = uuid_text(reader.raw(16))
    reader.tags()
    return RemoteLogSegmentId.of(partition, segment_id)


def _encode_partition(partition: TopicIdPartition) -> bytes:
    if partition.topic_id is None:
        raise InvalidKeyError(f"{partition}: records of {METADATA_TOPIC} need a topic id, and the topic has none")
    topic = compact_bytes(partition.topic.encode("utf-8"))
    return topic + uuid_bytes(partition.topic_id) + struct.pack(">i", partition.partition) + _NO_TAGS


def _decode_partition(reader: FlexibleReader) -> TopicIdPartition:
    topic = reader.compact_bytes() or b""
    topic_id = uuid_text(reader.raw(16))
    (partition,) = reader.take(">i")
    reader.tags()
    return TopicIdPartition(topic.decode("utf-8"), topic_id, partition)


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a Kafka UUID, most significant first. `is_uuid` must accept `text`."""
    return base64.urlsafe_b64decode(text + "==")


_DECODERS: dict[int, Callable[[FlexibleReader], MetadataRecord]] = {
    _SEGMENT: _decode_segment,
    _UPDATE: _decode_update,
    _PARTITION_DELETE: _decode_partition_delete,
}


_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M, _R = 0x5BD1E995, 24


def metadata_partition(partition: TopicIdPartition, partition_count: int) -> int:
    """Return the number of the metadata partition with the records of `partition`, which must have a topic id."""
    assert partition.topic_id is not None
    hashed = murmur2(struct.pack(">I", hash_code(partition.topic_id, partition.partition)))
    return (hashed & 0x7FFFFFFF) % partition_count


def hash_code(topic_id: str, partition: int) -> int:
    """Return the hashCode of Java's TopicIdPartition, as unsigned 32 bits. `topic_id` has 22 characters."""
    high, low = struct.unpack(">QQ", uuid_bytes(topic_id))
    hashed = 31 + _fold(low)
    hashed = 31 * hashed + _fold(high)
    return (31 * hashed + partition) & _MASK


def _fold(number: int) -> int:
    return (number ^ number >> 32) & _MASK


def murmur2(data: bytes) -> int:
    """Return the murmur2 hash of Kafka's clients, as unsigned 32 bits."""
    hashed = _SEED ^ len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        k = word * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        hashed = hashed * _M & _MASK ^ k
    tail = data[whole:]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15
