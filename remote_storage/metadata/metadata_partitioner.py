"""Map a user partition to its partition of `__remote_log_metadata`.

    hash       = 31 * (31 * (31 + H(low 64 bits of the topic id)) + H(high 64 bits)) + partition, in 32 bits with
                 wrap-around, where H(v) is the low 32 bits of v ^ (v >>> 32): Java's hashCode of TopicIdPartition
    partition  = (murmur2 of the hash's 4 big-endian bytes, sign bit cleared) % partition count

Follows org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner and
org.apache.kafka.common.utils.Utils.murmur2. The name of the topic is no part of it.
"""

from __future__ import annotations

import struct

from tiersnap.remote_storage.metadata.metadata_records import uuid_bytes
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M, _R = 0x5BD1E995, 24


def metadata_partition(partition: TopicIdPartition, partition_count: int) -> int:
    """The partition, 0 .. partition_count - 1; `partition` must have a topic id."""
    assert partition.topic_id is not None
    hashed = murmur2(struct.pack(">I", hash_code(partition.topic_id, partition.partition)))
    return (hashed & 0x7FFFFFFF) % partition_count


def hash_code(topic_id: str, partition: int) -> int:
    """Java's hash of a topic id (22 characters) and a partition number, as unsigned 32 bits."""
    high, low = struct.unpack(">QQ", uuid_bytes(topic_id))
    hashed = 31 + _fold(low)
    hashed = 31 * hashed + _fold(high)
    return (31 * hashed + partition) & _MASK


def _fold(number: int) -> int:
    return (number ^ number >> 32) & _MASK


def murmur2(data: bytes) -> int:
    """Kafka's client murmur2, as unsigned 32 bits."""
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
