"""A folder that restore builds in another user's directory, held by its descriptor.

Restore runs as root in a directory that another user owns. So the folder has a random name, and restore always creates
it. Restore reaches its files through its descriptor, follows no link, and creates files instead of opening existing
ones for writing. A marker file identifies our unfinished folders; a folder without one is never emptied or removed.
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
    """A folder by its descriptor."""

    def __init__(self, path: Path, *, like: Path | None = None) -> None:
        """Open the folder at `path`, which must be a directory and no link.

        Args:
            like: a file in the same directory, whose mode new files get. Their owner is the owner of the directory,
                which a broker writes to; if root owns it, as a mounted disk may be, the owner of the file.

        Raises:
            OSError: it cannot be opened.
        """
        self.path = path  # for messages and for reading; nothing is written through it
        self._mode = None if like is None else like.stat(follow_symlinks=False).st_mode
        around = path.parent.stat()
        self._owner = around if like is None or around.st_uid else like.stat(follow_symlinks=False)
        self._descriptor = os.open(path, _DIRECTORY)

    @classmethod
    def made(cls, parent: Path, prefix: str, plan: str, *, like: Path | None = None) -> OwnFolder:
        """Make a folder `<prefix><16 hex>` with a marker that names the plan and the mode of `parent`; return it."""
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
        """Write a file, and sync it at the end; a file of that name is unlinked first. An error leaves no file."""
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
        """Return the content of a small file; None if the name is absent or a link."""
        try:
            return read_regular(self.path / name)
        except OSError:
            return None

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None without one."""
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_size
        except FileNotFoundError:
            return None

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file over another one."""
        _log.debug("%s becomes %s", self.path / name, new_name)
        os.rename(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Unlink a name, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def names(self) -> list[str]:
        """Return the names in the folder, without the marker."""
        return sorted(name for name in os.listdir(self._descriptor) if name != MARKER)  # noqa: PTH208 - a descriptor

    def sync(self) -> None:
        """Make its names durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._descriptor)

    def __enter__(self) -> OwnFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def plan_of(path: Path) -> str | None:
    """Return the plan that the marker of an unfinished folder names; "" if it was cut short, None without a marker.

    An empty folder gives "", too: a restore was killed when it had just created it, and there is nothing to lose.
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
    return plan if isinstance(plan, str) else ""


def remove_own(path: Path) -> None:
    """Delete an unfinished folder if it has our marker.

    Raises:
        OSError: it cannot be deleted.
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
