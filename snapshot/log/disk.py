"""The disk under a log directory: its mount point, kind and space, and what frees a full one.

What must be freed is said in the same words in all commands.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tiersnap.snapshot.units import human_bytes

_NEARLY_FULL_PERCENT = 90
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class MountedDisk:
    """One file system; bytes."""

    mount: str
    device: str
    kind: str
    total: int  # what users other than root may fill
    free: int  # what they may write now
    reserved: int  # what root may write besides
    is_read_only: bool

    @property
    def writable(self) -> int:
        """Return the bytes that this process may write."""
        return self.free + (0 if os.geteuid() else self.reserved)

    def says_free(self) -> str:
        """Return what is free, in words; root is told what it may write besides where that begins to matter."""
        tells = self.is_nearly_full and self.writable > self.free
        more = f" and {human_bytes(self.reserved)} for root" if tells else ""
        return f"{human_bytes(self.free)}{more}"

    @property
    def is_nearly_full(self) -> bool:
        """Return whether somebody should look after the disk."""
        return self.percent_full >= _NEARLY_FULL_PERCENT

    @property
    def is_full(self) -> bool:
        """Return whether less than a hundredth is free."""
        return self.percent_full >= 100

    @property
    def percent_full(self) -> int:
        """As `df` reckons it: of what users may fill, rounded up."""
        used = self.total - self.free
        return 0 if not self.total else -(-100 * used // self.total)


def disk_of(path: Path, *, mounts: Path = Path("/proc/self/mounts")) -> MountedDisk:
    """The file system that holds `path`.

    Args:
        mounts: where the kernel lists what is mounted; without it device and kind are "".

    Raises:
        OSError: the path cannot be looked at.
    """
    space = os.statvfs(path)
    reserved = (space.f_bfree - space.f_bavail) * space.f_frsize
    mount = Path(os.path.realpath(path))
    while not mount.is_mount():
        mount = mount.parent
    device, kind = _mounted(mounts).get(str(mount), ("", ""))
    return MountedDisk(
        mount=str(mount),
        device=device,
        kind=kind,
        total=space.f_blocks * space.f_frsize - reserved,
        free=space.f_bavail * space.f_frsize,
        reserved=reserved,
        is_read_only=bool(space.f_flag & os.ST_RDONLY),
    )


def _mounted(mounts: Path) -> dict[str, tuple[str, str]]:
    """Device and kind by mount point; the last of several on one point is the one that is seen."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return {}
    words = (line.split(" ") for line in lines)
    return {_plain(each[1]): (_plain(each[0]), each[2]) for each in words if len(each) > 2}


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


_RETENTION = (
    "last, since it deletes records: while a broker runs, lower retention.ms of the largest topic for a while "
    "(kafka-configs --alter); it deletes within 5 minutes (log.retention.check.interval.ms). Delete no .log, .index or "
    ".snapshot by hand: docs/runbook.md, A full disk"
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
    """Say what frees a disk, the fastest first, and last what deletes records.

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


# A file takes whole blocks, and 4 KiB is what ext4 and XFS make of it.
BLOCK = 4096


def on_disk(size: int) -> int:
    """Bytes that a file of `size` bytes takes."""
    return -(-size // BLOCK) * BLOCK


def says_space(needed: int, log_dir: Path) -> str:
    """Return the needed and the free space, in words. `needed`: bytes on disk."""
    return f"{log_dir}: {says_room('the snapshots', needed, disk_of(log_dir))}"
