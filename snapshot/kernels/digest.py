"""Compiled digest over the headers of a segment's entries: 64 bits, for identity and not for secrecy.

Each header holds the CRC that its broker stored, so the digest pins the payloads too, without reading them. Every
entry gives one number, a sum over the 8-byte words of its header, and the digest is a chain of these numbers:

    words     magic 2: the little-endian words at bytes 0, 8, 16, 24, 32, 40, 48 and 53 of the entry, 61 bytes in all
              magic 0 and 1: those at bytes 0, 8, 16 and 18, which are the 26 bytes that every such entry has
    entry     sum over i of (word i * odd constant i) rotated left by 8 * i, plus position in the segment * _POSITION
    digest    (digest ^ entry) * _CHAIN, rotated left by 29; it begins with START

All modulo 2 ** 64. Each step is a bijection of each thing that goes into it, so a change within one word is always
seen. The rotations keep apart what changes of the highest bytes of several words do, which multiplication leaves
highest. It costs three instructions a word, because a walk over small batches has no time for more.
"""

from __future__ import annotations

import numba
import numpy as np

from tiersnap.snapshot.kernels.memory import read_word

# Fractions of square roots of small primes, made odd.
START = np.uint64(0x6A09E667F3BCC908)
_POSITION = np.uint64(0xBB67AE8584CAA73B)
_CHAIN = np.uint64(0x9E3779B97F4A7C15)
_K0 = np.uint64(0x3C6EF372FE94F82B)
_K1 = np.uint64(0xA54FF53A5F1D36F1)
_K2 = np.uint64(0x510E527FADE682D1)
_K3 = np.uint64(0x9B05688C2B3E6C1F)
_K4 = np.uint64(0x1F83D9ABFB41BD6B)
_K5 = np.uint64(0x5BE0CD19137E2179)
_K6 = np.uint64(0xCBBB9D5DC1059ED9)
_K7 = np.uint64(0x629A292A367CD507)
_WORD = np.uint64(64)


@numba.njit(inline="always")
def _rotated(x, left):
    return (x << np.uint64(left)) | (x >> (_WORD - np.uint64(left)))


@numba.njit(inline="always")
def _chained(digest, entry, position):
    return _rotated((digest ^ (entry + np.uint64(position) * _POSITION)) * _CHAIN, 29)


@numba.njit(inline="always")
def add_batch(digest, b, p, position):
    """The digest (uint64) continued by the batch of magic 2 at `b[p]`, which lies at byte `position` of the segment."""
    entry = read_word(b, p) * _K0  # type: ignore[call-arg]
    entry += _rotated(read_word(b, p + 8) * _K1, 8)
    entry += _rotated(read_word(b, p + 16) * _K2, 16)
    entry += _rotated(read_word(b, p + 24) * _K3, 24)
    entry += _rotated(read_word(b, p + 32) * _K4, 32)
    entry += _rotated(read_word(b, p + 40) * _K5, 40)
    entry += _rotated(read_word(b, p + 48) * _K6, 48)
    entry += _rotated(read_word(b, p + 53) * _K7, 56)
    return _chained(digest, entry, position)


@numba.njit(inline="always")
def add_legacy_entry(digest, b, p, position):
    """Likewise for an entry of magic 0 or 1."""
    entry = read_word(b, p) * _K0  # type: ignore[call-arg]
    entry += _rotated(read_word(b, p + 8) * _K1, 8)
    entry += _rotated(read_word(b, p + 16) * _K2, 16)
    entry += _rotated(read_word(b, p + 18) * _K3, 24)
    return _chained(digest, entry, position)
