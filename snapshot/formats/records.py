"""The records inside a batch of magic 2, decompressed.

    varint length         bytes after this field
    int8   attributes
    varint timestampDelta ms, to the batch's base timestamp
    varint offsetDelta    to the batch's base offset
    varint key length     -1 = null; the key
    varint value length   -1 = null; the value
    varint header count   the headers, not decoded here

Varints are zig-zag. Follows org.apache.kafka.common.record.DefaultRecord. Only records of Kafka's own topics are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tiersnap.snapshot.errors import CorruptRecordError

_HINT = "tiersnap dump FILE shows the batch; another replica may hold a good one"


class Record(NamedTuple):
    """A record; deltas as above."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None


def read_records(data: bytes, count: int) -> Iterator[Record]:
    """The `count` records in `data`, in order.

    Raises:
        CorruptRecordError: fewer, or bytes that are none.
    """
    position = 0
    for number in range(count):
        try:
            record, position = _record(data, position)
        except ValueError as error:
            raise CorruptRecordError(f"record {number + 1} of {count}: {error}", hint=_HINT) from error
        yield record
    if position != len(data):
        raise CorruptRecordError(f"{len(data) - position} bytes follow the {count} records", hint=_HINT)


def _record(data: bytes, start: int) -> tuple[Record, int]:
    """The record at `start`, and the position behind it."""
    length, start = _varint(data, start, len(data))
    end = start + length
    if length < 0 or end > len(data):
        raise ValueError(f"{length} bytes, {len(data) - start} are left")
    timestamp_delta, position = _varint(data, start + 1, end)
    offset_delta, position = _varint(data, position, end)
    key, position = _nullable(data, position, end)
    value, position = _nullable(data, position, end)
    return Record(timestamp_delta, offset_delta, key, value), end


def _nullable(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _varint(data, position, end)
    if length < 0:
        return None, position
    if position + length > end:
        raise ValueError(f"a key or value of {length} bytes, {end - position} are left")
    return data[position : position + length], position + length


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A zig-zag varint of at most 64 bits, and the position behind it."""
    raw = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise ValueError("ends inside a number")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
    raise ValueError("a number of more than 10 bytes")
