"""Parse and write the text files of a log directory.

The offset checkpoints (recovery-point-offset-checkpoint, replication-offset-checkpoint, log-start-offset-checkpoint,
cleaner-offset-checkpoint) and leader-epoch-checkpoint are UTF-8 text:

    0                             version
    <entry count>
    <topic> <partition> <offset>  one line an entry; leader epochs: <epoch> <start offset>

partition.metadata:

    version: 0
    topic_id: <22 characters base64url of the 16 bytes, no padding>

Follows org.apache.kafka.server.common.CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile and
PartitionMetadataFile. A wrong version, entry count or number of fields is an error. An empty file has no entries.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.rows import Int32
from tiersnap.snapshot.units import count_of

_VERSION = "0"
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ZERO_TOPIC_ID = "A" * 22
# At most the 19 digits of a Java long. int() would accept underscores and the digits of other scripts.
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_SHOWN = 40

TopicPartition = tuple[str, int]


class LeaderEpoch(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: Int32
    start_offset: int


LeaderEpochs = tuple[LeaderEpoch, ...]


def _entries(text: str, fields: int, name: str) -> list[list[str]]:
    lines = text.splitlines()
    if not lines:
        return []
    if lines[0].strip() != _VERSION:
        raise CorruptCheckpointError(f"{name}: line 1 is {lines[0][:_SHOWN]!r}, expected the version {_VERSION}")
    count = lines[1].strip() if len(lines) > 1 else ""
    if not _NUMBER.fullmatch(count) or int(count) < 0:
        raise CorruptCheckpointError(f"{name}: line 2 is {count[:_SHOWN]!r}, expected the number of entries")
    rows = [line.split() for line in lines[2:] if line.strip()]
    for number, row in enumerate(rows, 3):
        if len(row) != fields:
            raise CorruptCheckpointError(f"{name}: line {number} has {len(row)} fields, expected {fields}")
    if len(rows) != int(count):
        raise CorruptCheckpointError(
            f"{name}: the file has {count_of(len(rows), 'entry', 'entries')}, but line 2 announces {count}"
        )
    return rows


def _integer(value: str, name: str, *, bits: int = 64) -> int:
    if not _NUMBER.fullmatch(value):
        raise CorruptCheckpointError(f"{name}: {value[:_SHOWN]!r} is not a number")
    number = int(value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise CorruptCheckpointError(f"{name}: {value} does not fit into {bits} bits")
    return number


def parse_offsets(text: str, *, name: str) -> dict[TopicPartition, int]:
    """Return the offsets of an offset checkpoint by (topic, partition).

    Raises:
        CorruptCheckpointError: the text does not follow the format.
    """
    rows = _entries(text, 3, name)
    return {(topic, _integer(partition, name)): _integer(offset, name) for topic, partition, offset in rows}


def format_offsets(offsets: dict[TopicPartition, int]) -> str:
    """Return the text of an offset checkpoint. This is the inverse of `parse_offsets`."""
    return _text([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def parse_leader_epochs(text: str, *, name: str) -> LeaderEpochs:
    """Return the (epoch, start offset) pairs of a leader-epoch-checkpoint.

    Epochs ascend, and start offsets do not descend.

    Raises:
        CorruptCheckpointError: the text does not follow the format, an epoch or offset is negative, epochs do not
            ascend, or start offsets descend.
    """
    entries = _entries(text, 2, name)
    epochs = tuple(LeaderEpoch(_integer(epoch, name, bits=32), _integer(start, name)) for epoch, start in entries)
    for entry in epochs:
        if min(entry) < 0:
            raise CorruptCheckpointError(f"{name}: the entry {tuple(entry)} has a negative epoch or offset")
    for before, after in pairwise(epochs):
        if after[0] <= before[0] or after[1] < before[1]:
            raise CorruptCheckpointError(
                f"{name}: entry {tuple(after)} comes after {tuple(before)}, but epochs and offsets must ascend"
            )
    return epochs


def format_leader_epochs(epochs: Iterable[tuple[int, int]]) -> str:
    """Return the text of a leader-epoch-checkpoint. The LEADER_EPOCH index of a remote segment has the same format."""
    return _text([f"{epoch} {start}" for epoch, start in epochs])


def _text(lines: list[str]) -> str:
    return "\n".join((_VERSION, str(len(lines)), *lines, ""))


def parse_topic_id(text: str, *, name: str) -> str:
    """Return the topic id of a partition.metadata file, 22 characters.

    Raises:
        CorruptCheckpointError: the version is missing or negative, or the topic id is missing or invalid (see
            `is_topic_id`).
    """
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if _integer(fields.get("version", "-1").strip(), name) < 0:
        raise CorruptCheckpointError(f"{name}: no `version: 0` line")
    topic_id = fields.get("topic_id", "").strip()
    if not is_topic_id(topic_id):
        raise CorruptCheckpointError(f"{name}: topic_id is {topic_id[:_SHOWN]!r}, but a topic id has 22 characters")
    return topic_id


def format_topic_id(topic_id: str) -> str:
    """Return the text of a partition.metadata file. This is the inverse of `parse_topic_id`."""
    return f"version: 0\ntopic_id: {topic_id}"


def is_topic_name(text: str) -> bool:
    """Return whether Kafka accepts `text` as the name of a topic (Topic.validate)."""
    return _TOPIC_NAME.fullmatch(text) is not None and text not in {".", ".."}


def is_topic_id(text: str) -> bool:
    """Return whether `text` is a nonzero Kafka UUID: 16 bytes in canonical base64url without padding."""
    if len(text) != 22 or text == _ZERO_TOPIC_ID:
        return False
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return False
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") == text
