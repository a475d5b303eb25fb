"""The disk under a log directory: its mount point, kind and space."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tiersnap.snapshot.units import human_bytes

_NEARLY_FULL_PERCENT = 90
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class MountedDisk:
    """One file system; bytes.

    Attributes:
        total: what users other than root may fill.
        free: what they may write now.
        reserved: what root may write besides.
    """

    mount: str
    device: str
    kind: str
    total: int
    free: int
    reserved: int
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
