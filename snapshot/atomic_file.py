"""Files that appear whole or not at all, whatever kills the process in between."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from pathlib import Path

from tiersnap.snapshot.errors import NoSpaceError, TiersnapError, UsageError
from tiersnap.snapshot.regular_file import NotRegularFileError, kind_of

_log = logging.getLogger(__name__)

_CONTEXT = "security.selinux"
SUFFIX = ".tmp"  # a broker's loader passes over `<20 digits>.snapshot.tmp`


def write_atomically(path: Path, data: bytes, *, replace: bool, like: Path | None = None) -> bool:
    """Write `data` to `path` by a temporary neighbour, fsync, and a rename or link.

    Args:
        replace: put it in place of a file that is there; otherwise an existing file wins.
        like: a file whose owner, mode and SELinux context the new one gets.
    Returns:
        Whether the file was written; False when one was there and `replace` is False.

    Raises:
        UsageError: this user may not write there.
        NoSpaceError: the disk is full.
    """
    stage(path, data, like=like)
    if not publish(path, replace=replace):
        return False
    try:
        sync_directory(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    return True


def staged(path: Path) -> Path:
    """The temporary neighbour of `path`, `<name>.tmp`."""
    return path.with_name(path.name + SUFFIX)


def stage(path: Path, data: bytes, *, like: Path | None = None) -> None:
    """Write `data` durably beside `path`; what a killed process left there is thrown away. Raises as write_atomically.

    Nothing is left there when it fails.
    """
    temporary = staged(path)
    try:
        # Made anew, never opened: as root one would follow a link that the directory's owner put there.
        temporary.unlink(missing_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                if like is not None:
                    _copy_owner_and_mode(like, file.fileno())
                os.fsync(file.fileno())
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def publish(path: Path, *, replace: bool) -> bool:
    """Put the staged file in place; as write_atomically, but for the directory, which is to be synced."""
    temporary = staged(path)
    try:
        try:
            if replace:
                temporary.replace(path)
            else:
                # A rename would overwrite what appeared meanwhile; a link refuses.
                os.link(temporary, path)
            _log.debug("wrote %s", path)
        except FileExistsError:
            _log.debug("left %s as it was", path)
            return False
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return True


def sync_directory(path: Path) -> None:
    """Make renames and links in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cannot_write(path: Path, error: OSError) -> TiersnapError:
    """What to raise for an error of the operating system while writing `path`."""
    message = f"cannot write {path}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(message, hint="free some space and give the same command again; what is written is whole")
    return UsageError(message, hint="run it as the user that the broker runs as, or as root")


def _copy_owner_and_mode(like: Path, descriptor: int) -> None:
    status = like.stat(follow_symlinks=False)
    if kind := kind_of(status.st_mode):
        raise NotRegularFileError(kind, str(like))
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, status.st_mode & 0o777)
    _copy_context(like, descriptor)


def _copy_context(like: Path, descriptor: int) -> None:
    """Give the file the SELinux context of its neighbour, where there is one: a confined broker could not open it.

    A kernel without SELinux has none, and one with it may keep this user from setting it; then the file has what the
    policy gives to new files in that directory, which is what the broker's own get.
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
