"""One writer per warehouse: a file lock in a local folder, a lease in an object store with conditional writes."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tiersnap.remote_storage.errors import LeaseLostError
from tiersnap.remote_storage.locks.lease import RENEWED_EACH_S, Lease, LeaseHolder, held_by_another, refuse_held
from tiersnap.remote_storage.stores.open_store import SCHEMES, open_store
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.snapshot.atomic_file import FULL, cannot_write
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError, TransientError, UsageError
from tiersnap.snapshot.log.places import resolve
from tiersnap.snapshot.log.refuse_log_dir import refuse_log_dir

_log = logging.getLogger(__name__)

LEASE_KEY = "tiersnap-lease.json"
_LOCK_TRIES, _LOCK_PAUSE_S = 10, 0.05
# On Hadoop file systems tiersnap has no lease, so the scheduler must start one run at a time (docs/warehouse.md).
_OF_THE_SCHEDULER = ("hdfs://", "viewfs://")


@contextmanager
def only_run(
    warehouse: str | None,
    run_id: str,
    stores: StoreSettings | None = None,
    *,
    writes: bool = True,
    renewed_each_s: float = RENEWED_EACH_S,
) -> Iterator[Callable[[], None]]:
    """Exclude other runs from a warehouse, and yield a function to call before each commit.

    A second run would assume that the first run was killed, and would delete the remote segments that the first run is
    uploading. On HDFS no run is excluded, so the scheduler must not start two runs.

    Args:
        warehouse: URI; None to exclude no run.
        run_id: id of this run, written to the lock or the lease.
        stores: settings of the object store.
        writes: False for a plan, which takes neither lock nor lease. A plan fails if a run is writing when
            the plan starts.
        renewed_each_s: seconds between two renewals of the lease.

    Raises:
        TransientError: another run writes to the warehouse. The yielded function raises it if another run took the
            lease.
        UsageError: the folder cannot be created, or the store has no conditional writes.
        LogDirAsTargetError: the folder is a broker's log directory.
    """
    if warehouse is None or warehouse.startswith(_OF_THE_SCHEDULER):
        yield _nothing
        return
    if "://" in warehouse and not warehouse.startswith("file:"):
        _refuse_without_conditions(warehouse)
        if not writes:
            refuse_held(open_store(warehouse, stores), LEASE_KEY)
            yield _nothing
            return
        with _leased(warehouse, run_id, stores, renewed_each_s) as check:
            yield check
        return
    _, folder = resolve(warehouse)
    refuse_log_dir(folder, "the warehouse")
    if not writes:
        _refuse_locked(warehouse, Path(folder))
        yield _nothing
        return
    with _locked(warehouse, Path(folder), run_id):
        yield _nothing


def _nothing() -> None:
    """Do nothing. A file lock needs no check, because no other process can take it while this process runs."""


def _refuse_without_conditions(warehouse: str) -> None:
    scheme = warehouse.partition("://")[0]
    if scheme not in SCHEMES:
        raise UsageError(
            f"{scheme}://: the warehouse cannot be locked, because tiersnap supports no conditional writes in this "
            "store",
            hint="use --warehouse s3://bucket/folder or --warehouse FOLDER; use hdfs:// only if your scheduler "
            "starts one run at a time",
        )


@contextmanager
def _leased(
    warehouse: str, run_id: str, stores: StoreSettings | None, renewed_each_s: float
) -> Iterator[Callable[[], None]]:
    """Take the lease, renew it in a thread, and yield a function that raises if the lease was lost."""
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
                # Another renewal follows before the lease becomes stale.
                _log.warning("%s: the lease was not renewed, trying again: %s", warehouse, error.message)

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
    """Lock a file and write the run's id to it. The kernel releases the lock when the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LEASE_KEY, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno in FULL:
            raise cannot_write(folder, error) from error
        raise _no_folder(warehouse, error) from error
    with open(descriptor, "r+b", buffering=0) as file:  # noqa: PTH123 - a descriptor
        try:
            _lock(descriptor)
        except OSError as error:
            # Ignore other errors: some network file systems have no locks.
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise _held(file, folder / LEASE_KEY) from error
        try:
            file.truncate()
            file.write(LeaseHolder.of(run_id).encode())
        except OSError as error:
            raise cannot_write(folder / LEASE_KEY, error) from error
        _log.debug("locked %s for run %s", folder / LEASE_KEY, run_id)
        yield


def _lock(descriptor: int) -> None:
    """Lock a file exclusively. Retry for half a second, because a plan takes a shared lock for an instant.

    Raises:
        OSError: another run holds the lock, or the file system has no locks.
    """
    for _ in range(_LOCK_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_S)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _no_folder(warehouse: str, error: OSError) -> UsageError:
    return UsageError(f"{warehouse}: {error.strerror or error}", hint="--warehouse FOLDER")


def _refuse_locked(warehouse: str, folder: Path) -> None:
    """Raise TransientError if a run has locked the folder. This function does not lock it, so a run may start later."""
    try:
        file = (folder / LEASE_KEY).open("rb", buffering=0)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _no_folder(warehouse, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                raise _held(file, folder / LEASE_KEY) from error


def _held(file: BinaryIO, path: Path) -> TransientError:
    try:
        holder = LeaseHolder.decode(file.read(), name=str(path))
    except CorruptDataError:
        return TransientError(
            f"{path}: another run is using this warehouse",
            hint="run the same command again when the other run has ended",
        )
    heard = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
    return held_by_another(str(path), holder, heard, "the lock ends when the process of that run ends")
