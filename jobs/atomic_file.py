"""Files that appear whole or not at all, whatever kills the process in between."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, replace: bool, like: Path | None = None) -> bool:
    """Write `data` to `path` by a temporary neighbour, fsync, and a rename or link.

    The neighbour is named `<name>.tmp`, which a broker's loader passes over, and is simply written anew after a crash.

    Args:
        replace: put it in place of a file that is there; otherwise an existing file wins.
        like: a file whose owner and mode the new one gets.
    Returns:
        Whether the file was written; False when one was there and `replace` is False.
    """
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            _copy_owner_and_mode(like, file.fileno())
        os.fsync(file.fileno())
    try:
        if replace:
            temporary.replace(path)
        else:
            # A rename would overwrite what appeared meanwhile; a link refuses.
            os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
    return True


def sync_directory(path: Path) -> None:
    """Make renames and links in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_owner_and_mode(like: Path, descriptor: int) -> None:
    status = like.stat()
    os.fchmod(descriptor, status.st_mode & 0o7777)
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, status.st_uid, status.st_gid)
