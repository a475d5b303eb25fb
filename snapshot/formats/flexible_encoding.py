"""Encode and decode Kafka's flexible messages (KIP-482): compact strings, arrays and bytes, and tagged fields.

    unsigned varint   7 bits a byte, the lowest first; bit 7 is set if another byte follows; at most 5 bytes
    compact length    unsigned varint of length + 1; 0 is null
    tags              unsigned varint count; then for each field, ascending by tag: unsigned varint tag, unsigned
                      varint size, the bytes

Follows org.apache.kafka.common.protocol.ByteBufferAccessor and org.apache.kafka.common.utils.ByteUtils.
"""

from __future__ import annotations

import struct

from tiersnap.snapshot.units import count_of

_MAX_SHIFT = 28


def unsigned_varint(number: int) -> bytes:
    """Return the unsigned varint of `number`, 0 .. 2^32 - 1."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def compact_length(length: int | None) -> bytes:
    """Return the compact encoding of a length; None encodes null."""
    if length is None:
        return unsigned_varint(0)
    return unsigned_varint(length + 1)


def compact_bytes(data: bytes | None) -> bytes:
    """Return the compact encoding of bytes, or of a string's UTF-8: compact length, then bytes. None encodes null."""
    if data is None:
        return compact_length(None)
    return compact_length(len(data)) + data


class FlexibleReader:
    """A cursor over a message. Every method raises ValueError if the message ends early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, layout: str) -> tuple[int, ...]:
        """Return the next fields, unpacked with a layout of the module struct."""
        return struct.unpack(layout, self.raw(struct.calcsize(layout)))

    def raw(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self._position + count
        if count < 0:
            raise ValueError(f"length before byte {self._position} is {count}")
        if end > len(self._data):
            expected = f"expected {count_of(count, 'byte')} from byte {self._position} on"
            raise ValueError(f"message ends at byte {len(self._data)}, {expected}")
        data = self._data[self._position : end]
        self._position = end
        return data

    def unsigned_varint(self) -> int:
        """Return the next unsigned varint, 0 .. 2^32 - 1."""
        number = 0
        for shift in range(0, _MAX_SHIFT + 7, 7):
            byte = self.raw(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError(f"varint before byte {self._position} has more than 5 bytes")

    def compact_length(self) -> int | None:
        """Return the next compact length, or None for null."""
        coded = self.unsigned_varint()
        return coded - 1 if coded else None

    def compact_bytes(self) -> bytes | None:
        """Return the next bytes, whose compact length precedes them, or None for null."""
        length = self.compact_length()
        return None if length is None else self.raw(length)

    def tags(self) -> dict[int, bytes]:
        """Return the next tagged fields: their bytes by tag."""
        fields = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            fields[tag] = self.raw(self.unsigned_varint())
        return fields

    def ensure_end(self) -> None:
        """Raise ValueError if bytes follow the part that was read."""
        if self._position != len(self._data):
            raise ValueError(
                f"{count_of(len(self._data) - self._position, 'byte follows', 'bytes follow')} the end of the message"
            )
