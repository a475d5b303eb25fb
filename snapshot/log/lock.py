"""The `.lock` of a log directory: a POSIX lock that a broker holds for as long as it runs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiersnap.snapshot.atomic_file import cannot_write
from tiersnap.snapshot.errors import LogDirInUseError


@contextmanager
def locked(log_dir: Path) -> Iterator[None]:
    """Hold the lock as a broker would, so that none starts while files change.

    Raises:
        LogDirInUseError: a broker holds it.
        UsageError: this user may not open it.
    """
    path = log_dir / ".lock"
    try:
        descriptor = _open(path)
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
        yield
    finally:
        # Closing gives the lock back. The file stays, as a broker leaves it: who unlinks it may unlink another's lock.
        os.close(descriptor)


def _open(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR)
    # No broker was ever here. One that runs as the directory's owner must be able to open the file later.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    owner = path.parent.stat()
    if os.geteuid() == 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor
