"""The disk of a log directory: its mount point, kind and space, and the ways to free a full one.

All commands describe missing space in the same words.
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
    total: int  # bytes that users other than root may use
    free: int  # bytes that they can still write
    reserved: int  # bytes that only root may use
    is_read_only: bool

    @property
    def writable(self) -> int:
        """Return the bytes that this process may write."""
        return self.free + (0 if os.geteuid() else self.reserved)

    def says_free(self) -> str:
        """Return the free bytes in words; for root also the reserved ones, if the disk is nearly full."""
        tells = self.is_nearly_full and self.writable > self.free
        more = f" and {human_bytes(self.reserved)} for root" if tells else ""
        return f"{human_bytes(self.free)}{more}"

    @property
    def is_nearly_full(self) -> bool:
        """Return whether the disk needs attention."""
        return self.percent_full >= _NEARLY_FULL_PERCENT

    @property
    def is_full(self) -> bool:
        """Return whether less than a hundredth is free."""
        return self.percent_full >= 100

    @property
    def percent_full(self) -> int:
        """Return the used share as `df` does: of the bytes for users, rounded up."""
        used = self.total - self.free
        return 0 if not self.total else -(-100 * used // self.total)


def disk_of(path: Path, *, mounts: Path = Path("/proc/self/mounts")) -> MountedDisk:
    """Return the file system of `path`.

    Args:
        mounts: the kernel's list of mounts; without it device and kind are "".

    Raises:
        OSError: the path cannot be examined.
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
    """Return device and kind by mount point; if a point has several mounts, the last one counts."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return {}
    words = (line.split(" ") for line in lines)
    return {_plain(each[1]): (_plain(each[0]), each[2]) for each in words if len(each) > 2}


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


_OTHER_FILES = (
    "move files away that are no log, such as heap dumps; delete no .log, .index or .snapshot by hand: "
    "tiersnap runbook 'A full disk'"
)


def says_room(what: str, needed: int, disk: MountedDisk) -> str:
    """Return the needed and the free bytes in words, and the bytes to free if there are too few.

    Args:
        what: the subject of the sentence, in the plural.
        needed: bytes on disk.
    """
    short = needed - disk.writable
    freed = f": free {human_bytes(short)} first; what was written before stays whole" if short > 0 else ""
    return f"{what} need {human_bytes(needed)}, {disk.says_free()} are free{freed}"


def ways_to_free(disk: MountedDisk, deleted: int) -> Iterator[str]:
    """Yield the ways to free a disk that delete no record, the fastest first.

    Args:
        deleted: see `deleted_bytes`.
    """
    if disk.reserved and disk.kind.startswith("ext"):
        kept = human_bytes(disk.reserved)
        yield f"tune2fs -m 0 {disk.device}   frees {kept}, which {disk.kind} keeps for root"
    if deleted:
        yield (
            f"the broker has deleted folders and files of {human_bytes(deleted)} (*-delete, *.deleted): it removes "
            "them within a minute, or at its next start; while it is stopped, delete them"
        )
    yield _OTHER_FILES


def deleted_bytes(log_dir: Path) -> int:
    """Return the bytes of `*-delete` folders and `*.deleted` files, which a running broker removes later."""
    total = 0
    for folder, _, names in os.walk(log_dir):
        for name in names:
            if folder.endswith("-delete") or name.endswith(".deleted"):
                total += _size(Path(folder, name))
    return total


def _size(path: Path) -> int:
    """Return the bytes of a regular file; 0 if it is no regular file or does not exist."""
    with suppress(OSError):
        status = path.lstat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    return 0


# A file takes whole blocks, of 4 KiB on ext4 and XFS.
BLOCK = 4096


def on_disk(size: int) -> int:
    """Return the bytes on disk of a file of `size` bytes."""
    return -(-size // BLOCK) * BLOCK


def says_space(needed: int, log_dir: Path) -> str:
    """Return the needed (bytes on disk) and the free space in words."""
    return f"{log_dir}: {says_room('the snapshots', needed, disk_of(log_dir))}"
