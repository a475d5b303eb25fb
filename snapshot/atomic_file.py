"""Write files so that they appear completely or not at all, even if the process is killed."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from pathlib import Path
from typing import BinaryIO

from tiersnap.snapshot.errors import NoSpaceError, TiersnapError, UsageError
from tiersnap.snapshot.regular_file import NotRegularFileError, kind_of

_log = logging.getLogger(__name__)

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers for a full disk or an exhausted quota."""

_CONTEXT = "security.selinux"
_OPEN_FILES = 128  # limit of files that wait for their fsync
_BUFFER_BYTES = 8192  # explicit, so that opening a file does not query a terminal or a disk for its block size
SUFFIX = ".tmp"  # a broker's loader skips `<20 digits>.snapshot.tmp`


def write_atomically(path: Path, data: bytes, *, replace: bool, like: Path | None = None) -> bool:
    """Write `data` to a temporary file in the same folder, fsync it, and move it to `path`.

    Args:
        replace: whether to replace an existing file.
        like: an existing file; the new file gets its owner, mode and SELinux context.

    Returns:
        False if `path` exists and `replace` is False, else True.

    Raises:
        UsageError: this user may not write to the folder, or its file system is read-only.
        NoSpaceError: the disk is full.
    """
    with Staging() as staging:
        staging.add(path, data, like=like)
        staging.settle()
        if not staging.publish(path, replace=replace):
            return False
    try:
        sync_directory(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    return True


def staged(path: Path) -> Path:
    """Return the path of the temporary file for `path`: `<name>.tmp` in the same folder."""
    return path.with_name(path.name + SUFFIX)


class Staging:
    """A context manager that writes temporary files, syncs them together, and moves each to its path.

    The order of calls is `add`, `settle`, `publish`. Many files are synced together, because the file system then
    commits its journal only once. On exit, unpublished temporary files are deleted. The methods raise the errors of
    `write_atomically`.
    """

    def __init__(self) -> None:
        self._beside: dict[Path, Path] = {}  # temporary files by target
        self._unsynced: list[tuple[Path, BinaryIO]] = []

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, *_: object) -> None:
        for _path, file in self._unsynced:
            with contextlib.suppress(OSError):
                file.close()
        for temporary in self._beside.values():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def add(self, path: Path, data: bytes, *, like: Path | None = None) -> None:
        """Write `data` to a temporary file next to `path`. An old temporary file of a killed process is replaced."""
        temporary = staged(path)
        try:
            file = _created(temporary)
            self._beside[path] = temporary
            self._unsynced.append((path, file))
            file.write(data)
            file.flush()
            _begin_to_store(file)
            if like is not None:
                _copy_owner_and_mode(like, file.fileno())
        except OSError as error:
            raise cannot_write(path, error) from error
        if len(self._unsynced) == _OPEN_FILES:
            self.settle()

    def settle(self) -> None:
        """Sync the added files to the disk."""
        for path, file in self._unsynced:
            try:
                with file:
                    os.fsync(file.fileno())
            except OSError as error:
                raise cannot_write(path, error) from error
        self._unsynced.clear()

    def publish(self, path: Path, *, replace: bool) -> bool:
        """Move a synced file to `path`. The caller must then call `sync_directory`, so that the move is durable.

        Returns:
            False if `path` exists and `replace` is False, else True.
        """
        temporary = self._beside[path]
        try:
            if replace:
                temporary.replace(path)
            else:
                # A rename would overwrite a file that was created in between; a link fails.
                os.link(temporary, path)
                temporary.unlink()
        except FileExistsError:
            _log.debug("left %s as it was", path)
            return False
        except OSError as error:
            raise cannot_write(path, error) from error
        del self._beside[path]
        _log.debug("wrote %s", path)
        return True


def _begin_to_store(file: BinaryIO) -> None:
    """Ask the kernel to start writing the file's pages to the disk, so that a later fsync is short."""
    if hasattr(os, "posix_fadvise"):  # Linux; elsewhere fsync itself writes them
        with contextlib.suppress(OSError):  # only a hint: fsync reports failures
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _created(temporary: Path) -> BinaryIO:
    """Create and open a temporary file; delete an existing one first.

    An existing path is never opened, because it may be a symbolic link through which root would overwrite another file.
    """
    try:
        return temporary.open("xb", _BUFFER_BYTES)
    except FileExistsError:
        temporary.unlink()
        return temporary.open("xb", _BUFFER_BYTES)


def sync_directory(path: Path) -> None:
    """Make renames and links in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cannot_write(path: Path, error: OSError) -> TiersnapError:
    """Return the tiersnap error for an OSError that occurred while `path` was written."""
    message = f"cannot write {path}: {error.strerror or error}"
    if error.errno in FULL:
        return NoSpaceError(message, hint="free some space, then run the same command again")
    if error.errno == errno.EROFS:
        return UsageError(
            message, hint="the file system is mounted read-only: mount -o remount,rw, or write to another place"
        )
    return UsageError(message, hint="run the same command as the user that the broker runs as, or as root")


def _copy_owner_and_mode(like: Path, descriptor: int) -> None:
    status = like.stat(follow_symlinks=False)
    if kind := kind_of(status.st_mode):
        raise NotRegularFileError(kind, str(like))
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, status.st_mode & 0o777)
    _copy_context(like, descriptor)


def _copy_context(like: Path, descriptor: int) -> None:
    """Copy the SELinux context of `like`, so that a confined broker can open the new file.

    If this host has no SELinux, or this user may not set a context, nothing changes. The new file then keeps the
    default context of its directory, as a broker's new files do.
    """
    if not hasattr(os, "getxattr"):  # not Linux
        return
    with contextlib.suppress(OSError):
        context = os.getxattr(like, _CONTEXT, follow_symlinks=False)
        if context != _context_of(descriptor):
            os.setxattr(descriptor, _CONTEXT, context)


def _context_of(descriptor: int) -> bytes | None:
    with contextlib.suppress(OSError):
        return os.getxattr(descriptor, _CONTEXT)
    return None
