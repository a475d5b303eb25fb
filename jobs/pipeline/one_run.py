"""A warehouse has one writer at a time."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tiersnap.snapshot.errors import TransientError, UsageError
from tiersnap.snapshot.log.log_dir import resolve


@contextmanager
def only_run(warehouse: str) -> Iterator[None]:
    """Keep other runs off a warehouse on a local disk, for as long as this process lives.

    A second run would take the copies of the first for those of one that was killed, and delete them under its hands.
    Nothing is left behind: the lock is on the folder itself. Object stores know no locks; there the scheduler must see
    to it that runs do not overlap.

    Raises:
        TransientError: another run is at work.
        UsageError: the folder cannot be made.
    """
    if "://" in warehouse and not warehouse.startswith("file:"):
        yield
        return
    filesystem, folder = resolve(warehouse)
    try:
        filesystem.create_dir(folder, recursive=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"{warehouse}: {error.strerror or error}", hint="--warehouse names a folder") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Network file systems may not lock folders.
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise TransientError(
                    f"{warehouse}: another run is at work on this warehouse", hint="wait for it, then run this again"
                ) from error
        yield
    finally:
        os.close(descriptor)
