"""Encode record values as one batch of magic 2, uncompressed and without a producer id.

All records have the same timestamp, no key and no headers. The modules record_batch and records describe the layout.
Follows org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.formats.flexible_encoding import unsigned_varint
from tiersnap.snapshot.formats.record_batch import CRC_START, HEADER_LENGTH, LOG_OVERHEAD

_MAGIC, _NONE = 2, -1
_BEFORE_CRC = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")


def encode_batch(values: Sequence[bytes], *, base_offset: int, leader_epoch: int, timestamp: int) -> bytes:
    """Return a batch with one record for each value. At least one value is required; `timestamp` is in ms."""
    records = b"".join(_record(delta, value) for delta, value in enumerate(values))
    last = len(values) - 1
    covered = _COVERED.pack(0, last, timestamp, timestamp, _NONE, _NONE, _NONE, len(values)) + records
    length = HEADER_LENGTH - LOG_OVERHEAD + len(records)
    before = _BEFORE_CRC.pack(base_offset, length, leader_epoch, _MAGIC, crc32c(covered))
    assert len(before) == CRC_START
    return before + covered


def _record(offset_delta: int, value: bytes) -> bytes:
    no_key = _varint(_NONE)
    body = b"\0" + _varint(0) + _varint(offset_delta) + no_key + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """Return the zig-zag varint of a 32-bit number."""
    return unsigned_varint((number << 1) ^ (number >> 31))
