"""File systems of log directories: local disks, read with the standard library, and a protocol for others."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from tiersnap.snapshot.regular_file import SMALL_FILE_BYTES, FileTooLargeError, kind_of, open_regular, read_regular

FOLDER = "a folder"
_FIRST_NS, _LAST_NS = -(2**63), 2**63 - 1  # tables and metadata store times as int64


class Entry(NamedTuple):
    r"""A file or folder in a listing."""

    name: str  # for display: bytes that are not UTF-8 are escaped as `\xff`. Kafka writes no such names
    path: str
    kind: str | None  # None for a regular file, FOLDER for a folder or a link to one, else the kind in words
    size: int  # bytes; 0 for a folder
    modified_ns: int  # since the epoch; bounded to the range of 64 bits (1677 to 2262)


class FileSystem(Protocol):
    """A file system. Its methods take paths inside it, and raise OSError if they fail."""

    @property
    def is_local(self) -> bool:
        """Return whether the files are on a disk of this host."""

    def list_folder(self, path: str) -> list[Entry]:
        """Return the entries of a folder, ascending by name. Files that are deleted during the call are omitted."""

    def is_gone(self, path: str) -> bool:
        """Return whether nothing exists at the path, not even a broken link."""

    def size_of(self, path: str) -> int | None:
        """Return the size of a regular file in bytes; None if the path is no regular file."""

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading."""


@dataclass(frozen=True)
class LocalFileSystem:
    """The local disks of this host."""

    is_local = True

    def list_folder(self, path: str) -> list[Entry]:
        """See FileSystem."""
        entries: list[Entry] = []
        with os.scandir(path) as found:
            for each in found:
                entry = _entry(path, each)
                if entry is not None:
                    entries.append(entry)
        return sorted(entries)

    def is_gone(self, path: str) -> bool:
        """See FileSystem."""
        return not os.path.lexists(path)

    def size_of(self, path: str) -> int | None:
        """See FileSystem."""
        try:
            status = Path(path).stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def open(self, path: str) -> BinaryIO:
        """See FileSystem. Raises NotRegularFileError: the path is a link or no regular file."""
        return open(open_regular(path), "rb")  # noqa: PTH123 - a descriptor, closed by the caller


LOCAL = LocalFileSystem()


def _entry(folder: str, each: os.DirEntry[str]) -> Entry | None:
    name = os.fsencode(each.name).decode("utf-8", "backslashreplace")
    try:
        status = each.stat(follow_symlinks=False)
    except OSError:
        return None
    # Follow links to folders, because operators link partition folders to other disks; never follow links to files.
    kind = FOLDER if _is_folder(each) else kind_of(status.st_mode)
    size = 0 if kind == FOLDER else status.st_size
    return Entry(name, f"{folder}/{name}", kind, size, min(max(status.st_mtime_ns, _FIRST_NS), _LAST_NS))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether the entry is a folder or a link to a folder; False for a link to itself."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def read_bounded(filesystem: FileSystem, path: str, *, limit: int = SMALL_FILE_BYTES) -> bytes:
    """Return the content of a file of at most `limit` bytes.

    Raises:
        FileTooLargeError: the file is larger than `limit`.
        OSError: the file cannot be read.
    """
    if filesystem.is_local:
        return read_regular(path, limit=limit)
    with filesystem.open(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > limit:
            raise FileTooLargeError(size, limit, path)
        file.seek(0)
        return bytes(file.read(size))
