"""CRC-32C (Castagnoli) as Kafka uses it: polynomial 0x82F63B78 reflected, initial value and final xor 0xFFFFFFFF.

`crc32c` serves whole files. `checksum` serves compiled loops, which check one CRC a batch: it calls the function of
the C library inside google-crc32c by address, because `google_crc32c.value` takes only `bytes` (a copy and a call for
each batch). Where a wheel comes without that library, `checksum` is the table form `checksum_by_table`.
"""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types

_PIECE = 1 << 20
_POLYNOMIAL = 0x82F63B78
_LEGACY_POLYNOMIAL = 0xEDB88320  # CRC-32 as zlib has it: entries of magic 0 and 1


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """CRC-32C of `data`, unsigned 32 bits."""
    if isinstance(data, bytes):
        return int(google_crc32c.value(data))
    # The library takes nothing but `bytes`, so a view is copied, piece by piece.
    crc = 0
    for start in range(0, len(data), _PIECE):
        crc = google_crc32c.extend(crc, bytes(data[start : start + _PIECE]))
    return int(crc)


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
def checksum_by_table(buffer: np.ndarray, start: int, length: int) -> int:
    """CRC-32C of `buffer[start:start + length]` (uint8), one byte a step."""
    crc = np.uint32(0xFFFFFFFF)
    for position in range(start, start + length):
        crc = (crc >> np.uint32(8)) ^ _TABLE[(crc ^ np.uint32(buffer[position])) & np.uint32(0xFF)]
    return crc ^ np.uint32(0xFFFFFFFF)  # type: ignore[return-value]


@numba.njit(cache=True)
def legacy_checksum(buffer: np.ndarray, start: int, length: int) -> int:
    """CRC-32 (IEEE) of `buffer[start:start + length]` (uint8)."""
    crc = np.uint32(0xFFFFFFFF)
    for position in range(start, start + length):
        crc = (crc >> np.uint32(8)) ^ _LEGACY_TABLE[(crc ^ np.uint32(buffer[position])) & np.uint32(0xFF)]
    return crc ^ np.uint32(0xFFFFFFFF)  # type: ignore[return-value]


_extend = types.ExternalFunction("crc32c_extend", types.uint32(types.uint32, types.uintp, types.uintp))


@numba.njit(cache=True)
def checksum_by_library(buffer: np.ndarray, start: int, length: int) -> int:
    """CRC-32C of `buffer[start:start + length]` (uint8), by the C library of google-crc32c."""
    return _extend(np.uint32(0), buffer.ctypes.data + start, length)  # type: ignore[no-any-return, call-overload]


def _load_library() -> bool:
    package = Path(google_crc32c.__file__).parent
    for folder in (package.parent / "google_crc32c.libs", package / ".dylibs"):
        for library in folder.glob("libcrc32c*"):
            llvm.load_library_permanently(str(library))
            return True
    return False


checksum = checksum_by_library if _load_library() else checksum_by_table
