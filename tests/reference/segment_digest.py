"""The digest of a segment's headers in plain Python, from the description in `kernels.digest`."""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_START, _POSITION, _CHAIN = 0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x9E3779B97F4A7C15
_CONSTANTS = (
    0x3C6EF372FE94F82B,
    0xA54FF53A5F1D36F1,
    0x510E527FADE682D1,
    0x9B05688C2B3E6C1F,
    0x1F83D9ABFB41BD6B,
    0x5BE0CD19137E2179,
    0xCBBB9D5DC1059ED9,
    0x629A292A367CD507,
)
_BATCH_WORDS = (0, 8, 16, 24, 32, 40, 48, 53)
_LEGACY_WORDS = (0, 8, 16, 18)


def _rotated(x: int, left: int) -> int:
    return ((x << left) | (x >> (64 - left))) & _MASK


def digest(segment: bytes) -> str:
    """Of whole entries of any magic, 16 hexadecimal digits."""
    found, position = _START, 0
    while position < len(segment):
        words = _BATCH_WORDS if segment[position + 16] == 2 else _LEGACY_WORDS
        entry = position * _POSITION
        for i, at in enumerate(words):
            (word,) = struct.unpack_from("<Q", segment, position + at)
            entry += _rotated(word * _CONSTANTS[i] & _MASK, 8 * i)
        found = _rotated((found ^ (entry & _MASK)) * _CHAIN & _MASK, 29)
        position += 12 + struct.unpack_from(">i", segment, position + 8)[0]
    return f"{found:016x}"
