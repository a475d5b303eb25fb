"""The process that holds a claim, and whether it is gone.

A process is its host, its pid and its start: boot id, pid namespace and clock ticks since the boot, of Linux' /proc.
That it is gone is said only where it can be seen: on the same boot of the same host, in the same pid namespace. Hosts
with one name, containers of one host and a reboot are not that; the age of the claim decides there.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tiersnap.remote_storage.layouts.stored_json import Count, Stored, Text

_PROC = Path("/proc")


class Process(Stored, frozen=True):
    """One process, as objects in remote storage hold it; `process_start` is empty if the system does not say it."""

    host: Text
    pid: Count
    process_start: Text


def this_process() -> Process:
    """The process that asks."""
    return Process(socket.gethostname(), os.getpid(), _start(os.getpid()) or "")


def is_gone(process: Process) -> bool:
    """Return whether `process` has certainly ended; False if that cannot be known."""
    place = _place()
    if process.host != socket.gethostname() or place is None or not process.process_start.startswith(place):
        return False
    return _start(process.pid) != process.process_start


def _place() -> str | None:
    """Boot and pid namespace."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').stat().st_ino}/"
    except (OSError, UnicodeDecodeError):
        return None


def _start(pid: int) -> str | None:
    """Start of the process that has this pid here, None if there is none or nobody knows."""
    place = _place()
    try:
        status = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name may have spaces and brackets in it; the start is the 20th field behind it.
    fields = status.rpartition(b")")[2].split()
    if place is None or len(fields) < 20 or fields[0] in (b"Z", b"X"):  # ended, and only its parent has not asked yet
        return None
    return f"{place}{int(fields[19])}"
