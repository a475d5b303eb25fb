"""Compiled checksums: CRC-32C of a batch, CRC-32 of an entry of magic 0 or 1, and a digest over all headers.

`checksum` calls a function of the C library inside google-crc32c. `google_crc32c.value` is not used: it accepts only
`bytes`, so each batch would be copied. If the installed wheel lacks the library, `checksum` is `checksum_by_table`.

The digest identifies the content of a segment in 64 bits; it is no cryptographic hash. A header contains the CRC of its
payload. So a changed payload changes the digest, although payloads are not read. The digest chains one number per
entry, made from the 8-byte words of its header:

    words    the little-endian words at bytes 0, 8 and 16 of the entry: offset, length, leader epoch, magic and CRC
    rest     magic 2: the xor of the words at bytes 24, 32, 40, 48 and 53, rotated left by 0, 13, 27, 41 and 53; these
             words are the remaining bytes of the 61-byte header
             magic 0 and 1: the word at byte 18, the end of the 26 bytes that every such entry has
    entry    word0 * K0 + rotl(word1 * K1, 21) + rotl(word2 * K2, 42) + rest * K3 + position of the entry in the segment
    digest   rotl((digest ^ entry) * CHAIN, 29); the first digest is START

All operations are modulo 2 ** 64. If one input of a step changes and the others do not, the result of the step changes.
So a change of one word always changes the digest. A batch takes about twenty instructions, so the digest costs little
even for small batches.
"""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import llvmlite.binding as llvm
import numpy as np

from tiersnap.snapshot.kernels.memory import address_of, crc32c_extend, prefetch, read_word
from tiersnap.snapshot.kernels.native import IS_COMPILED, inlined, kernel, part

_POLYNOMIAL = 0x82F63B78
_LEGACY_POLYNOMIAL = 0xEDB88320  # the CRC-32 of zlib


def _make_table(polynomial: int) -> np.ndarray:
    table = np.zeros(256, np.uint32)
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (polynomial if remainder & 1 else 0)
        table[byte] = remainder
    return table


_TABLE = _make_table(_POLYNOMIAL)
_LEGACY_TABLE = _make_table(_LEGACY_POLYNOMIAL)


@kernel(np.uint8, int, int, returns=1)
def checksum_by_table(buffer: np.ndarray, start: int, length: int) -> int:
    """Return the CRC-32C of `buffer[start:start + length]` (uint8), computed byte by byte with a table."""
    crc = np.uint32(0xFFFFFFFF)
    for position in range(start, start + length):
        crc = (crc >> np.uint32(8)) ^ _TABLE[(crc ^ np.uint32(buffer[position])) & np.uint32(0xFF)]
    return crc ^ np.uint32(0xFFFFFFFF)


@part
def legacy_checksum(buffer, start, length):
    """Return the CRC-32 (IEEE) of `buffer[start:start + length]` (uint8)."""
    crc = np.uint32(0xFFFFFFFF)
    for position in range(start, start + length):
        crc = (crc >> np.uint32(8)) ^ _LEGACY_TABLE[(crc ^ np.uint32(buffer[position])) & np.uint32(0xFF)]
    return crc ^ np.uint32(0xFFFFFFFF)


# From an aligned address, the library processes steps of three streams of 336 bytes, and waits for memory between
# steps. A prefetch one page ahead lets computation and memory access overlap.
_STEP = np.uintp(3 * 336 + 8)
_AHEAD = np.uintp(4096)
_CACHE_LINE = 64


@kernel(np.uint8, int, int, returns=1, inline=True)
def checksum_by_library(buffer: np.ndarray, start: int, length: int) -> int:
    """Return the CRC-32C of `buffer[start:start + length]` (uint8), computed by the C library of google-crc32c."""
    address = address_of(buffer, start)
    end = address + np.uintp(length)
    crc = np.uint32(0)
    while address < end:
        piece = min(_STEP - (address & np.uintp(7)), end - address)
        for line in range(0, piece, _CACHE_LINE):
            prefetch(address + _AHEAD + np.uintp(line))
        crc = crc32c_extend(crc, address, piece)
        address += piece
    return crc


def _load_library() -> bool:
    package = Path(google_crc32c.__file__).parent
    for folder in (package.parent / "google_crc32c.libs", package / ".dylibs"):
        for library in folder.glob("libcrc32c*"):
            llvm.load_library_permanently(str(library))
            return True
    return False


HAS_LIBRARY = IS_COMPILED and _load_library()
checksum = checksum_by_library if HAS_LIBRARY else checksum_by_table


# Arbitrary odd numbers: fractional parts of square roots of small primes, and of the golden ratio.
START = np.uint64(0x6A09E667F3BCC908)
_K0 = np.uint64(0x3C6EF372FE94F82B)
_K1 = np.uint64(0xA54FF53A5F1D36F1)
_K2 = np.uint64(0x510E527FADE682D1)
_K3 = np.uint64(0x9B05688C2B3E6C1F)
_CHAIN = np.uint64(0x9E3779B97F4A7C15)
_WORD = np.uint64(64)


@inlined
def _rotated(x, left):
    return (x << np.uint64(left)) | (x >> (_WORD - np.uint64(left)))


@inlined
def _continued(digest, b, p, rest, position):
    entry = read_word(b, p) * _K0 + rest * _K3
    entry += _rotated(read_word(b, p + 8) * _K1, 21) + _rotated(read_word(b, p + 16) * _K2, 42)
    return _rotated((digest ^ (entry + np.uint64(position))) * _CHAIN, 29)


@inlined
def add_batch(digest, b, p, position):
    """Return the digest (uint64) after the batch of magic 2 at `b[p]`, which is byte `position` of the segment."""
    rest = read_word(b, p + 24) ^ _rotated(read_word(b, p + 32), 13) ^ _rotated(read_word(b, p + 40), 27)
    rest ^= _rotated(read_word(b, p + 48), 41) ^ _rotated(read_word(b, p + 53), 53)
    return _continued(digest, b, p, rest, position)


@inlined
def add_legacy_entry(digest, b, p, position):
    """Return the digest (uint64) after the entry of magic 0 or 1 at `b[p]`, which is byte `position` of the segment."""
    return _continued(digest, b, p, read_word(b, p + 18), position)
