"""The space that a repair will need, against what its disk has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tiersnap.snapshot.units import human_bytes

# A file takes whole blocks, and 4 KiB is what ext4 and XFS make of it.
_BLOCK = 4096


def on_disk(size: int) -> int:
    """Bytes that a file of `size` bytes takes."""
    return -(-size // _BLOCK) * _BLOCK


def says_space(needed: int, log_dir: Path) -> str:
    """What is needed and what is there, in words; root may also write what is kept back from others.

    Args:
        needed: bytes on disk.
    """
    free = shutil.disk_usage(log_dir).free if os.geteuid() else _free_for_root(log_dir)
    short = "" if needed <= free else ": NOT ENOUGH, free some first; what was written before stays whole"
    return f"{log_dir}: the snapshots need {human_bytes(needed)}, {human_bytes(free)} are free{short}"


def _free_for_root(log_dir: Path) -> int:
    """Bytes that root can write."""
    found = os.statvfs(log_dir)
    return found.f_bfree * found.f_frsize
