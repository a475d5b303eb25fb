"""Find the disk of a log directory and its free space, and name the ways to free a full disk.

All commands describe missing space with the functions of this module.
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
    """A mounted file system. Sizes are in bytes."""

    mount: str
    device: str
    kind: str
    total: int  # bytes that users other than root may use
    free: int  # bytes that they can still write
    reserved: int  # free bytes that only root may use
    is_read_only: bool

    @property
    def writable(self) -> int:
        """Return the bytes that this process can still write."""
        if os.geteuid() == 0:
            return self.free + self.reserved
        return self.free

    def says_free(self) -> str:
        """Return the free bytes in words.

        If the disk is nearly full and this process runs as root, the text also has the bytes that are reserved for
        root.
        """
        if self.is_nearly_full and self.writable > self.free:
            return f"{human_bytes(self.free)} and {human_bytes(self.reserved)} for root"
        return human_bytes(self.free)

    @property
    def is_nearly_full(self) -> bool:
        """Return whether at least 90 % of `total` is used."""
        return self.percent_full >= _NEARLY_FULL_PERCENT

    @property
    def is_full(self) -> bool:
        """Return whether less than 1 % of `total` is free."""
        return self.percent_full >= 100

    @property
    def percent_full(self) -> int:
        """Return the used percentage of `total`, rounded up as `df` does."""
        if not self.total:
            return 0
        return -(-100 * (self.total - self.free) // self.total)


def disk_of(path: Path, *, mounts: Path = Path("/proc/self/mounts")) -> MountedDisk:
    """Return the file system that contains `path`.

    Args:
        mounts: the kernel's list of mounts. If it cannot be read, device and kind are "".

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
    """Return (device, kind) by mount point. If several mounts have the same mount point, the last one is returned."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return {}
    found: dict[str, tuple[str, str]] = {}
    for words in (line.split(" ") for line in lines):
        if len(words) > 2:
            found[_plain(words[1])] = (_plain(words[0]), words[2])
    return found


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


_OTHER_FILES = (
    "move other files away, such as heap dumps; delete no .log, .index or .snapshot file by hand: "
    "tiersnap runbook 'A full disk'"
)


def says_room(what: str, needed: int, disk: MountedDisk) -> str:
    """Return a sentence with the needed and the free bytes.

    If the free bytes are too few, the sentence also has the missing bytes.

    Args:
        what: the subject of the sentence, in the plural.
        needed: bytes on disk.
    """
    sentence = f"{what} need {human_bytes(needed)}, and {disk.says_free()} are free"
    short = needed - disk.writable
    if short > 0:
        return f"{sentence}: make room for {human_bytes(short)} more; existing files stay intact"
    return sentence


def ways_to_free(disk: MountedDisk, deleted: int) -> Iterator[str]:
    """Yield ways to free the disk without deleting records, the fastest first.

    Args:
        deleted: result of `deleted_bytes`.
    """
    if disk.reserved and disk.kind.startswith("ext"):
        kept = human_bytes(disk.reserved)
        yield f"tune2fs -m 0 {disk.device}   frees {kept}, which {disk.kind} reserves for root"
    if deleted:
        yield (
            f"the broker has marked {human_bytes(deleted)} as deleted (*-delete, *.deleted), and removes these "
            "files within a minute or at its next start; while the broker is stopped, you may delete them"
        )
    yield _OTHER_FILES


def deleted_bytes(log_dir: Path) -> int:
    """Return the bytes of `*-delete` folders and `*.deleted` files, which a running broker removes soon."""
    total = 0
    for folder, _, names in os.walk(log_dir):
        for name in names:
            if folder.endswith("-delete") or name.endswith(".deleted"):
                total += _size(Path(folder, name))
    return total


def _size(path: Path) -> int:
    """Return the bytes of a regular file; 0 if the path is no regular file or does not exist."""
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            return status.st_size
    return 0


# Bytes of a block on ext4 and XFS. A file takes a whole number of blocks.
BLOCK = 4096


def on_disk(size: int) -> int:
    """Return the bytes that a file of `size` bytes takes on disk."""
    return -(-size // BLOCK) * BLOCK


def says_space(needed: int, log_dir: Path) -> str:
    """Return a sentence with the free space and the space that snapshots need. `needed` is in bytes on disk."""
    return f"{log_dir}: {says_room('the snapshots', needed, disk_of(log_dir))}"
