"""Kafka's flexible message encoding (KIP-482): compact strings, arrays and bytes, and tagged fields.

    unsigned varint   7 bits a byte, the lowest first; bit 7 is set if another byte follows; at most 5 bytes
    compact length    unsigned varint of length + 1; 0 is null
    tags              unsigned varint count; each an unsigned varint tag (ascending), an unsigned varint size, the bytes

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
    """Return the compact encoding of a length; None for null."""
    return unsigned_varint(0 if length is None else length + 1)


def compact_bytes(data: bytes | None) -> bytes:
    """Return bytes, or a string's UTF-8, after their compact length; None for null."""
    return compact_length(None if data is None else len(data)) + (data or b"")


class FlexibleReader:
    """A cursor over a message; every method raises ValueError if the message ends early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, layout: str) -> tuple[int, ...]:
        """Return the fields of a struct layout."""
        return struct.unpack(layout, self.raw(struct.calcsize(layout)))

    def raw(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self._position + count
        if count < 0:
            raise ValueError(f"a length of {count} before byte {self._position}")
        if end > len(self._data):
            raise ValueError(
                f"ends at byte {len(self._data)}, {count_of(count, 'byte')} more to come from byte {self._position}"
            )
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
        raise ValueError(f"a varint of more than 5 bytes before byte {self._position}")

    def compact_length(self) -> int | None:
        """Return the next compact length; None for null."""
        coded = self.unsigned_varint()
        return coded - 1 if coded else None

    def compact_bytes(self) -> bytes | None:
        """Return the next bytes, which follow their compact length; None for null."""
        length = self.compact_length()
        return None if length is None else self.raw(length)

    def tags(self) -> dict[int, bytes]:
        """Return the content of the tagged fields by tag."""
        fields = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            fields[tag] = self.raw(self.unsigned_varint())
        return fields

    def ensure_end(self) -> None:
        """Raise ValueError unless the whole message was read."""
        if self._position != len(self._data):
            raise ValueError(
                f"{count_of(len(self._data) - self._position, 'byte follows', 'bytes follow')} the message"
            )
