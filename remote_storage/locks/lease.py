"""The lease of a warehouse: an object in an object store, which the holder of the lease renews.

    {"version":1,"runId":"…","process":{"host":"…","pid":1,"processStart":"…"},"renewals":0,"ended":false}

A run takes over a lease if the holder released it, if the holder's process has certainly ended, or if the holder did
not renew it for STALE_AFTER_MS by the store's clock. The earlier holder notices this at its next renewal or at the
check before a commit, and stops.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Self

from msgspec import structs

from tiersnap.remote_storage.errors import LeaseLostError, ObjectChangedError
from tiersnap.remote_storage.layouts.stored_json import Count, StoredObject
from tiersnap.remote_storage.locks import lock_object
from tiersnap.remote_storage.locks.lock_object import StoredContent, why_over
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import TiersnapError, TransientError

_log = logging.getLogger(__name__)

RENEWED_EACH_S = 30.0
STALE_AFTER_MS = 600_000
_RACES = 8


class LeaseHolder(StoredObject, frozen=True, kw_only=True):
    """The holder of a lease. Each renewal writes another version of the object, with a new time."""

    what = "a lease"
    limit = 4096
    hint = "if no run uses this warehouse, delete the object and run the same command again"

    run_id: str
    process: Process
    renewals: Count
    ended: bool  # whether the holder released the lease

    @classmethod
    def of(cls, run_id: str, process: Process | None = None) -> Self:
        """Return a new holder: a run in a process, by default this process."""
        return cls(run_id=run_id, process=process or this_process(), renewals=0, ended=False)


def held_by_another(name: str, held: LeaseHolder, renewed_at: int, otherwise: str) -> TransientError:
    """Return the error for a lease that another run holds.

    Args:
        name: URI of the lease, or path of the lock file.
        renewed_at: ms, time of the holder's last write.
        otherwise: last clause of the hint. It says when the lock of a dead holder ends.
    """
    heard = datetime.fromtimestamp(renewed_at / 1000, UTC).isoformat(timespec="seconds")
    return TransientError(
        f"{name}: run {held.run_id} on {held.process} is using this warehouse; it last renewed the lock at {heard}",
        hint=f"wait for that run, then run the same command again; {otherwise}",
    )


def refuse_held(store: ObjectStore, key: str, *, stale_after_ms: int = STALE_AFTER_MS) -> None:
    """Raise TransientError if a run holds the lease now.

    This writes nothing, so another run may take the lease right after this call.
    """
    found = lock_object.read(store, key, LeaseHolder)
    if found is not None:
        _refuse_working(store.uri + key, found, stale_after_ms)


def _refuse_working(name: str, found: StoredContent[LeaseHolder], stale_after_ms: int) -> None:
    held = found.content
    if why_over(held.process, found.age, stale_after_ms, is_ended=held.ended) is None:
        left = max(stale_after_ms - found.age, 0) // 1000
        raise held_by_another(name, held, found.written_at, f"if that run is dead, its lock ends in {left} s")


class Lease:
    """A lease that this process holds. `key` is the key of its object."""

    def __init__(self, store: ObjectStore, key: str, run_id: str, *, stale_after_ms: int = STALE_AFTER_MS) -> None:
        """Take the lease.

        Raises:
            TransientError: another run holds the lease. The message names the run, its host and its last renewal.
            CorruptDataError: the object is not a lease.
        """
        self._store, self.key = store, key
        self._holder = LeaseHolder.of(run_id)
        self._turn = threading.Lock()  # two threads use the lease: one renews, and the other checks
        self._etag = self._take(stale_after_ms)

    def _take(self, stale_after_ms: int) -> str:
        for _ in range(_RACES):
            with suppress(ObjectChangedError):
                return self._write(self._holder, None)
            found = lock_object.read(self._store, self.key, LeaseHolder)
            if found is None:
                continue
            _refuse_working(self._store.uri + self.key, found, stale_after_ms)
            with suppress(ObjectChangedError):
                etag = self._write(self._holder, found.etag)
                _log.info("took the lease %s%s over from run %s", self._store.uri, self.key, found.content.run_id)
                return etag
        raise TransientError(
            f"{self._store.uri}{self.key}: other runs took the lock of this warehouse {_RACES} times while this "
            "run tried to take it",
            hint="start only one run on a warehouse at a time",
        )

    def renew(self) -> None:
        """Renew the lease. Raises LeaseLostError: another run took over the lease."""
        with self._turn:
            renewed = structs.replace(self._holder, renewals=self._holder.renewals + 1)
            try:
                self._etag = self._write(renewed, self._etag)
            except ObjectChangedError as error:
                raise self._lost() from error
            self._holder = renewed

    def check(self) -> None:
        """Raise LeaseLostError if another run took over the lease. Call this before each commit."""
        with self._turn:
            is_current = lock_object.is_current(self._store, self.key, self._etag)
        if not is_current:
            raise self._lost()

    def release(self) -> None:
        """Release the lease, unless another run took it over.

        A failure is logged and not raised, because the lease becomes stale by itself.
        """
        try:
            self._write(structs.replace(self._holder, ended=True), self._etag)
        except TiersnapError as error:
            _log.info("lease not released: %s", error.message)

    def _write(self, holder: LeaseHolder, etag: str | None) -> str:
        return lock_object.write(self._store, self.key, holder, etag)

    def _lost(self) -> LeaseLostError:
        _log.warning("another run took over the lease %s%s", self._store.uri, self.key)
        return LeaseLostError(
            f"{self._store.uri}{self.key}: another run has taken over the lock of this warehouse",
            hint="run the same command again when the other run is done",
        )
