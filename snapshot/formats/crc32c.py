"""CRC-32C (Castagnoli) as Kafka uses it: polynomial 0x82F63B78 reflected, initial value and final xor 0xFFFFFFFF."""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import numpy as np

from tiersnap.snapshot.kernels.crc import checksum

_PIECE = 1 << 20


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """CRC-32C of `data`, unsigned 32 bits."""
    if isinstance(data, bytes):
        return int(google_crc32c.value(data))
    # The library takes nothing but `bytes`, and a view is not to be copied.
    view = np.frombuffer(data, np.uint8)
    return int(checksum(view, 0, view.size))


def crc32c_of_file(path: Path) -> int:
    """CRC-32C of a file's bytes, read piece by piece.

    Raises:
        OSError: it is gone or unreadable.
    """
    crc = 0
    with path.open("rb") as file:
        while data := file.read(_PIECE):
            crc = google_crc32c.extend(crc, data)
    return int(crc)
