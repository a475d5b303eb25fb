"""A folder that restore creates in another user's directory, and accesses through its descriptor.

Restore runs as root in a directory that another user owns. Therefore the folder has a random name, and restore always
creates it. Restore accesses its files through the folder's descriptor, follows no symlink, and never opens an existing
file for writing. A marker file identifies an unfinished folder of restore. A folder without the marker is never emptied
or removed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tiersnap.snapshot.regular_file import read_regular

_log = logging.getLogger(__name__)

MARKER = "tiersnap-restore.json"
PART = ".part"
_MARKER_BYTES = 4096
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class OwnFolder:
    """A folder that is accessed through its descriptor."""

    def __init__(self, path: Path, *, like: Path | None = None) -> None:
        """Open the folder at `path`, which must be a directory and no symlink.

        Args:
            like: a file beside the folder. New files get the mode of this file, and the owner of the parent directory.
                If that owner is root, as on some mounted disks, they get the owner of `like`.

        Raises:
            OSError: the folder cannot be opened.
        """
        self.path = path  # for messages and for reads; all writes use the descriptor
        self._mode = None
        self._owner = path.parent.stat()
        if like is not None:
            status = like.stat(follow_symlinks=False)
            self._mode = status.st_mode
            if self._owner.st_uid == 0:
                self._owner = status
        self._descriptor = os.open(path, _DIRECTORY)

    @classmethod
    def made(cls, parent: Path, prefix: str, plan: str, *, like: Path | None = None) -> OwnFolder:
        """Create and return a folder `<prefix><16 hex>` with the mode of `parent`. Its marker contains `plan`."""
        path = parent / f"{prefix}{secrets.token_hex(8)}"
        directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.mkdir(path.name, 0o700, dir_fd=directory)
            folder = cls(path, like=like)
            with folder.new_file(MARKER) as file:
                file.write(json.dumps({"version": 1, "plan": plan}).encode("ascii"))
            _give(folder._descriptor, folder._owner, os.fstat(directory).st_mode)
            os.fsync(directory)
            _log.debug("made %s", path)
        finally:
            os.close(directory)
        return folder

    @contextmanager
    def new_file(self, name: str) -> Iterator[BinaryIO]:
        """Create a file for writing, and sync it at the end of the `with` block.

        An existing file is unlinked first. If an error occurs, the new file is unlinked, too.
        """
        self.remove(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(name, flags, 0o600, dir_fd=self._descriptor)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
                yield file
                file.flush()
                if self._mode is not None:
                    _give(descriptor, self._owner, self._mode)
                os.fsync(descriptor)
        except BaseException:
            self.remove(name)
            raise

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if the file does not exist or is a symlink."""
        try:
            return read_regular(self.path / name)
        except OSError:
            return None

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, or None if it does not exist."""
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_size
        except FileNotFoundError:
            return None

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file, and replace an existing file."""
        _log.debug("%s becomes %s", self.path / name, new_name)
        os.rename(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Unlink a name if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def names(self) -> list[str]:
        """Return the names of all files in the folder except the marker, ascending."""
        return sorted(name for name in os.listdir(self._descriptor) if name != MARKER)  # noqa: PTH208 - a descriptor

    def sync(self) -> None:
        """Make the names in the folder durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def __enter__(self) -> OwnFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def plan_of(path: Path) -> str | None:
    """Return the plan in the marker of an unfinished folder, or None if there is no marker.

    Return "" if the marker is incomplete or the folder is empty. In both cases a restore was killed before it wrote any
    data into the folder.
    """
    try:
        with OwnFolder(path) as folder:
            if not os.listdir(folder._descriptor):  # noqa: PTH208 - a descriptor
                return ""
        data = read_regular(path / MARKER, limit=_MARKER_BYTES)
    except OSError:
        return None
    try:
        plan = json.loads(data)["plan"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if not isinstance(plan, str):
        return ""
    return plan


def remove_own(path: Path) -> None:
    """Delete an unfinished folder if it has restore's marker.

    Raises:
        OSError: the folder cannot be deleted.
    """
    if plan_of(path) is None:
        return
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        shutil.rmtree(path.name, dir_fd=parent)
        _log.debug("deleted %s", path)
    finally:
        os.close(parent)


def _give(descriptor: int, owner: os.stat_result, mode: int) -> None:
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    os.fchmod(descriptor, mode & 0o777)
