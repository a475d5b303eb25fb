"""The digest of a segment's headers in plain Python, from the description in `kernels.digest`."""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_START, _CHAIN = 0x6A09E667F3BCC908, 0x9E3779B97F4A7C15
_CONSTANTS = (0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1, 0x510E527FADE682D1, 0x9B05688C2B3E6C1F)


def _rotated(x: int, left: int) -> int:
    x &= _MASK
    return ((x << left) | (x >> (64 - left))) & _MASK


def _number(entry: bytes, position: int) -> int:
    def word(at: int) -> int:
        return struct.unpack_from("<Q", entry, at)[0]

    rest = 0
    turned = zip((24, 32, 40, 48, 53), (0, 13, 27, 41, 53), strict=True) if entry[16] == 2 else [(18, 0)]
    for at, left in turned:
        rest ^= _rotated(word(at), left)
    parts = zip((word(0), word(8), word(16), rest), _CONSTANTS, (0, 21, 42, 0), strict=True)
    return sum(_rotated(part * constant, left) for part, constant, left in parts) + position & _MASK


def digest(segment: bytes) -> str:
    """Of whole entries of any magic, 16 hexadecimal digits."""
    found, position = _START, 0
    while position < len(segment):
        entry = segment[position : position + 12 + struct.unpack_from(">i", segment, position + 8)[0]]
        found = _rotated((found ^ _number(entry, position)) * _CHAIN, 29)
        position += len(entry)
    return f"{found:016x}"
