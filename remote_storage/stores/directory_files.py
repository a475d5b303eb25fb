"""Files below the folder of a directory store, and `.tiersnap-unfinished`, in which they are made.

Names cannot be foretold and bear our mark (`tiersnap-<32 hex digits>.<end of the key>`); what does not is never
removed. The store's lock lies here as well (flock), taken for the moment in which a writer compares and renames; who
dies gives it up. The clock is that of the file system and not of one of its hosts: the time of a file made for it.

The store's folder itself is the user's choice and may be a symlink. Below it every component is opened by itself,
relative to the one before (dir_fd, O_NOFOLLOW): who may write there cannot send us elsewhere, not even while we look.
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
    """A file that is being made: the descriptor of its folder, its name in it, and whether it has another one since."""

    folder: int
    name: str
    renamed: bool = False

    def status(self) -> os.stat_result:
        """Return the status of the file."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def link(self, folder: int, name: str) -> None:
        """Give it its name, or raise FileExistsError."""
        try:
            os.link(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            # A network file system may repeat a link whose answer was lost, and then meets its own.
            if not os.path.samestat(self.status(), os.stat(name, dir_fd=folder, follow_symlinks=False)):
                raise
        os.fsync(folder)

    def rename(self, folder: int, name: str) -> None:
        """Give it its name, whoever had it."""
        os.rename(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder)
        self.renamed = True
        os.fsync(folder)


@dataclass(frozen=True, slots=True)
class UnfinishedFolder:
    """`.tiersnap-unfinished` below `root`; methods raise OSError, or TransientError when time is over."""

    root: Path
    asks_clock: bool = True  # whether a file may be made to ask the file system's clock

    @contextmanager
    def temporary(self, file_name: str) -> Iterator[Temporary]:
        """A name for a file that will be called `file_name`; what still has it at the end is removed."""
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
        """No other writer that asks for the lock changes the store."""
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
        """ms, by the file system's clock; by this host's where no file may be made."""
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
        """Yield leftovers of killed processes, and files that others are writing."""
        try:
            with opened_folder(self.root, (UNFINISHED,)) as folder:
                files = sorted(entries(folder)[1], key=lambda file: file[0])
        except FileNotFoundError:
            return
        ours = [(name, match[1], status) for name, status in files if (match := _OURS.fullmatch(name))]
        now = self.now() if ours else 0
        for name, tail, status in ours:
            written = status.st_mtime_ns // 1_000_000
            yield UnfinishedUpload(tail, name, written, max(0, now - written), is_ours=True)

    def remove(self, name: str) -> None:
        """Remove one of them; one that is gone is fine, and one without our mark is left alone."""
        if _OURS.fullmatch(name) is None:
            return
        with suppress(FileNotFoundError), opened_folder(self.root, (UNFINISHED,)) as folder:
            os.unlink(name, dir_fd=folder)
            _log.debug("removed %s, which nobody finishes, below %s", name, self.root)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
