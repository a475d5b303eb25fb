"""The `.lock` of a log directory: a POSIX lock that a broker holds for as long as it runs."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snapshot.errors import LogDirInUseError


@contextmanager
def locked(log_dir: Path) -> Iterator[None]:
    """Hold the lock as a broker would, so that none starts while files change.

    Raises:
        LogDirInUseError: a broker holds it.
    """
    with (log_dir / ".lock").open("ab") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LogDirInUseError(
                f"{log_dir}: a broker is running on this directory (it holds .lock)",
                hint="stop the broker first: it reads snapshots only when it opens a partition; reading is always safe",
            ) from error
        try:
            yield
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)
