"""A store that fails on schedule, to prove what is left after a failure or a crash at any step.

    store = FlakyStore(DirectoryStore(path), {3: Fault.CRASH_AFTER})
    copy_segment(location, …)          # the third call reaches the store, then the process "dies"

Calls are counted from 1 over all methods, or those in `counted`. After a crash every call crashes, so that no
clean-up code runs: what is in `store.inner` is what a killed process leaves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from tiersnap.remote_storage.stores.object_store import (
    ByteSource,
    DeleteFailure,
    ObjectInfo,
    ObjectStore,
    PutResult,
    ReadObject,
    UnfinishedUpload,
)
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer
from tiersnap.remote_storage.stores.requests import NO_DEADLINE, Deadline
from tiersnap.snapshot.errors import TransientError

_T = TypeVar("_T")


class Fault(StrEnum):
    """What goes wrong at a call."""

    FAIL_BEFORE = "FAIL_BEFORE"  # the request is lost
    FAIL_AFTER = "FAIL_AFTER"  # the answer is lost
    CRASH_BEFORE = "CRASH_BEFORE"  # the process is killed
    CRASH_AFTER = "CRASH_AFTER"
    STALL = "STALL"  # the call takes `stall_seconds`


class Crash(BaseException):
    """The process was killed; no `except Exception` survives it."""


class FlakyStore:
    """An ObjectStore that passes calls on to `inner`, except those in `schedule`; `calls` is what was called."""

    def __init__(
        self,
        inner: ObjectStore,
        schedule: Mapping[int, Fault],
        *,
        counted: Collection[str] | None = None,
        stall_seconds: float = 0.05,
    ) -> None:
        self.inner = inner
        self.schedule = schedule
        self.counted = counted
        self.stall_seconds = stall_seconds
        self.calls: list[str] = []
        self._crashed = False

    @property
    def uri(self) -> str:
        """The inner store's."""
        return self.inner.uri

    @property
    def words(self) -> list[str]:
        """The inner store's."""
        return self.inner.words

    def probes(self) -> Iterator[ProbeAnswer]:
        """See ObjectStore."""
        return self.inner.probes()

    def refuses_damage(self, key: str) -> bool:
        """See ObjectStore."""
        return self.inner.refuses_damage(key)

    def old_versions(self) -> str:
        """See ObjectStore."""
        return self.inner.old_versions()

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """See ObjectStore."""
        return self._call("put_if_absent", lambda: self.inner.put_if_absent(key, data, metadata))

    def put_file_if_absent(
        self,
        key: str,
        source: ByteSource,
        size: int,
        *,
        metadata: Mapping[str, str] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> PutResult:
        """See ObjectStore."""
        return self._call(
            "put_file_if_absent",
            lambda: self.inner.put_file_if_absent(key, source, size, metadata=metadata, deadline=deadline),
        )

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """See ObjectStore."""
        return self._call("replace", lambda: self.inner.replace(key, data, metadata))

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        """See ObjectStore."""
        return self._call("replace_if", lambda: self.inner.replace_if(key, data, etag, metadata))

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        """See ObjectStore."""
        return self._call("get", lambda: self.inner.get(key, limit=limit))

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        """See ObjectStore."""
        return self._call("read", lambda: self.inner.read(key, limit=limit))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ObjectStore."""
        return self._call("get_range", lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        return self._call("head", lambda: self.inner.head(key))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """See ObjectStore."""
        return self._call("list", lambda: iter(tuple(self.inner.list(prefix, after=after))))

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        """See ObjectStore."""
        return (found for found in self.list(prefix) if found.key in keys)

    def folders(self, prefix: str = "") -> Iterator[str]:
        """See ObjectStore."""
        return self._call("list", lambda: iter(tuple(self.inner.folders(prefix))))

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        """See ObjectStore; a failure is reported for every key."""
        wanted = tuple(keys)
        try:
            return self._call("delete", lambda: self.inner.delete(wanted))
        except TransientError as error:
            return tuple(DeleteFailure(key, error.message) for key in wanted)

    def now(self) -> int:
        """See ObjectStore."""
        return self._call("now", self.inner.now)

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """See ObjectStore."""
        return self._call("unfinished_uploads", lambda: iter(tuple(self.inner.unfinished_uploads(prefix))))

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        """See ObjectStore."""
        self._call("abort_upload", lambda: self.inner.abort_upload(upload))

    def _call(self, name: str, action: Callable[[], _T]) -> _T:
        if self._crashed:
            raise Crash(name)
        fault = None
        if self.counted is None or name in self.counted:
            self.calls.append(name)
            fault = self.schedule.get(len(self.calls))
        if fault is Fault.STALL:
            time.sleep(self.stall_seconds)
        self._fail_if(fault, Fault.FAIL_BEFORE, Fault.CRASH_BEFORE, name)
        try:
            return action()
        finally:  # also where the answer is that there is no such object
            self._fail_if(fault, Fault.FAIL_AFTER, Fault.CRASH_AFTER, name)

    def _fail_if(self, fault: Fault | None, fail: Fault, crash: Fault, name: str) -> None:
        if fault is crash:
            self._crashed = True
            raise Crash(name)
        if fault is fail:
            raise TransientError(f"{name}: call {len(self.calls)} fails on schedule")
