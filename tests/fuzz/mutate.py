"""Real bytes with a few things wrong, as disks, networks and hands leave them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random

_NUMBERS = (0, 1, -1, 2, 127, -128, 32_767, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1 << 20, 10**9)
_TEXTS = (b"null", b"NaN", b"1e999", b"-", b'"', b"[" * 2000, b"{}", b"\n", b"\xff\xfe", b"9" * 40, b"true", b"\\ud800")
_LONGEST = 1 << 14


def mutated(seeds: Sequence[bytes], chance: Random) -> bytes:
    """One of the seeds after one to four changes; now and then another seed's bytes behind a cut."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        _change(data, seeds, chance)
    return bytes(data[:_LONGEST])


def _change(data: bytearray, seeds: Sequence[bytes], chance: Random) -> None:
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(9)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1 and at < len(data):
        data[at] = chance.choice((0, 0xFF, 0x7F, 0x80, chance.randrange(256)))
    elif kind == 2:
        del data[at : at + chance.choice((1, 2, 4, 8, 46, 200))]
    elif kind == 3:
        data[at:at] = bytes(chance.choice((1, 4, 12, 61, 300)))
    elif kind == 4:
        del data[at:]
    elif kind == 5:
        piece = data[at : at + chance.randrange(1, 100)]
        data[at:at] = piece * chance.choice((1, 1, 20))
    elif kind == 6:
        width, layout = chance.choice(((2, ">h"), (4, ">i"), (8, ">q")))
        fits = [number for number in _NUMBERS if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1]
        data[at : at + width] = struct.pack(layout, chance.choice(fits))
    elif kind == 7:
        other = chance.choice(seeds)
        data[at:] = other[chance.randrange(len(other) + 1) :]
    else:
        data[at : at + chance.randrange(8)] = chance.choice(_TEXTS)
