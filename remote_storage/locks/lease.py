"""One writer at a time where no file can be locked: a small object that its holder renews.

    {"version":1,"runId":"…","process":{"host":"…","pid":1,"processStart":"…"},"renewals":0,"ended":false}

Put if absent, and replaced only as the object that was read, by the server's clock. A holder renews it; one that has
not for STALE_AFTER_MS, that ended, or whose process is certainly gone is taken over. A holder that was taken over finds
out when it renews, or when it asks before a commit, and stops.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from tiersnap.remote_storage.errors import LeaseLostError, ObjectChangedError
from tiersnap.remote_storage.layouts import stored_json
from tiersnap.remote_storage.layouts.stored_json import Count, StoredObject
from tiersnap.remote_storage.locks.process import Process, is_gone, this_process
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import ObjectExistsError, TiersnapError, TransientError

_log = logging.getLogger(__name__)

RENEWED_EACH_S = 30.0
STALE_AFTER_MS = 600_000
_MAX_BYTES = 4096
_RACES = 8


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The holder of a lease; `ended` if it gave it back. Each renewal is another object, with its own time."""

    run_id: str
    process: Process
    renewals: int = 0
    ended: bool = False

    def encode(self) -> bytes:
        """One line of JSON."""
        return stored_json.encode(msgspec.convert(self, _StoredLease, from_attributes=True))

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> LeaseHolder:
        """The inverse of `encode`; raises as `stored_json.decode`."""
        hint = "if no run is at work on this warehouse, delete the object and run the same command again"
        found = stored_json.decode(data, _StoredLease, name=name, what="a lease", limit=_MAX_BYTES, hint=hint)
        return cls(found.run_id, found.process, found.renewals, found.ended)


class _StoredLease(StoredObject, frozen=True, kw_only=True):
    run_id: str
    process: Process
    renewals: Count
    ended: bool


def held_by_another(name: str, held: LeaseHolder, heard_at: int, otherwise: str) -> TransientError:
    """Return the error for a run that has to wait.

    Args:
        heard_at: ms, when the holder last wrote what lies at `name`.
        otherwise: what to know where the holder is not at work any more.
    """
    heard = datetime.fromtimestamp(heard_at / 1000, UTC).isoformat(timespec="seconds")
    where = f"{held.process.host} (pid {held.process.pid})"
    return TransientError(
        f"{name}: run {held.run_id} on {where} is at work on this warehouse, last heard of at {heard}",
        hint=f"wait for it, then run this again; {otherwise}",
    )


class Lease:
    """A lease that this process holds; `key` is that of the object."""

    def __init__(self, store: ObjectStore, key: str, run_id: str, *, stale_after_ms: int = STALE_AFTER_MS) -> None:
        """Take it.

        Raises:
            TransientError: another run holds it; names the run, its host and since when nothing was heard of it.
            CorruptDataError: what is there is no lease.
        """
        self._store, self.key = store, key
        self._holder = LeaseHolder(run_id, this_process())
        self._turn = threading.Lock()  # one thread renews, another checks
        self._etag = self._take(stale_after_ms)

    def _take(self, stale_after_ms: int) -> str:
        for _ in range(_RACES):
            try:
                return self._store.put_if_absent(self.key, self._holder.encode()).etag
            except ObjectExistsError:
                pass
            found = stored_json.read(self._store, self.key, LeaseHolder.decode, limit=_MAX_BYTES)
            if found is None:
                continue
            held = found.content
            if not held.ended and found.age <= stale_after_ms and not is_gone(held.process):
                raise held_by_another(
                    self._store.uri + self.key,
                    held,
                    found.written_at,
                    f"if it is dead, its lease is over in {max(stale_after_ms - found.age, 0) // 1000} s",
                )
            try:
                taken = self._store.replace_if(self.key, self._holder.encode(), found.etag)
            except ObjectChangedError:
                continue
            _log.info("took the lease %s%s over from run %s", self._store.uri, self.key, held.run_id)
            return taken.etag
        raise TransientError(
            f"{self._store.uri}{self.key}: other runs took this lease {_RACES} times while it was asked for",
            hint="let runs on one warehouse not overlap",
        )

    def renew(self) -> None:
        """Say that the run is alive. Raises LeaseLostError: another run has taken over."""
        with self._turn:
            renewed = replace(self._holder, renewals=self._holder.renewals + 1)
            try:
                self._etag = self._store.replace_if(self.key, renewed.encode(), self._etag).etag
            except ObjectChangedError as error:
                raise self._lost() from error
            self._holder = renewed

    def check(self) -> None:
        """See that this run still holds it; asked before something is committed.

        Raises:
            LeaseLostError: another run has taken over.
        """
        with self._turn:
            found = self._store.head(self.key)
        if found is None or found.etag != self._etag:
            raise self._lost()

    def release(self) -> None:
        """Give it back, unless another run has it by now; if that fails, its age says it: the work is done."""
        try:
            self._store.replace_if(self.key, replace(self._holder, ended=True).encode(), self._etag)
        except TiersnapError as error:
            _log.info("the lease is not given back: %s", error.message)

    def _lost(self) -> LeaseLostError:
        _log.warning("the lease %s%s is another run's by now", self._store.uri, self.key)
        return LeaseLostError(
            f"{self._store.uri}{self.key}: another run has taken over this warehouse",
            hint="run this again when the other is done",
        )
