"""Records of `__transaction_state` as a coordinator writes them, byte by byte: shares no code with `snapshot`.

Fields are taken as given, so that a test can write what no broker would.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.reference import log_builder as lb

TOPIC = "__transaction_state"
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


def key(transactional_id: str, *, version: int = 0) -> bytes:
    text = transactional_id.encode()
    return struct.pack(">hh", version, len(text)) + text


def value(
    producer_id: int = 4000,
    epoch: int = 0,
    *,
    timeout: int = 60_000,
    state: int = EMPTY,
    partitions: Sequence[tuple[str, Sequence[int]]] | None = None,
    updated: int = lb.TIMESTAMP,
    started: int = -1,
    version: int = 0,
    tags: Mapping[int, bytes] | None = None,
) -> bytes:
    """A value of version 0 or 1; `tags` by number, of version 1 only."""
    listed = _list_v0(partitions) if version == 0 else _list_v1(partitions)
    data = struct.pack(">hqhib", version, producer_id, epoch, timeout, state) + listed
    data += struct.pack(">qq", updated, started)
    return data if version == 0 else data + _tags(tags or {})


def _list_v0(partitions: Sequence[tuple[str, Sequence[int]]] | None) -> bytes:
    if partitions is None:
        return struct.pack(">i", -1)
    parts = [struct.pack(">i", len(partitions))]
    for topic, numbers in partitions:
        text = topic.encode()
        parts += [struct.pack(">h", len(text)), text, struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


def _list_v1(partitions: Sequence[tuple[str, Sequence[int]]] | None) -> bytes:
    if partitions is None:
        return b"\0"
    parts = [unsigned(len(partitions) + 1)]
    for topic, numbers in partitions:
        text = topic.encode()
        ids = struct.pack(f">{len(numbers)}i", *numbers)
        parts += [unsigned(len(text) + 1), text, unsigned(len(numbers) + 1), ids, b"\0"]
    return b"".join(parts)


def _tags(tags: Mapping[int, bytes]) -> bytes:
    ordered = sorted(tags.items())
    return unsigned(len(ordered)) + b"".join(unsigned(tag) + unsigned(len(data)) + data for tag, data in ordered)


def unsigned(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number % 128 + 128])
        number //= 128
    return data + bytes([number])


def batch(offset: int, *records: tuple[bytes | None, bytes | None], timestamp: int = lb.TIMESTAMP) -> bytes:
    """One batch of (key, value) records."""
    return lb.raw_batch(
        offset,
        last_offset_delta=len(records) - 1,
        record_count=len(records),
        records=b"".join(lb.record(number, 0, *each) for number, each in enumerate(records)),
        base_timestamp=timestamp,
        max_timestamp=timestamp,
    )


def write_states(log_dir: Path, partition: int, *records: tuple[bytes | None, bytes | None]) -> Path:
    """`__transaction_state-<partition>` with one batch a record; its folder."""
    batches = [batch(offset, record) for offset, record in enumerate(records)]
    return lb.write_partition(log_dir, TOPIC, partition, {0: batches})
