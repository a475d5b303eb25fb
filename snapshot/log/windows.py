"""Bytes of a segment file by window, so that memory stays flat whatever the segment's size.

A closed segment on a local disk is memory-mapped: headers of large batches are then read without touching the
payload. The active segment may be cut by its broker at any moment (a map would die of SIGBUS), and remote files cannot
be mapped, so those are read: local ones piece by piece into one buffer that stays in the processor's cache.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Protocol

import numpy as np
from pyarrow import fs

WINDOW_BYTES = 32 << 20
_CACHED_BYTES = 1 << 20


class Windows(Protocol):
    """A file that gives read-only uint8 windows, each valid until the next is read.

    Attributes:
        size: bytes of the file when it was opened.
        best_bytes: window length that costs least.
    """

    size: int
    best_bytes: int

    def read(self, position: int, length: int) -> np.ndarray:
        """At most `length` bytes from byte `position`, fewer only at the end of the file."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...


class MappedWindows:
    """Windows of a memory map; pages behind the window are handed back to the kernel."""

    best_bytes = WINDOW_BYTES

    def __init__(self, path: str) -> None:
        with Path(path).open("rb") as file:
            self.size = file.seek(0, 2)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else None
        self._released = 0

    def read(self, position: int, length: int) -> np.ndarray:
        """A view into the map."""
        if self._map is None:
            return np.empty(0, np.uint8)
        behind = position - position % mmap.ALLOCATIONGRANULARITY
        if behind > self._released:
            self._map.madvise(mmap.MADV_DONTNEED, self._released, behind - self._released)
            self._released = behind
        length = min(length, self.size - position)
        return np.frombuffer(self._map, np.uint8, length, position)

    def close(self) -> None:
        """Nothing to do: the map goes with its last window."""


class BufferedWindows:
    """Windows of a local file that may shrink, read into one buffer."""

    best_bytes = _CACHED_BYTES

    def __init__(self, path: str) -> None:
        # The descriptor is positioned by each read, so no buffering of Python's own is wanted.
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115
        self.size = self._file.seek(0, 2)
        self._buffer = bytearray()

    def read(self, position: int, length: int) -> np.ndarray:
        """A view of the buffer."""
        length = max(0, min(length, self.size - position))
        if len(self._buffer) < length:
            self._buffer = bytearray(length)
        room = memoryview(self._buffer)
        filled = 0
        while filled < length:
            count = os.preadv(self._file.fileno(), [room[filled:length]], position + filled)
            if count == 0:
                break
            filled += count
        window = np.frombuffer(self._buffer, np.uint8, filled)
        window.flags.writeable = False
        return window

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ReadWindows:
    """Windows read through any pyarrow filesystem."""

    best_bytes = WINDOW_BYTES

    def __init__(self, filesystem: fs.FileSystem, path: str) -> None:
        self._file = filesystem.open_input_file(path)
        self.size = self._file.size()

    def read(self, position: int, length: int) -> np.ndarray:
        """A copy of the bytes."""
        length = max(0, min(length, self.size - position))
        return np.frombuffer(self._file.read_at(length, position), np.uint8)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_windows(filesystem: fs.FileSystem, path: str, *, may_shrink: bool) -> Windows:
    """Map what is local and will not shrink, read the rest.

    Raises:
        OSError: the file is gone or unreadable.
    """
    if not isinstance(filesystem, fs.LocalFileSystem):
        return ReadWindows(filesystem, path)
    return BufferedWindows(path) if may_shrink else MappedWindows(path)
