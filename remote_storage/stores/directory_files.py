"""Files below the folder of a directory store, and its folder `.tiersnap-unfinished` for unfinished files.

The name of an unfinished file is random and has tiersnap's mark: `tiersnap-<32 hex digits>.<end of the key>`. tiersnap
never removes a file without the mark. The folder also contains the store's lock file (flock). A writer holds the lock
while it checks the ETag of the existing object and renames the new file. If the writer dies, the kernel releases the
lock. To read the file system's clock, tiersnap creates a file and reads its modification time.

The user chooses the store's folder, which may be a symlink. Below this folder, tiersnap opens every path component
relative to the previous one (dir_fd, O_NOFOLLOW), so another user with write access cannot redirect a write.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import stat
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tiersnap.remote_storage.stores.object_store import UnfinishedUpload
from tiersnap.remote_storage.stores.requests import Deadline, current, earliest

_log = logging.getLogger(__name__)

UNFINISHED = ".tiersnap-unfinished"
_LOCK = "lock"
_LOCK_SECONDS = 30.0
_OURS = re.compile(r"tiersnap-[0-9a-f]{32}\.([^/]*)", re.DOTALL)


@dataclass(slots=True)
class Temporary:
    """A file that is being written."""

    folder: int  # descriptor of the file's folder
    name: str
    renamed: bool = False

    def status(self) -> os.stat_result:
        """Return the status of the file."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def link(self, folder: int, name: str) -> None:
        """Link the file to its final name. Raises FileExistsError: another file has this name."""
        try:
            os.link(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            # If the answer to a link was lost, a network file system repeats the link and finds its own.
            if not os.path.samestat(self.status(), os.stat(name, dir_fd=folder, follow_symlinks=False)):
                raise
        os.fsync(folder)

    def rename(self, folder: int, name: str) -> None:
        """Rename the file to its final name, and replace an existing file."""
        os.rename(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder)
        self.renamed = True
        os.fsync(folder)


@dataclass(frozen=True, slots=True)
class UnfinishedFolder:
    """The folder `.tiersnap-unfinished` below `root`. Methods raise OSError."""

    root: Path
    asks_clock: bool = True  # whether a file may be created to read the file system's clock

    @contextmanager
    def temporary(self, file_name: str) -> Iterator[Temporary]:
        """Yield the name of a temporary file that will become `file_name`.

        At the end of the `with` block, remove the file if the caller did not rename it.
        """
        tail = os.fsdecode(os.fsencode(file_name)[-160:])
        with opened_folder(self.root, (UNFINISHED,), make=True) as folder:
            temporary = Temporary(folder, f"tiersnap-{uuid.uuid4().hex}.{tail}")
            try:
                yield temporary
            finally:
                if not temporary.renamed:
                    with suppress(FileNotFoundError):
                        os.unlink(temporary.name, dir_fd=folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store's lock during the `with` block. Raises TransientError: another writer holds it too long."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        limit = earliest(Deadline(_LOCK_SECONDS), current())
        with opened_folder(self.root, (UNFINISHED,), make=True) as folder:
            lock = os.open(_LOCK, flags, 0o666, dir_fd=folder)
        try:
            while not _taken(lock):
                limit.check(f"wait for the lock of {self.root}")
                time.sleep(0.005)
            _log.debug("locked %s", self.root)
            yield
        finally:
            os.close(lock)

    def now(self) -> int:
        """Return the time in ms by the file system's clock. If no file can be created, return the time of this host."""
        if not self.asks_clock:
            return time.time_ns() // 1_000_000
        try:
            with self.temporary("time") as temporary:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                os.close(os.open(temporary.name, flags, 0o600, dir_fd=temporary.folder))
                return temporary.status().st_mtime_ns // 1_000_000
        except OSError:
            return time.time_ns() // 1_000_000

    def uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield tiersnap's unfinished files: leftovers of killed processes, and files of running writers."""
        try:
            with opened_folder(self.root, (UNFINISHED,)) as folder:
                files = sorted(entries(folder)[1], key=lambda file: file[0])
        except FileNotFoundError:
            return
        now: int | None = None
        for name, status in files:
            match = _OURS.fullmatch(name)
            if match is None:
                continue
            if now is None:
                now = self.now()
            written = status.st_mtime_ns // 1_000_000
            yield UnfinishedUpload(match[1], name, written, max(0, now - written), is_ours=True)

    def remove(self, name: str) -> None:
        """Remove the unfinished file `name`. Ignore a missing file, and a file without tiersnap's mark."""
        if _OURS.fullmatch(name) is None:
            return
        with suppress(FileNotFoundError), opened_folder(self.root, (UNFINISHED,)) as folder:
            os.unlink(name, dir_fd=folder)
            _log.debug("removed the unfinished file %s below %s", name, self.root)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK the open of a FIFO waits for a writer forever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened_folder(root: Path, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """Yield the descriptor of the folder `parts` below `root`. If `make` is True, create and sync missing folders.

    Raises:
        OSError: a folder cannot be opened. A symlink raises NotADirectoryError.
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
    """Open a plain file of a folder for reading.

    Raises:
        OSError: ELOOP for a symlink, IsADirectoryError for a folder, EINVAL for any other special file.
    """
    descriptor = os.open(name, _FILE, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        yield file


@contextmanager
def new_file(folder: int, name: str) -> Iterator[BinaryIO]:
    """Create a file for writing, and sync the file at the end of the `with` block."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def entries(folder: int, beginning: str = "") -> tuple[list[str], list[tuple[str, os.stat_result]]]:
    """Return the names of the folders in a folder, and the names and status of its plain files.

    Symlinks and special files are skipped.

    Args:
        beginning: names without this beginning are skipped, and their status is not read.
    """
    folders, files = [], []
    for name in os.listdir(folder):  # scandir would be slower if few of many names have this beginning
        if not name.startswith(beginning):
            continue
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue  # deleted meanwhile
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
    with suppress(FileExistsError):  # another writer created it
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
