"""A warehouse has one writer at a time: a lock on a local folder, a lease in an object store."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tiersnap.remote_storage.errors import LeaseLostError
from tiersnap.remote_storage.locks.lease import RENEWED_EACH_S, Lease, LeaseHolder, held_by_another
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.snapshot.atomic_file import FULL, cannot_write
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError, TransientError, UsageError
from tiersnap.snapshot.log.hands_off import refuse_log_dir
from tiersnap.snapshot.log.places import resolve

_log = logging.getLogger(__name__)

LEASE_KEY = "tiersnap-lease.json"


@contextmanager
def only_run(
    warehouse: str | None,
    run_id: str,
    stores: StoreSettings | None = None,
    *,
    writes: bool = True,
    renewed_each_s: float = RENEWED_EACH_S,
) -> Iterator[Callable[[], None]]:
    """Keep other runs off a warehouse, if any, while this process lives; gives what to ask before each commit.

    A second run would take the copies of the first for those of one that was killed, and delete them under its hands.
    Other file systems than these two know no locks that are the same everywhere; there the scheduler must see to it
    that runs do not overlap.

    Args:
        writes: a plan, which does not, makes no folder: where there is none, no run is at work.

    Raises:
        TransientError: another run is at work; so what is given says when another has taken over.
        UsageError: the folder cannot be made, or is a broker's (LogDirAsTargetError).
    """
    if warehouse is None or ("://" in warehouse and not warehouse.startswith(("s3://", "file:"))):
        yield _nothing
        return
    if warehouse.startswith("s3://"):
        with _leased(warehouse, run_id, stores, renewed_each_s) as check:
            yield check
        return
    _, folder = resolve(warehouse)
    refuse_log_dir(folder, "the warehouse")
    if not writes and not Path(folder).exists():
        yield _nothing
        return
    with _locked(warehouse, Path(folder), run_id):
        yield _nothing


def _nothing() -> None:
    """A lock is held until it is given back."""


@contextmanager
def _leased(
    warehouse: str, run_id: str, stores: StoreSettings | None, renewed_each_s: float
) -> Iterator[Callable[[], None]]:
    """A lease that a thread renews."""
    lease = Lease(open_store(warehouse, stores), LEASE_KEY, run_id)
    is_over, lost = threading.Event(), list[TransientError]()

    def renew() -> None:
        while not is_over.wait(renewed_each_s):
            try:
                lease.renew()
            except LeaseLostError as error:
                lost.append(error)
                return
            except TiersnapError as error:
                # The server is away or refuses; the next renewal may be taken before the lease is stale.
                _log.warning("%s: the lease is not renewed yet, trying again: %s", warehouse, error.message)

    def check() -> None:
        if lost:
            raise lost[0]
        lease.check()

    thread = threading.Thread(target=renew, name="tiersnap-lease", daemon=True)
    thread.start()
    try:
        yield check
    finally:
        is_over.set()
        thread.join()
        lease.release()


@contextmanager
def _locked(warehouse: str, folder: Path, run_id: str) -> Iterator[None]:
    """A lock on a file that says who has it; the kernel gives it back when the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LEASE_KEY, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno in FULL:
            raise cannot_write(folder, error) from error
        raise UsageError(f"{warehouse}: {error.strerror or error}", hint="--warehouse names a folder") from error
    with open(descriptor, "r+b", buffering=0) as file:  # noqa: PTH123 - a descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Some network file systems lock nothing.
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise _held(file, folder / LEASE_KEY) from error
        try:
            file.truncate()
            file.write(LeaseHolder.of(run_id).encode())
        except OSError as error:
            raise cannot_write(folder / LEASE_KEY, error) from error
        _log.debug("locked %s for run %s", folder / LEASE_KEY, run_id)
        yield


def _held(file: BinaryIO, path: Path) -> TransientError:
    try:
        holder = LeaseHolder.decode(file.read(), name=str(path))
    except CorruptDataError:
        return TransientError(
            f"{path}: another run is at work on this warehouse", hint="wait for it, then run this again"
        )
    heard = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
    return held_by_another(str(path), holder, heard, "the lock ends with its process")
