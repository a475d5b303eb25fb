"""The record batch format read one field at a time: slow, plain, and the answer that the fast decoder must give.

Reads as org.apache.kafka.common.record.FileLogInputStream does and stops where segment recovery would cut the file.
Shares nothing with `tiersnap.snapshot.formats.record_batch` but the names of the columns.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass

from tests.reference.crc32c import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")


@dataclass(frozen=True)
class Batch:
    """One v2 batch; the fields are those of RECORD_BATCH_DTYPE, in its order."""

    position: int
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    control_type: int
    coordinator_epoch: int
    control_timestamp: int


@dataclass(frozen=True)
class Segment:
    """What a segment holds.

    `why` is "end", "partial", "zeros", or what is wrong at byte `valid_bytes`: "size", "magic", "crc", "offset",
    "control".
    """

    batches: list[Batch]
    legacy_count: int
    valid_bytes: int
    last_offset: int
    why: str

    def rows(self) -> list[tuple[int, ...]]:
        """The batches as plain tuples."""
        return [tuple(vars(batch).values()) for batch in self.batches]


_LARGEST_OFFSET = 2**63 - 1


class _MalformedError(Exception):
    pass


def read_segment(data: bytes, last_offset: int = -1) -> Segment:
    """Read a segment file; `last_offset` is that of the segment before."""
    batches: list[Batch] = []
    legacy_count = position = 0

    def stop(why: str) -> Segment:
        return Segment(batches, legacy_count, position, last_offset, why)

    view = memoryview(data)
    while True:
        left = view[position:]
        if len(left) == 0:
            return stop("end")
        if len(left) < 18:
            return stop("partial")
        offset, length = struct.unpack_from(">qi", left)
        magic = struct.unpack_from(">b", left, 16)[0]
        if length == 0 and offset == 0:
            return stop("zeros")
        if length < 14:
            return stop("size")
        if not 0 <= magic <= 2:
            return stop("magic")
        if magic == 2 and length < 49:
            return stop("size")
        if len(left) < 12 + length:
            return stop("partial")
        entry = left[: 12 + length]
        if magic < 2:
            if zlib.crc32(entry[16:]) != struct.unpack_from(">I", entry, 12)[0]:
                return stop("crc")
            if offset <= last_offset or offset == _LARGEST_OFFSET:
                return stop("offset")
            legacy_count += 1
            last_offset = offset
        else:
            fields = _HEADER.unpack_from(entry)
            if crc32c(entry[21:]) != fields[4]:
                return stop("crc")
            if offset <= last_offset or fields[6] < 0 or offset + fields[6] >= _LARGEST_OFFSET:
                return stop("offset")
            try:
                control = _control(entry, *fields[5:10], record_count=fields[12])
            except _MalformedError:
                return stop("control")
            batches.append(Batch(position, *fields, *control))
            last_offset = offset + fields[6]
        position += len(entry)


def _control(
    entry: memoryview,
    attributes: int,
    _delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    *,
    record_count: int,
) -> tuple[int, int, int]:
    """Type, coordinator epoch and timestamp of a control batch's first record, -1 each for anything else."""
    if not attributes & 0x20 or record_count == 0:
        return -1, -1, -1
    if record_count < 0:
        raise _MalformedError("DefaultRecordBatch.RecordIterator throws InvalidRecordException")
    record = Cursor(_decompressed(attributes & 0x07, bytes(entry[61:])))
    record = Cursor(record.take(record.varint(), at_least=1))
    record.take(1)
    timestamp = max_timestamp if attributes & 0x08 else base_timestamp + record.varint()
    if attributes & 0x08:
        record.varint()
    record.varint()
    version, control_type = struct.unpack_from(">hh", record.take(record.varint(), at_least=4))
    if version < 0 or control_type < 0:
        raise _MalformedError("negative")
    value_length = record.varint()
    if control_type > 1:
        if producer_id >= 0:
            raise _MalformedError("a producer writes only ABORT and COMMIT")
        return control_type, -1, timestamp
    version, coordinator_epoch = struct.unpack_from(">hi", record.take(value_length, at_least=6))
    if version < 0:
        raise _MalformedError("negative")
    return control_type, coordinator_epoch, timestamp


def _decompressed(codec: int, data: bytes) -> bytes:
    try:
        return {0: bytes, 1: gzip.decompress}[codec](data)
    except (KeyError, OSError, EOFError, zlib.error) as error:
        raise _MalformedError("another codec, or damaged") from error


class Cursor:
    """Reads through bytes from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int, at_least: int = 0) -> bytes:
        """The next `length` bytes."""
        if length < at_least or self._at + length > len(self._data):
            raise _MalformedError("too short")
        self._at += length
        return self._data[self._at - length : self._at]

    def varint(self) -> int:
        """The next zig-zag varint, 64 bits."""
        raw = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                raw &= (1 << 64) - 1
                return (raw >> 1) ^ -(raw & 1)
        raise _MalformedError("a varint has at most 10 bytes")
