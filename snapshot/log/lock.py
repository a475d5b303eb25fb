"""The `.lock` of a log directory: a POSIX lock that a broker holds for as long as it runs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiersnap.snapshot.atomic_file import cannot_write
from tiersnap.snapshot.errors import LogDirInUseError
from tiersnap.snapshot.regular_file import NotRegularFileError, kind_of

_log = logging.getLogger(__name__)

# A link would be created elsewhere, and given away there.
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def locked(log_dir: Path) -> Iterator[None]:
    """Hold the lock as a broker would, so that none starts while files change.

    Raises:
        LogDirInUseError: a broker holds it.
        UsageError: this user may not open it, or it is no regular file.
    """
    path = log_dir / ".lock"
    try:
        descriptor = _open(log_dir)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise cannot_write(path, error) from error
            raise LogDirInUseError(
                f"{log_dir}: a broker is running on this directory (it holds .lock)",
                hint="stop the broker first: it reads snapshots only when it opens a partition; reading is always safe",
            ) from error
        _log.debug("locked %s", path)
        yield
    finally:
        # Closing gives the lock back. The file stays, as a broker leaves it: who unlinks it may unlink another's lock.
        os.close(descriptor)


def _open(log_dir: Path) -> int:
    directory = os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while True:
            with contextlib.suppress(FileNotFoundError):
                return _regular(os.open(".lock", _FLAGS, dir_fd=directory), log_dir)
            # No broker was ever here. One that runs as the directory's owner must be able to open the file later.
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(".lock", _FLAGS | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=directory)
                owner = os.fstat(directory)
                if os.geteuid() == 0:
                    os.fchown(descriptor, owner.st_uid, owner.st_gid)
                return descriptor
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegularFileError("a symbolic link", str(log_dir / ".lock")) from error
        raise
    finally:
        os.close(directory)


def _regular(descriptor: int, log_dir: Path) -> int:
    kind = kind_of(os.fstat(descriptor).st_mode)
    if kind is not None:
        os.close(descriptor)
        raise NotRegularFileError(kind, str(log_dir / ".lock"))
    return descriptor
