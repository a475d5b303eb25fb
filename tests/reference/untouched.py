"""What changes of a file when it is written or replaced; its access time may change when it is read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def as_written(paths: Iterable[Path]) -> dict[Path, tuple[int, ...]]:
    """Of the files, by path: inode, mode, owner, group, size and time of the last write (ns)."""
    found = {path: path.stat() for path in paths if path.is_file()}
    return {
        path: (each.st_ino, each.st_mode, each.st_uid, each.st_gid, each.st_size, each.st_mtime_ns)
        for path, each in found.items()
    }
