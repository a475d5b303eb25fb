"""Files below one folder, reached without following a symlink.

The folder itself is the user's choice and may be a symlink. Below it every component is opened by itself, relative to
the one before (dir_fd, O_NOFOLLOW): who may write there cannot send us elsewhere, not even while we look.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_log = logging.getLogger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK the open of a FIFO waits for a writer, for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened_folder(root: Path, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """Descriptor of the folder `parts` below `root`; `make` makes what is missing, and syncs it.

    Raises:
        OSError: NotADirectoryError also for a symlink.
    """
    try:
        folder = os.open(root, _FOLDER)
    except FileNotFoundError:
        if not make:
            raise
        _make_root(root)
        folder = os.open(root, _FOLDER)
    try:
        for part in parts:
            inner = _open_inner(folder, part, make=make)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


@contextmanager
def opened_file(folder: int, name: str) -> Iterator[BinaryIO]:
    """A plain file of a folder, for reading.

    Raises:
        OSError: ELOOP for a symlink, EINVAL for what is neither file nor folder, IsADirectoryError.
    """
    descriptor = os.open(name, _FILE, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a plain file", name)
        yield file


@contextmanager
def new_file(folder: int, name: str) -> Iterator[BinaryIO]:
    """A file that was not there, for writing; synced at the end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def entries(folder: int, beginning: str = "") -> tuple[list[str], list[tuple[str, os.stat_result]]]:
    """Names of the folders in a folder, and names and status of the plain files; nothing else is an object.

    Args:
        beginning: of the names that are wanted; only those are asked for their status.
    """
    folders, files = [], []
    for name in os.listdir(folder):  # not scandir: of thousands of entries often a few are wanted
        if not name.startswith(beginning):
            continue
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue  # deleted since
        if stat.S_ISDIR(status.st_mode):
            folders.append(name)
        elif stat.S_ISREG(status.st_mode):
            files.append((name, status))
    return folders, files


def _open_inner(folder: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another writer made it
        os.mkdir(name, dir_fd=folder)
        _log.debug("made the folder %s of a store", name)
    os.fsync(folder)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


def _make_root(root: Path) -> None:
    if root.is_dir():
        return
    _make_root(root.parent)
    root.mkdir(exist_ok=True)
    _log.debug("made %s", root)
    parent = os.open(root.parent, _FOLDER)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
