"""The result of a read-back: one object per cluster, in the remote location itself.

    claims/read-back-<cluster id>.json
    {"version":1,"clusterId":"…","uri":"s3://bucket/prefix/","server":"minio:9000","brokers":"<digest>","topic":null,
     "process":null,"renewals":0}

A replica of the location holds the object, too, but under another URI or on another server, so it does not count there.
`brokers` is a digest of the brokers' configuration; the result ends when the digest changes. During a read-back
`brokers` is null, `topic` is the topic of the read-back, and `process` deletes it.
"""

from __future__ import annotations

import logging
from typing import Annotated

from msgspec import Meta, structs

from tiersnap.remote_storage.errors import ObjectChangedError, ReadBackHeldError
from tiersnap.remote_storage.layouts import keys, stored_json
from tiersnap.remote_storage.layouts.stored_json import Count, StoredObject, Text
from tiersnap.remote_storage.locks.process import Process, is_gone, this_process
from tiersnap.remote_storage.stores.object_store import ObjectStore

_log = logging.getLogger(__name__)

PROBE_TOPIC = "tiersnap-read-back-"
"""Beginning of the names of all topics for read-backs."""
STALE_AFTER_MS = 120_000
_LARGEST_RECORD = 4096  # bytes
_HINT = "delete the object, then run the same command again: it is written anew"


class ReadBackRecord(StoredObject, frozen=True, kw_only=True):
    """A finished read-back, or one under way; see the module."""

    cluster_id: Text
    uri: Text
    server: Text
    brokers: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None
    topic: Annotated[str, Meta(pattern=f"^{PROBE_TOPIC}[0-9]{{10}}-[0-9a-f]{{8}}$")] | None
    process: Process | None
    renewals: Count

    @classmethod
    def empty(cls, cluster_id: str, uri: str, server: str) -> ReadBackRecord:
        """Return the record of a location before any read-back."""
        return cls(cluster_id=cluster_id, uri=uri, server=server, brokers=None, topic=None, process=None, renewals=0)

    def encode(self) -> bytes:
        """Return one line of JSON."""
        return stored_json.encode(self)


def decode_read_back(data: bytes, *, name: str) -> ReadBackRecord:
    """The inverse of `encode`; raises as `stored_json.decode`."""
    what = "a record of what brokers read back"
    return stored_json.decode(data, ReadBackRecord, name=name, what=what, limit=_LARGEST_RECORD, hint=_HINT)


class ReadBackStore:
    """The object of one cluster in one location; a write replaces only the object that the last `find` returned."""

    def __init__(self, store: ObjectStore, cluster_id: str, server: str, *, process: Process | None = None) -> None:
        """Take the location that is `store` on `server`, for the brokers of a cluster."""
        self._store, self._process = store, process or this_process()
        self._empty = ReadBackRecord.empty(cluster_id, store.uri, server)
        self._key = keys.read_back(cluster_id)
        self._etag: str | None = None
        self._holder: ReadBackHeldError | None = None
        self._written = self._empty

    def find(self) -> ReadBackRecord | None:
        """Return the record; None without one, and for a record of another location, of which this one is a copy.

        Raises:
            CorruptDataError: the object is damaged.
        """
        found = stored_json.read(self._store, self._key, decode_read_back, limit=_LARGEST_RECORD)
        self._etag, self._holder = None if found is None else found.etag, None
        if found is None or self._place_of(found.content) != self._place_of(self._empty):
            return None
        process = found.content.process
        if process is not None and process != self._process and not is_gone(process) and found.age <= STALE_AFTER_MS:
            self._holder = self._held(process, found.age)
        return found.content

    @property
    def is_held(self) -> bool:
        """Return whether another run was reading a record back when this object looked."""
        return self._holder is not None

    def check_not_held(self) -> None:
        """Raise ReadBackHeldError if another run was reading a record back when this object looked."""
        if self._holder is not None:
            raise self._holder

    def begin(self, topic: str) -> None:
        """Record that this process reads a record back by a topic. Raises ReadBackHeldError: another run does."""
        self.check_not_held()
        self._write(structs.replace(self._empty, topic=topic, process=self._process))

    def renew(self) -> None:
        """Record that this process is still at it. Raises ReadBackHeldError: another run has taken over."""
        self._write(structs.replace(self._written, renewals=self._written.renewals + 1))

    def keep(self, brokers: str) -> None:
        """Record a proof; `brokers` is the digest of their configuration."""
        self._write(structs.replace(self._empty, brokers=brokers))

    def drop(self) -> None:
        """Delete the record that this object found or wrote, unless another run has replaced it."""
        found, etag = self._store.head(self._key), self._etag
        self._etag, self._written = None, self._empty
        if found is None or found.etag != etag:
            return
        for failure in self._store.delete([self._key]):
            _log.warning("could not delete %s%s: %s", self._store.uri, failure.key, failure.reason)

    def _write(self, record: ReadBackRecord) -> None:
        try:
            self._etag = stored_json.write(self._store, self._key, record.encode(), self._etag)
        except ObjectChangedError as error:
            raise self._held(None, 0) from error
        self._written = record
        _log.info("recorded %s%s", self._store.uri, self._key)

    def _held(self, holder: Process | None, age: int) -> ReadBackHeldError:
        where = f" on {holder.host} (pid {holder.pid})" if holder else ""
        return ReadBackHeldError(
            f"{self._store.uri}{self._key}: another run of tiersnap{where} is reading a record back from this location",
            hint="wait for it, then run the same command again; if it is dead, its record counts for "
            f"{max(STALE_AFTER_MS - age, 0) // 1000} s more",
        )

    @staticmethod
    def _place_of(record: ReadBackRecord) -> tuple[str, str, str]:
        return record.cluster_id, record.uri, record.server
