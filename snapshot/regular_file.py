"""Read regular files of a bounded size, and refuse everything else under their names.

A FIFO in place of a checkpoint would block the reader forever, `/dev/zero` would fill its memory, and a link could make
root read a file that the link's owner may not. So a local file is opened without blocking, without following a link in
its last path component, and is checked before it is read. Partition folders and log directories may be links, because
operators link them to other disks; a broker's files never are.
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
    """Raised when a path is no regular file; `strerror` names the kind."""

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(errno.EINVAL, f"not a regular file: {kind}", path)


class FileTooLargeError(OSError):
    """Raised when a file is larger than any of its kind can be; `strerror` has its size."""

    def __init__(self, size: int, limit: int, path: str) -> None:
        said = f"{human_bytes(size)}, and no file of its kind has more than {human_bytes(limit)}"
        super().__init__(errno.EFBIG, said, path)


def kind_of(mode: int) -> str | None:
    """Return the kind of a file with this `st_mode`, None for a regular one."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), None)


def open_regular(path: str | os.PathLike[str], *, follow: bool = False) -> int:
    """Return a descriptor of the file, for reading.

    Args:
        follow: also through a link, for a path that a person gave.

    Raises:
        NotRegularFileError: it is a FIFO, a device, a folder or a link.
        OSError: it cannot be opened.
    """
    name = os.fspath(path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(name, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegularFileError("a symbolic link", name) from error
        if error.errno == errno.ENXIO:
            raise NotRegularFileError("a socket, or a device that is not there", name) from error
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
        FileTooLargeError: it is larger.
        NotRegularFileError, OSError: as `open_regular`.
    """
    descriptor = open_regular(path, follow=follow)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise FileTooLargeError(size, limit, os.fspath(path))
        return file.read(size)


def read_text(path: Path, *, limit: int = TEXT_BYTES, follow: bool = False) -> str:
    """Return a small text file; bytes that are not UTF-8 are replaced, so that the parser reports them."""
    return read_regular(path, limit=limit, follow=follow).decode("utf-8", "replace")
