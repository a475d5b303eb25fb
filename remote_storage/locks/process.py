"""The process that holds a lock, and whether it has ended.

A process is identified by its host, its pid and its start. The start consists of boot id, pid namespace and clock ticks
since the boot, from Linux' /proc. `is_gone` returns True only if this process can see the other process: on the same
boot of the same host, and in the same pid namespace. On another host, in another container or after a reboot it returns
False, and the lock is free only when it is stale.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tiersnap.remote_storage.layouts.stored_json import Count, Stored, Text

_PROC = Path("/proc")


class Process(Stored, frozen=True):
    """A process, as lock objects store it. `process_start` is empty if the system does not provide it."""

    host: Text
    pid: Count
    process_start: Text

    def __str__(self) -> str:
        return f"{self.host} (pid {self.pid})"


def this_process() -> Process:
    """Return the process that runs this code."""
    return Process(socket.gethostname(), os.getpid(), _start(os.getpid()) or "")


def is_gone(process: Process) -> bool:
    """Return whether `process` has certainly ended. False if this process cannot see it."""
    place = _place()
    if process.host != socket.gethostname() or place is None or not process.process_start.startswith(place):
        return False
    return _start(process.pid) != process.process_start


def _place() -> str | None:
    """Return boot id and pid namespace, or None if the system does not provide them."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').stat().st_ino}/"
    except (OSError, UnicodeDecodeError):
        return None


def _start(pid: int) -> str | None:
    """Return the start of the process with this pid on this host, or None if it has ended or its start is unknown."""
    place = _place()
    try:
        status = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The process name may contain spaces and brackets. The start is the 20th field after the name.
    fields = status.rpartition(b")")[2].split()
    if place is None or len(fields) < 20 or fields[0] in (b"Z", b"X"):  # Z or X: the process has ended
        return None
    return f"{place}{int(fields[19])}"
