"""The space that a repair will need, against what its disk has."""

from __future__ import annotations

from pathlib import Path

from tiersnap.snapshot.host.disk import disk_of
from tiersnap.snapshot.host.full_disk import says_room

# A file takes whole blocks, and 4 KiB is what ext4 and XFS make of it.
BLOCK = 4096


def on_disk(size: int) -> int:
    """Bytes that a file of `size` bytes takes."""
    return -(-size // BLOCK) * BLOCK


def says_space(needed: int, log_dir: Path) -> str:
    """Return the needed and the free space, in words.

    Args:
        needed: bytes on disk.
    """
    return f"{log_dir}: {says_room('the snapshots', needed, disk_of(log_dir))}"
