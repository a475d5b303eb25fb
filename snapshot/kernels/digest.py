"""Compiled digest over the headers of a segment's entries: 64 bits, for identity and not for secrecy.

Each header holds the CRC that its broker stored, so the digest pins the payloads too, without reading them. Every
entry gives one number from the 8-byte words of its header, and the digest is a chain of these numbers:

    words    the little-endian words at bytes 0, 8 and 16 of the entry: offset, length, leader epoch, magic and CRC
    rest     magic 2: the words at bytes 24, 32, 40, 48 and 53, rotated left by 0, 13, 27, 41 and 53, in exclusive or:
             what the CRC covers of the 61 bytes
             magic 0 and 1: the word at byte 18, the end of the 26 bytes that every such entry has
    entry    the sum of each word and of the rest times a constant of its own, the second rotated left by 21 and the
             third by 42, plus the position of the entry in the segment
    digest   (digest ^ entry) * CHAIN, rotated left by 29; it begins with START

All modulo 2 ** 64. Each step is a bijection of each thing that goes into it, so a change within one word is always
seen. It takes some twenty instructions a batch: a walk over small batches with their CRCs pays for each of them.
"""

from __future__ import annotations

import numba
import numpy as np

from tiersnap.snapshot.kernels.memory import read_word

# Fractions of square roots of small primes and of the golden ratio, made odd.
START = np.uint64(0x6A09E667F3BCC908)
_K0 = np.uint64(0x3C6EF372FE94F82B)
_K1 = np.uint64(0xA54FF53A5F1D36F1)
_K2 = np.uint64(0x510E527FADE682D1)
_K3 = np.uint64(0x9B05688C2B3E6C1F)
_CHAIN = np.uint64(0x9E3779B97F4A7C15)
_WORD = np.uint64(64)


@numba.njit(inline="always")
def _rotated(x, left):
    return (x << np.uint64(left)) | (x >> (_WORD - np.uint64(left)))


@numba.njit(inline="always")
def _continued(digest, b, p, rest, position):
    entry = read_word(b, p) * _K0 + rest * _K3  # type: ignore[call-arg]
    entry += _rotated(read_word(b, p + 8) * _K1, 21) + _rotated(read_word(b, p + 16) * _K2, 42)
    return _rotated((digest ^ (entry + np.uint64(position))) * _CHAIN, 29)


@numba.njit(inline="always")
def add_batch(digest, b, p, position):
    """The digest (uint64) continued by the batch of magic 2 at `b[p]`, which lies at byte `position` of the segment."""
    rest = read_word(b, p + 24) ^ _rotated(read_word(b, p + 32), 13) ^ _rotated(read_word(b, p + 40), 27)  # type: ignore[call-arg]
    rest ^= _rotated(read_word(b, p + 48), 41) ^ _rotated(read_word(b, p + 53), 53)
    return _continued(digest, b, p, rest, position)


@numba.njit(inline="always")
def add_legacy_entry(digest, b, p, position):
    """Likewise for an entry of magic 0 or 1."""
    return _continued(digest, b, p, read_word(b, p + 18), position)  # type: ignore[call-arg]
