"""The records of a partition's folder as a consumer is given them, batch by batch and one field at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.reference.record_batch import Batch, Cursor, read_segment

_CONTROL, _APPEND_TIME, _HEADER = 0x20, 0x08, 61


class Consumed(NamedTuple):
    """A record; timestamp in ms."""

    offset: int
    timestamp: int
    is_append_time: bool
    key: bytes | None
    value: bytes | None


def records_from(folder: Path, offset: int) -> Iterator[Consumed]:
    """Yield uncompressed records from an offset on, without control records."""
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        for batch in read_segment(data).batches:
            if not batch.attributes & _CONTROL:
                whole = data[batch.position : batch.position + 12 + batch.batch_length]
                yield from (each for each in _records(batch, whole) if each.offset >= offset)


def _records(batch: Batch, whole: bytes) -> Iterator[Consumed]:
    cursor, is_append_time = Cursor(whole[_HEADER:]), bool(batch.attributes & _APPEND_TIME)
    for _ in range(batch.record_count):
        body = Cursor(cursor.take(cursor.varint()))
        body.take(1)
        timestamp, offset = batch.base_timestamp + body.varint(), batch.base_offset + body.varint()
        key, value = (body.take(size) if (size := body.varint()) >= 0 else None for _ in range(2))
        yield Consumed(offset, batch.max_timestamp if is_append_time else timestamp, is_append_time, key, value)
