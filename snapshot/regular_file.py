"""Read regular files of a bounded size, and refuse FIFOs, sockets, devices, folders and links.

A FIFO would block the reader forever, and `/dev/zero` would fill its memory. A link could make root read a file that
the link's owner may not read. So a file is opened without blocking and without following a link in its last path
component, and its kind is checked before it is read. Folders in its path may be links, because operators link partition
folders and log directories to other disks.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path

from tiersnap.snapshot.units import human_bytes

_log = logging.getLogger(__name__)

TEXT_BYTES = 64 << 20  # about a million partitions in a checkpoint
SMALL_FILE_BYTES = 1 << 30  # snapshots and indexes; 1 M producers and their transactions are 50 MB

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a symbolic link"),
)


class NotRegularFileError(OSError):
    """Raised when a path is not a regular file; `strerror` names the kind of file."""

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(errno.EINVAL, f"not a regular file: {kind}", path)


class FileTooLargeError(OSError):
    """Raised when a file is larger than the limit for its kind; `strerror` contains its size."""

    def __init__(self, size: int, limit: int, path: str) -> None:
        super().__init__(errno.EFBIG, f"the file has {human_bytes(size)}, expected at most {human_bytes(limit)}", path)


def kind_of(mode: int) -> str | None:
    """Return a name for the kind of file in `mode` (`st_mode`), or None for a regular file."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), None)


def open_regular(path: str | os.PathLike[str], *, follow: bool = False) -> int:
    """Open a regular file for reading, and return its descriptor.

    Args:
        follow: whether to follow a symbolic link, for a path that a user gave.

    Raises:
        NotRegularFileError: the path is a FIFO, a socket, a device, a folder or a link.
        OSError: the file cannot be opened.
    """
    name = os.fspath(path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    if not follow:
        flags |= os.O_NOFOLLOW
    try:
        descriptor = os.open(name, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegularFileError("a symbolic link", name) from error
        if error.errno == errno.ENXIO:
            raise NotRegularFileError("a socket, or a device that does not exist", name) from error
        raise
    try:
        kind = kind_of(os.fstat(descriptor).st_mode)
        if kind is not None:
            raise NotRegularFileError(kind, name)
    except OSError:
        os.close(descriptor)
        raise
    _log.debug("reading %s", name)
    return descriptor


def read_regular(path: str | os.PathLike[str], *, limit: int = SMALL_FILE_BYTES, follow: bool = False) -> bytes:
    """Return the content of a local file of at most `limit` bytes.

    Raises:
        FileTooLargeError: the file is larger than `limit`.
        NotRegularFileError, OSError: see `open_regular`.
    """
    descriptor = open_regular(path, follow=follow)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise FileTooLargeError(size, limit, os.fspath(path))
        return file.read(size)


def read_text(path: Path, *, limit: int = TEXT_BYTES, follow: bool = False) -> str:
    """Return the text of a local file of at most `limit` bytes, with invalid UTF-8 replaced by U+FFFD.

    The replacement makes the parser of the file report the damage. Raises the errors of `read_regular`.
    """
    return read_regular(path, limit=limit, follow=follow).decode("utf-8", "replace")
