"""A store that limits the bytes per second of another store. Requests without a body are not limited.

The limit is a token bucket that holds the bytes of one second. If a body is larger than the bucket, the request waits
until the bucket is refilled. So the average rate stays below the limit.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

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
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.units import human_bytes

LEAST_RATE = 4 << 20
"""Bytes per second. At a lower rate, the upload of a 2 GiB segment would exceed its deadline, and its claim would
become stale."""


@dataclass
class TokenBucket:
    """A bucket of tokens. Tokens are bytes, times are seconds of a monotonic clock."""

    rate: float  # bytes a second, above 0
    at: float  # when `tokens` were counted
    tokens: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.rate

    def take(self, size: int, now: float) -> float:
        """Take `size` tokens, and return the seconds that the caller must wait to keep the rate."""
        self.tokens = min(self.rate, self.tokens + (now - self.at) * self.rate) - size
        self.at = now
        return max(0.0, -self.tokens / self.rate)


class Pace:
    """A token bucket that the threads of a process share."""

    def __init__(
        self, rate: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._bucket = TokenBucket(rate, clock())
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()

    def wait_for(self, size: int) -> None:
        """Take `size` tokens from the bucket, and wait as long as the rate requires."""
        with self._lock:
            seconds = self._bucket.take(size, self._clock())
        if seconds > 0:
            self._sleep(seconds)


def pace_of(rate: int) -> Pace:
    """Return the Pace of this process for `rate`. A forked worker gets its own Pace."""
    return _pace_of_process(rate, os.getpid())


@functools.lru_cache(maxsize=8)
def _pace_of_process(rate: int, _pid: int) -> Pace:
    return Pace(rate)


def check_rate(rate: int) -> int:
    """Return the rate. Raises UsageError: the rate is below LEAST_RATE."""
    if rate < LEAST_RATE:
        raise UsageError(
            f"--max-bytes-per-second {human_bytes(rate)}: too low: the claim of a large segment would become "
            "stale before its upload ends",
            hint=f"give at least {LEAST_RATE >> 20}MiB",
        )
    return rate


def shares(rate: int, tasks: int) -> tuple[int, int]:
    """Divide `rate` among at most `tasks` tasks, each with at least LEAST_RATE. Return their number and rate."""
    count = max(1, min(tasks, rate // LEAST_RATE))
    return count, rate // count


def paced(store: ObjectStore, rate: int | None) -> ObjectStore:
    """Return the store, limited to `rate` bytes per second in this process.

    If `rate` is None, the store is unlimited.
    """
    if rate is None:
        return store
    return PacedStore(store, rate)


def in_shares(store: ObjectStore, rate: int | None, tasks: int) -> tuple[int, ObjectStore]:
    """Return the number of parallel tasks, at most `tasks`, and the store, limited to the rate of one task.

    If `rate` is None, return `tasks` and the unlimited store.
    """
    if rate is None:
        return tasks, store
    count, share = shares(rate, tasks)
    return count, PacedStore(store, share)


@dataclass(frozen=True, slots=True)
class PacedStore:
    """An ObjectStore that limits the bytes per second of `inner`. It can be pickled; each process has its own limit."""

    inner: ObjectStore
    rate: int

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def words(self) -> list[str]:
        return self.inner.words

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        pace_of(self.rate).wait_for(len(data))
        return self.inner.put_if_absent(key, data, metadata)

    def put_file_if_absent(
        self,
        key: str,
        source: ByteSource,
        size: int,
        *,
        metadata: Mapping[str, str] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> PutResult:
        """See ObjectStore. Each read of `source` waits for the token bucket."""
        slow = _PacedSource(source, pace_of(self.rate))
        return self.inner.put_file_if_absent(key, slow, size, metadata=metadata, deadline=deadline)

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        pace_of(self.rate).wait_for(len(data))
        return self.inner.replace(key, data, metadata)

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        pace_of(self.rate).wait_for(len(data))
        return self.inner.replace_if(key, data, etag, metadata)

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        """See ObjectStore. The bytes are taken from the token bucket after the read."""
        return self.read(key, limit=limit).data

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        """See ObjectStore. The bytes are taken from the token bucket after the read."""
        found = self.inner.read(key, limit=limit)
        pace_of(self.rate).wait_for(len(found.data))
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        data = self.inner.get_range(key, start, length)
        pace_of(self.rate).wait_for(len(data))
        return data

    def head(self, key: str) -> ObjectInfo | None:
        return self.inner.head(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, after=after)

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        return self.inner.list_keys(prefix, keys)

    def folders(self, prefix: str = "") -> Iterator[str]:
        return self.inner.folders(prefix)

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        return self.inner.delete(keys)

    def now(self) -> int:
        return self.inner.now()

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        return self.inner.unfinished_uploads(prefix)

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        self.inner.abort_upload(upload)

    def probes(self) -> Iterator[ProbeAnswer]:
        return self.inner.probes()

    def refuses_damage(self, key: str) -> bool:
        return self.inner.refuses_damage(key)

    def old_versions(self) -> str:
        return self.inner.old_versions()


@dataclass(frozen=True, slots=True)
class _PacedSource:
    inner: ByteSource
    pace: Pace

    def read(self, nbytes: int, /) -> bytes:
        data = self.inner.read(nbytes)
        self.pace.wait_for(len(data))
        return data

    def seek(self, position: int, /) -> int:
        return self.inner.seek(position)
