"""A small file system that can be filled: a tmpfs where this process may mount one."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

_FILLER = "filler"
_LEFT = 64 << 10  # bytes; less than a segment


class SmallDisk:
    """`folder` on a file system of its own; where that cannot be, `is_small` is False, and it is never filled."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tiersnap-chaos", str(folder)]
        try:
            self.is_small = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            self.is_small = False

    def fill(self, left: int = _LEFT) -> None:
        """Leave so many bytes; others who write meanwhile may leave less."""
        assert self.is_small
        with (self.folder / _FILLER).open("wb") as file, contextlib.suppress(OSError):
            space = os.statvfs(self.folder)
            os.posix_fallocate(file.fileno(), 0, max(space.f_bavail * space.f_frsize - left, 1))

    def empty(self) -> None:
        """Take the filler away."""
        (self.folder / _FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount; what was on it is gone."""
        if self.is_small:
            subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=False)
