"""Decode the records of `__cluster_metadata` that create and remove topics, to find topic ids.

A record's value has these fields in this order, as in `__remote_log_metadata`. All numbers are big-endian:

    frame version   unsigned varint, 1
    api key         unsigned varint: 2 TopicRecord, 9 RemoveTopicRecord; other records have no topic id
    version         unsigned varint, 0
    message         in Kafka's flexible encoding

    2 TopicRecord                     9 RemoveTopicRecord
      name       compact string         topic id   16 bytes
      topic id   16 bytes               tags
      tags

Follows TopicRecord.json and RemoveTopicRecord.json of Kafka's metadata, and AbstractApiMessageSerde.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from tiersnap.snapshot.errors import CorruptRecordError
from tiersnap.snapshot.formats.flexible_encoding import FlexibleReader

_FRAME_VERSION, _MESSAGE_VERSION = 1, 0
_TOPIC, _REMOVE_TOPIC = 2, 9
_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The creation or removal of a topic."""

    topic_id: str  # 22 characters
    name: str | None  # None for a removal: RemoveTopicRecord has no name


def decode_topic_change(value: bytes) -> TopicChange | None:
    """Return the creation or removal of a topic; None for a record of another kind.

    Raises:
        CorruptRecordError: the record does not follow its schema, or has an unknown version.
    """
    reader = FlexibleReader(value)
    try:
        frame, api_key, version = (reader.unsigned_varint() for _ in range(3))
        if frame != _FRAME_VERSION:
            raise CorruptRecordError(f"frame version {frame}, expected {_FRAME_VERSION}")
        if api_key not in (_TOPIC, _REMOVE_TOPIC):
            return None
        if version != _MESSAGE_VERSION:
            raise CorruptRecordError(f"api key {api_key}: version {version}, expected {_MESSAGE_VERSION}")
        name = (reader.compact_bytes() or b"").decode("utf-8") if api_key == _TOPIC else None
        topic_id = base64.urlsafe_b64encode(reader.raw(_ID_BYTES)).rstrip(b"=").decode("ascii")
        reader.tags()
        reader.ensure_end()
    except ValueError as error:
        raise CorruptRecordError(f"topic record: {error}") from error
    return TopicChange(topic_id, name)
