"""What holds for a whole warehouse: one run at a time, and one place of remote storage."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyarrow import fs

from tiersnap.jobs.warehouse import Warehouse
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import TransientError, UsageError
from tiersnap.snapshot.log.log_dir import resolve

_TABLE = "remote_log_segments"


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
    filesystem, folder = resolve(warehouse)
    if not isinstance(filesystem, fs.LocalFileSystem):
        yield
        return
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


def bind_remote(warehouse: Warehouse, store: ObjectStore, layout: Layout, *, apply: bool) -> None:
    """See that the tables speak of this place: the first run with --apply binds them to it.

    The tables name segments and snapshots that lie in one place. Held against another they would call segments tiered
    that are not there, and clean up after killed runs where nothing is.

    Raises:
        UsageError: they are bound to another place or layout.
    """
    place = f"{store.uri} as {layout.name}"
    bound = warehouse.description(_TABLE)
    if bound == place:
        return
    if bound:
        raise UsageError(
            f"{warehouse.uri}: this warehouse belongs to {bound}, and this run is for {place}",
            hint="give each remote storage a --warehouse of its own",
        )
    if apply:
        warehouse.describe(_TABLE, place)
