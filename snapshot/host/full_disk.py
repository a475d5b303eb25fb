"""A full disk: how much must be freed, and what frees it fastest, in the same words in all commands."""

from __future__ import annotations

from collections.abc import Iterator
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
    """Return the bytes of what a broker has deleted and not removed yet: `*-delete` folders and `*.deleted` files."""
    found = (*log_dir.glob("*-delete/*"), *log_dir.glob("*/*.deleted"))
    return sum(each.lstat().st_size for each in found if not each.is_symlink() and each.is_file())
