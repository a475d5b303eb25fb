"""CRC-32C (Castagnoli) as Kafka uses it: polynomial 0x82F63B78 reflected, initial value and final xor 0xFFFFFFFF.

CRCs are linear: crc(a + b) = shift(crc(a), len(b)) xor crc(b). So the CRC of b can be computed from the CRC of a + b,
the CRC of a and the length of b.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import google_crc32c
import numpy as np

_PIECE = 1 << 20
_POLYNOMIAL = 0x82F63B78


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of `data`, unsigned 32 bits."""
    if isinstance(data, bytes):
        return int(google_crc32c.value(data))
    # The library accepts only `bytes`. Copies of pieces need less memory than a copy of the whole.
    view, crc = memoryview(data), 0
    for start in range(0, len(view), _PIECE):
        crc = google_crc32c.extend(crc, bytes(view[start : start + _PIECE]))
    return int(crc)


def crc32c_of_file(path: Path) -> int:
    """Return the CRC-32C of a file. Raises OSError: the file is missing or unreadable."""
    crc = 0
    with path.open("rb") as file:
        while data := file.read(_PIECE):
            crc = google_crc32c.extend(crc, data)
    return int(crc)


def crc32c_of_rows(rows: np.ndarray) -> np.ndarray:
    """Return the CRC-32C of each row of an array uint8[n, length], as uint32[n]."""
    crcs = np.full(rows.shape[0], 0xFFFFFFFF, np.uint32)
    of_byte = _shifts()[0][0]
    for column in rows.T:
        crcs = (crcs >> np.uint32(8)) ^ of_byte[(crcs ^ column) & np.uint32(0xFF)]
    return crcs ^ np.uint32(0xFFFFFFFF)


def crc32c_behind(whole: np.ndarray, prefix: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the CRC-32C of the suffix of each of n byte strings, as uint32[n].

    Each string consists of a prefix and a suffix. The strings are not read.

    Args:
        whole: uint32[n], CRC of prefix and suffix together.
        prefix: uint32[n], CRC of the prefix alone.
        length: int64[n], number of bytes in the suffix, 0 to 2^31 - 1.
    """
    shifted = prefix.astype(np.uint32)
    for bit, tables in enumerate(_shifts()):
        is_set = (length >> bit) & 1 != 0
        if is_set.any():
            shifted[is_set] = _shift(tables, shifted[is_set])
    return shifted ^ whole.astype(np.uint32)


@cache
def _shifts() -> tuple[np.ndarray, ...]:
    """Return 31 tables uint32[4, 256]. Table n maps the 4 bytes of a CRC to the CRC after 2^n further zero bytes."""
    remainders = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        remainders = (remainders >> np.uint32(1)) ^ np.where(remainders & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    of_byte = np.arange(256, dtype=np.uint32)
    # A zero byte shifts out the lowest byte of the CRC, and xors the remainder of that byte.
    shifts = [np.stack([remainders, of_byte, of_byte << np.uint32(8), of_byte << np.uint32(16)])]
    for _ in range(30):
        before = shifts[-1]
        shifts.append(np.stack([_shift(before, table) for table in before]))
    return tuple(shifts)


def _shift(tables: np.ndarray, crcs: np.ndarray) -> np.ndarray:
    shifted: np.ndarray = tables[0][crcs & np.uint32(0xFF)]
    for byte in (1, 2, 3):
        shifted ^= tables[byte][(crcs >> np.uint32(8 * byte)) & np.uint32(0xFF)]
    return shifted
