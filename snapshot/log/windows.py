"""Read a segment file in windows, with constant memory for any segment size.

A closed segment on a local disk is memory-mapped, so that headers of large batches are read without their payload. A
broker appends to the active segment and may truncate it. So an active segment is read piece by piece into one buffer
that stays in the processor's cache. Remote files cannot be mapped, so each window is a copy.

A bus error (SIGBUS) kills the process. It is raised if a process reads a mapped page that lies beyond the end of the
file, or that the disk cannot read. Followers truncate even closed segments. pread is safe, but takes twice as long for
batches of 300 bytes, and eight times as long for batches of 4 KiB. So a signal handler watches the maps: at a bus error
it maps zeros over the rest of the map and sets `is_cut`, and the read continues. `close` then raises an error.
libwayland does the same (wl_shm_buffer_begin_access). Other bus errors go to the previous handler. Maps are used only
on 64-bit Linux.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

import numpy as np

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.regular_file import open_regular
from tiersnap.snapshot.units import count_of

WINDOW_BYTES = 32 << 20
_CACHED_BYTES = 1 << 20


class Windows(Protocol):
    """A file that returns read-only uint8 windows. A window is valid until the next read."""

    size: int  # bytes of the file when it was opened
    best_bytes: int  # window length that is fastest

    def read(self, position: int, length: int) -> np.ndarray:
        """Return `length` bytes from byte `position` on; fewer only at the end of the file."""

    def close(self) -> None:
        """Release the file.

        Raises:
            OSError: the file was truncated or unreadable during the reads, so the windows may be wrong.
        """


class MappedWindows:
    """Windows of a memory map. Pages below the current window are released to the kernel."""

    best_bytes = WINDOW_BYTES

    def __init__(self, path: str) -> None:
        self._path, self._descriptor = path, open_regular(path)
        self._map: mmap.mmap | None = None
        try:
            self.size = os.fstat(self._descriptor).st_size
            if self.size:
                self._map = mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            os.close(self._descriptor)
            raise (
                error
                if isinstance(error, OSError)
                else OSError(errno.ESTALE, "another process cut the file while tiersnap opened it")
            ) from error
        if self._map is not None:
            self._watched = _watch(np.frombuffer(self._map, np.uint8).ctypes.data, self.size)
        self._released = 0

    def read(self, position: int, length: int) -> np.ndarray:
        """Return a view into the map. If the file was truncated, the view has zeros after the new end of the file."""
        if self._map is None:
            return np.empty(0, np.uint8)
        behind = position - position % mmap.ALLOCATIONGRANULARITY
        if behind > self._released:
            self._map.madvise(mmap.MADV_DONTNEED, self._released, behind - self._released)
            self._released = behind
        length = min(length, self.size - position)
        return np.frombuffer(self._map, np.uint8, length, position)

    def close(self) -> None:
        """Close the file. The memory map exists until no window refers to it.

        Raises:
            OSError: the file was truncated or unreadable during the reads, so the windows may be wrong.
        """
        size = os.fstat(self._descriptor).st_size
        os.close(self._descriptor)
        if self._map is None:
            return
        _forget(self._watched)
        _refuse_cut(self._path, self.size, size)
        if self._watched.is_cut:
            raise OSError(
                errno.EIO,
                "a page of the file cannot be read, or another process cut the file while tiersnap read it",
                self._path,
            )


class BufferedWindows:
    """Windows of a local file that may shrink. The bytes are read into one buffer."""

    best_bytes = _CACHED_BYTES

    def __init__(self, path: str, *, follow: bool = False, may_shrink: bool = True) -> None:
        self._path, self._descriptor, self._may_shrink = path, open_regular(path, follow=follow), may_shrink
        self.size = os.fstat(self._descriptor).st_size
        self._buffer = bytearray()

    def read(self, position: int, length: int) -> np.ndarray:
        """Return a view of the buffer, valid until the next read."""
        length = max(0, min(length, self.size - position))
        if len(self._buffer) < length:
            self._buffer = bytearray(length)
        room = memoryview(self._buffer)
        filled = 0
        while filled < length:
            count = os.preadv(self._descriptor, [room[filled:length]], position + filled)
            if count == 0:
                break
            filled += count
        window = np.frombuffer(self._buffer, np.uint8, filled)
        window.flags.writeable = False
        return window

    def close(self) -> None:
        """Close the file. Raises OSError: the file was truncated, and `may_shrink` is False."""
        size = os.fstat(self._descriptor).st_size
        os.close(self._descriptor)
        if not self._may_shrink:
            _refuse_cut(self._path, self.size, size)


class ReadWindows:
    """Windows of a remote file."""

    best_bytes = WINDOW_BYTES

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._file = filesystem.open(path)
        self.size = self._file.seek(0, os.SEEK_END)

    def read(self, position: int, length: int) -> np.ndarray:
        """Return a copy of the bytes."""
        length = max(0, min(length, self.size - position))
        self._file.seek(position)
        return np.frombuffer(self._file.read(length), np.uint8)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_windows(filesystem: FileSystem, path: str, *, may_shrink: bool) -> Windows:
    """Return windows of a file.

    A local file of more than 1 MiB that will not shrink is mapped into memory. Windows of other files are copies.

    Raises:
        OSError: the file is missing, unreadable or no regular file.
    """
    if not filesystem.is_local:
        return ReadWindows(filesystem, path)
    if may_shrink or not _CAN_WATCH or os.lstat(path).st_size <= _CACHED_BYTES:
        return BufferedWindows(path, may_shrink=may_shrink)
    return MappedWindows(path)


def _refuse_cut(path: str, before: int, now: int) -> None:
    if now < before:
        raise OSError(
            errno.ESTALE,
            f"another process cut the file from {count_of(before, 'byte')} to {now} while tiersnap read it",
            path,
        )


def pieces(windows: Windows, start: int, end: int) -> Iterator[np.ndarray]:
    """Yield the bytes [start, exclusive end) in windows of 1 MiB.

    If the file was truncated, the missing bytes are omitted.
    """
    for position in range(start, end, _CACHED_BYTES):
        yield windows.read(position, min(_CACHED_BYTES, end - position))


def is_zero(windows: Windows, start: int, end: int) -> bool:
    """Return whether all bytes of [start, exclusive end) are zero."""
    return not any(piece.any() for piece in pieces(windows, start, end))


_CAN_WATCH = sys.platform == "linux" and sys.maxsize > 1 << 32

_MAP_FIXED = 0x10
_SA_SIGINFO = 4
_SI_ADDR = 16  # position of the address in a siginfo_t
_MASK_WORDS = 16
_MAP_FAILED = ctypes.c_void_p(-1).value


@dataclass(slots=True)
class _WatchedMap:
    """The addresses [start, end) of a map. `is_cut` is True after zeros replaced an unreadable page."""

    start: int
    end: int
    is_cut: bool = False


class _SigAction(ctypes.Structure):
    """`struct sigaction`, which is the same in glibc and musl on x86-64 and aarch64."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * _MASK_WORDS),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_watched: dict[int, _WatchedMap] = {}
_lock = Lock()
_before = _SigAction()
_installed: object = None


def _watch(start: int, length: int) -> _WatchedMap:
    """Watch the map at this address until `_forget`, so that a bus error in it does not kill the process."""
    _install()
    watched = _WatchedMap(start, start + length)
    _watched[start] = watched
    return watched


def _forget(watched: _WatchedMap) -> None:
    """Stop watching a map. Call it before the map is unmapped."""
    _watched.pop(watched.start, None)


def _install() -> None:
    global _installed
    with _lock:
        if _installed is not None:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]

        # A Python function may handle this signal: the signal comes from an instruction that reads the map, and never
        # interrupts the interpreter itself.
        def handle(_: int, info: int, __: int) -> None:
            address = ctypes.c_size_t.from_address(info + _SI_ADDR).value
            page = address - address % mmap.PAGESIZE
            for each in list(_watched.values()):
                if each.start <= address < each.end:
                    each.is_cut = True
                    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
                    if libc.mmap(page, each.end - page, mmap.PROT_READ, flags, -1, 0) != _MAP_FAILED:
                        return
            # Not a watched map: restore the previous handler, which gets the signal when the instruction is repeated.
            libc.sigaction(signal.SIGBUS, ctypes.byref(_before), None)

        callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(handle)
        action = _SigAction(handler=ctypes.cast(callback, ctypes.c_void_p), flags=_SA_SIGINFO)
        if libc.sigaction(signal.SIGBUS, ctypes.byref(action), ctypes.byref(_before)) != 0:
            raise OSError(ctypes.get_errno(), "sigaction")
        _installed = callback
