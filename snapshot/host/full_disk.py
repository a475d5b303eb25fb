"""A full disk: how much must be freed, and what frees it fastest, in the same words in all commands."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tiersnap.snapshot.host.disk import MountedDisk
from tiersnap.snapshot.units import human_bytes

_RETENTION = (
    "while a broker runs: lower retention.ms of the largest topic for a while (kafka-configs --alter), and it deletes "
    "within 5 minutes (log.retention.check.interval.ms). Delete no .log, .index or .snapshot by hand: docs/runbook.md, "
    "A full disk"
)


def says_room(what: str, needed: int, disk: MountedDisk) -> str:
    """Return what is needed and what is free, in words, and how much must be freed where that is too little.

    Args:
        what: the subject, plural.
        needed: bytes on disk.
    """
    short = needed - disk.writable
    freed = f": free {human_bytes(short)} first; what was written before stays whole" if short > 0 else ""
    return f"{what} need {human_bytes(needed)}, {disk.says_free()} are free{freed}"


def ways_to_free(disk: MountedDisk, deleted: int) -> Iterator[str]:
    """Say what frees a disk, the fastest first.

    Args:
        deleted: bytes of what a broker has deleted already; see `deleted_bytes`.
    """
    if disk.reserved and disk.kind.startswith("ext"):
        kept = human_bytes(disk.reserved)
        yield f"tune2fs -m 0 {disk.device}   gives {kept} at once, which {disk.kind} keeps for root"
    if deleted:
        yield (
            f"{human_bytes(deleted)} lie in folders and files that the broker has deleted (*-delete, *.deleted): it "
            "removes them within a minute, or at its next start; while it is stopped, delete them"
        )
    yield _RETENTION


def deleted_bytes(log_dir: Path) -> int:
    """Return the bytes of what a broker has deleted and not removed yet: `*-delete` folders and `*.deleted` files.

    A broker that runs removes them meanwhile.
    """
    return sum(
        _size(Path(folder, name))
        for folder, _, names in os.walk(log_dir)
        for name in names
        if folder.endswith("-delete") or name.endswith(".deleted")
    )


def _size(path: Path) -> int:
    """Return the bytes of a regular file; 0 if it is none, or gone."""
    with suppress(OSError):
        status = path.lstat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    return 0
