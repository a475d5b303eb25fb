"""Compiled checksums: CRC-32C of a batch, and the CRC-32 of entries of magic 0 and 1.

`checksum` calls the function of the C library inside google-crc32c by address, because `google_crc32c.value` takes
only `bytes` (a copy and a call for each batch). Where a wheel comes without that library, `checksum` is the table form
`checksum_by_table`.
"""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types

from tiersnap.snapshot.kernels.memory import address_of, prefetch

_POLYNOMIAL = 0x82F63B78
_LEGACY_POLYNOMIAL = 0xEDB88320  # CRC-32 as zlib has it


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


@numba.njit(cache=True)
def checksum_by_table(buffer, start, length):
    """CRC-32C of `buffer[start:start + length]` (uint8), one byte a step."""
    crc = np.uint32(0xFFFFFFFF)
    for position in range(start, start + length):
        crc = (crc >> np.uint32(8)) ^ _TABLE[(crc ^ np.uint32(buffer[position])) & np.uint32(0xFF)]
    return crc ^ np.uint32(0xFFFFFFFF)


@numba.njit(cache=True)
def legacy_checksum(buffer, start, length):
    """CRC-32 (IEEE) of `buffer[start:start + length]` (uint8)."""
    crc = np.uint32(0xFFFFFFFF)
    for position in range(start, start + length):
        crc = (crc >> np.uint32(8)) ^ _LEGACY_TABLE[(crc ^ np.uint32(buffer[position])) & np.uint32(0xFF)]
    return crc ^ np.uint32(0xFFFFFFFF)


_extend = types.ExternalFunction("crc32c_extend", types.uint32(types.uint32, types.uintp, types.uintp))

# The library computes three streams of 336 bytes at a time, from an aligned address on, and waits for memory between
# them. Asking for what lies a page ahead lets both happen at once.
_STEP = np.uintp(3 * 336 + 8)
_AHEAD = np.uintp(4096)
_CACHE_LINE = 64


@numba.njit(cache=True, inline="always")
def checksum_by_library(buffer, start, length):
    """CRC-32C of `buffer[start:start + length]` (uint8), by the C library of google-crc32c."""
    address = address_of(buffer, start)  # type: ignore[call-arg, var-annotated]
    end = address + np.uintp(length)
    crc = np.uint32(0)
    while address < end:
        piece = min(_STEP - (address & np.uintp(7)), end - address)
        for line in range(0, piece, _CACHE_LINE):
            prefetch(address + _AHEAD + np.uintp(line))
        crc = _extend(crc, address, piece)
        address += piece
    return crc


def _load_library() -> bool:
    package = Path(google_crc32c.__file__).parent
    for folder in (package.parent / "google_crc32c.libs", package / ".dylibs"):
        for library in folder.glob("libcrc32c*"):
            llvm.load_library_permanently(str(library))
            return True
    return False


checksum = checksum_by_library if _load_library() else checksum_by_table
