"""Surviving the truncation of a file that is mapped.

A page of a map that lies behind the end of its file, or that the disk cannot give, is a bus error, and that kills the
process. Followers truncate segments, closed ones too. Reading such files with pread is safe and takes twice the time at
batches of 300 bytes, eight times at 4 KiB. So maps are watched instead: the handler here lays zeros over the rest of a
watched map, notes it, and the read goes on; who reads asks afterwards. Wayland's libwayland does the same for the
buffers of its clients (wl_shm_buffer_begin_access).

A bus error anywhere else does what it did before. Only on 64-bit Linux; `is_available` says so.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
from dataclasses import dataclass
from threading import Lock

is_available = sys.platform == "linux" and sys.maxsize > 1 << 32

_MAP_FIXED = 0x10
_SA_SIGINFO = 4
_SI_ADDR = 16  # byte of the address in a siginfo_t
_MASK_WORDS = 16
_MAP_FAILED = ctypes.c_void_p(-1).value


@dataclass(slots=True)
class WatchedMap:
    """The addresses [start, end) of a map; `is_cut` once a page of it could not be read and zeros took its place."""

    start: int
    end: int
    is_cut: bool = False


class _SigAction(ctypes.Structure):
    """`struct sigaction`, the same in glibc and musl on x86-64 and aarch64."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * _MASK_WORDS),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_watched: dict[int, WatchedMap] = {}
_lock = Lock()
_before = _SigAction()
_installed: object = None


def watch(start: int, length: int) -> WatchedMap:
    """Survive bus errors in a map at this address until `forget`."""
    _install()
    watched = WatchedMap(start, start + length)
    _watched[start] = watched
    return watched


def forget(watched: WatchedMap) -> None:
    """No longer watch it; before it is unmapped."""
    _watched.pop(watched.start, None)


def _install() -> None:
    global _installed
    with _lock:
        if _installed is not None:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]

        # A Python function may run here: the signal comes from an instruction that reads the map, never from the
        # middle of the interpreter's own work.
        def handle(_: int, info: int, __: int) -> None:
            address = ctypes.c_size_t.from_address(info + _SI_ADDR).value
            page = address - address % mmap.PAGESIZE
            for each in list(_watched.values()):
                if each.start <= address < each.end:
                    each.is_cut = True
                    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
                    if libc.mmap(page, each.end - page, mmap.PROT_READ, flags, -1, 0) != _MAP_FAILED:
                        return
            # Not ours: the same instruction meets the handler that was there before.
            libc.sigaction(signal.SIGBUS, ctypes.byref(_before), None)

        callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(handle)
        action = _SigAction(handler=ctypes.cast(callback, ctypes.c_void_p), flags=_SA_SIGINFO)
        if libc.sigaction(signal.SIGBUS, ctypes.byref(action), ctypes.byref(_before)) != 0:
            raise OSError(ctypes.get_errno(), "sigaction")
        _installed = callback
