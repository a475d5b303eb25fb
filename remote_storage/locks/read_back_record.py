"""The record of a read-back: one object per cluster, in the remote location itself.

A read-back (`tiersnap publish --prove`) proves that the brokers of a cluster read this location.

    claims/read-back-<cluster id>.json
    {"version":1,"clusterId":"…","uri":"s3://bucket/prefix/","server":"minio:9000","brokers":"<digest>","topic":null,
     "process":null,"renewals":0}

A replica of the bucket also contains this object. tiersnap ignores it there, because the URI or the server differs.
`brokers` is a digest of the brokers' configuration. If this configuration changes, the read-back proves nothing any
more. During a read-back `brokers` is null, `topic` is the topic of the read-back, and `process` will delete that topic.
"""

from __future__ import annotations

import logging
from typing import Annotated

from msgspec import Meta, structs

from tiersnap.remote_storage.errors import ObjectChangedError, ReadBackHeldError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.stored_json import Count, StoredObject, Text
from tiersnap.remote_storage.locks import lock_object
from tiersnap.remote_storage.locks.lock_object import why_over
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.stores.object_store import ObjectStore

_log = logging.getLogger(__name__)

PROBE_TOPIC = "tiersnap-read-back-"
"""Prefix of the names of all read-back topics."""
STALE_AFTER_MS = 120_000


class ReadBackRecord(StoredObject, frozen=True, kw_only=True):
    """The record of a finished or running read-back. See the module."""

    what = "a record of an earlier read-back"
    limit = 4096
    hint = "delete the object, then run the same command again: tiersnap writes it again"

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


class ReadBackStore:
    """The read-back record of one cluster in one location.

    A write replaces only the version that this object read or wrote.
    """

    def __init__(self, store: ObjectStore, cluster_id: str, server: str, *, process: Process | None = None) -> None:
        """Open the record of a cluster in a remote location. This sends no request.

        Args:
            store: the remote location.
            cluster_id: cluster whose brokers read the location.
            server: S3 endpoint or inode number of the location, see `broker_evidence.server_of`.
            process: owner of a read-back; by default this process.
        """
        self._store, self._process = store, process or this_process()
        self._empty = ReadBackRecord.empty(cluster_id, store.uri, server)
        self._key = keys.read_back(cluster_id)
        self._etag: str | None = None
        self._holder: ReadBackHeldError | None = None
        self._written = self._empty

    def find(self) -> ReadBackRecord | None:
        """Return the record of this location, or None if there is none.

        If the record has another URI or server, it is ignored: it was replicated from another location.

        Raises:
            CorruptDataError: the object is damaged.
        """
        found = lock_object.read(self._store, self._key, ReadBackRecord)
        self._etag = self._holder = None
        if found is None:
            return None
        self._etag = found.etag
        if self._place_of(found.content) != self._place_of(self._empty):
            return None
        process = found.content.process
        if process != self._process and why_over(process, found.age, STALE_AFTER_MS) is None:
            self._holder = self._held(process, found.age)
        return found.content

    @property
    def is_held(self) -> bool:
        """Return whether another read-back was running at the last `find`."""
        return self._holder is not None

    def check_not_held(self) -> None:
        """Raise ReadBackHeldError if another read-back was running at the last `find`."""
        if self._holder is not None:
            raise self._holder

    def begin(self, topic: str) -> None:
        """Record that this process begins a read-back with `topic`.

        Raises:
            ReadBackHeldError: another read-back is running.
        """
        self.check_not_held()
        self._write(structs.replace(self._empty, topic=topic, process=self._process))

    def renew(self) -> None:
        """Record that this read-back is still running. Raises ReadBackHeldError: another read-back took over."""
        self._write(structs.replace(self._written, renewals=self._written.renewals + 1))

    def keep(self, brokers: str) -> None:
        """Record a successful read-back. `brokers` is the digest of the brokers' configuration."""
        self._write(structs.replace(self._empty, brokers=brokers))

    def drop(self) -> None:
        """Delete the record that this object read or wrote, unless another run has replaced it."""
        failures = lock_object.delete(self._store, self._key, self._etag)
        self._etag, self._written = None, self._empty
        for failure in failures:
            _log.warning("could not delete %s%s: %s", self._store.uri, failure.key, failure.reason)

    def _write(self, record: ReadBackRecord) -> None:
        try:
            self._etag = lock_object.write(self._store, self._key, record, self._etag)
        except ObjectChangedError as error:
            raise self._held(None, 0) from error
        self._written = record
        _log.info("recorded %s%s", self._store.uri, self._key)

    def _held(self, holder: Process | None, age: int) -> ReadBackHeldError:
        where = ""
        if holder:
            where = f" on {holder}"
        return ReadBackHeldError(
            f"{self._store.uri}{self._key}: another run of tiersnap{where} is proving this location with --prove",
            hint="wait for that run, then run the same command again; if that run is dead, its record expires in "
            f"{max(STALE_AFTER_MS - age, 0) // 1000} s",
        )

    @staticmethod
    def _place_of(record: ReadBackRecord) -> tuple[str, str, str]:
        return record.cluster_id, record.uri, record.server
