"""One actor's view of a store: each request waits for its turn, and may go wrong.

LOST_REQUEST    nothing was done, no answer came
LOST_ANSWER     it was done, no answer came
LATE            a put is done later, when the client has given up: `Faults.deliver`
CRASH_BEFORE    the process is killed in front of the request
CRASH_AFTER     and behind it
FLIPPED_READ    the answer to a read has a wrong byte; the next read is right
LOST_PUT        a put is acknowledged and not kept
WRONG_PUT       an object of a segment is kept with a wrong byte, and the answer to its put does not tell
LOST_CREATE     an upload is begun twice, as the answer to the first CreateMultipartUpload was lost
INTERRUPT       Ctrl-C
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any

import google_crc32c

from tests.protocol.memory_store import MemoryStore, flipped, read_all
from tests.reference.interleaved import Actor, Killed
from tiersnap.remote_storage.stores.object_store import (
    ByteSource,
    DeleteFailure,
    ObjectInfo,
    PutOutcome,
    PutResult,
    ReadObject,
    UnfinishedUpload,
)
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer
from tiersnap.snapshot.errors import TiersnapError, TransientError


class Fault(StrEnum):
    """See the module."""

    LOST_REQUEST = "LOST_REQUEST"
    LOST_ANSWER = "LOST_ANSWER"
    LATE = "LATE"
    CRASH_BEFORE = "CRASH_BEFORE"
    CRASH_AFTER = "CRASH_AFTER"
    FLIPPED_READ = "FLIPPED_READ"
    LOST_PUT = "LOST_PUT"
    WRONG_PUT = "WRONG_PUT"
    LOST_CREATE = "LOST_CREATE"
    INTERRUPT = "INTERRUPT"


READS, NEW = {"get", "read"}, {"put_if_absent", "put_file_if_absent"}
POSSIBLE = {
    Fault.FLIPPED_READ: READS,
    Fault.LATE: {*NEW, "replace_if"},
    Fault.LOST_PUT: NEW,
    Fault.WRONG_PUT: NEW,
    Fault.LOST_CREATE: {"put_file_if_absent"},
}
OF_A_SEGMENT = (".log", ".indexes", ".rsm-manifest")
NEVER_LOST = ("/unblock.json",)
"""What it records is nowhere else."""


@dataclass
class Faults:
    """Which requests go wrong.

    Attributes:
        kinds: that may happen; none do while it is empty.
        rate: share of requests.
        happened: what did, with the request and its key.
        before_put: sees each key that is about to be put.
    """

    dice: Random
    kinds: tuple[Fault, ...] = ()
    rate: float = 0.0
    happened: list[tuple[Fault, str, str]] = field(default_factory=list)
    before_put: Callable[[str], None] = lambda _: None
    _late: list[Callable[[], PutResult]] = field(default_factory=list)

    def of(self, name: str, key: str) -> Fault | None:
        """What goes wrong with a request."""
        # There are few of them, and most of them matter.
        rate = self.rate * 3 if key.endswith(OF_A_SEGMENT) and name in NEW else self.rate
        if not self.kinds or self.dice.random() >= rate:
            return None
        fault = self.dice.choice(self.kinds)
        if name not in POSSIBLE.get(fault, {name}):
            return None
        if fault is Fault.LOST_PUT and key.endswith(NEVER_LOST):
            return None
        if fault is Fault.WRONG_PUT and not key.endswith(OF_A_SEGMENT):
            return None
        self.happened.append((fault, name, key))
        return fault

    def later(self, put: Callable[[], PutResult]) -> None:
        """Do it at the next `deliver`."""
        self._late.append(put)

    def deliver(self) -> None:
        """Late requests arrive; the server answers, and nobody hears it."""
        late, self._late = self._late, []
        for put in late:
            try:
                put()
            except TiersnapError:
                continue


class FaultStore:
    """See the module."""

    def __init__(self, inner: MemoryStore, actor: Actor, faults: Faults) -> None:
        self._inner, self._actor, self._faults = inner, actor, faults
        self._flipped: set[str] = set()  # keys whose next read is right

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def words(self) -> list[str]:
        return self._inner.words

    def probes(self) -> Iterator[ProbeAnswer]:
        return self._inner.probes()

    def refuses_damage(self, key: str) -> bool:
        return self._inner.refuses_damage(key)

    def old_versions(self) -> str:
        return self._inner.old_versions()

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        return self._put("put_if_absent", key, data, metadata)

    def put_file_if_absent(self, key: str, source: ByteSource, size: int, **options: Any) -> PutResult:
        return self._put("put_file_if_absent", key, read_all(source, size), options.get("metadata"))

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        return self._call("replace", key, lambda: self._inner.replace(key, data, metadata))

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        return self._call("replace_if", key, lambda: self._inner.replace_if(key, data, etag, metadata))

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        return self._call("get", key, lambda: self._inner.get(key, limit=limit))

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        return self._call("read", key, lambda: self._inner.read(key, limit=limit))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call("get_range", key, lambda: self._inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo | None:
        return self._call("head", key, lambda: self._inner.head(key))

    def list(self, prefix: str = "", **options: str) -> Iterator[ObjectInfo]:
        return self._call("list", prefix, lambda: iter(tuple(self._inner.list(prefix, **options))))

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        return (found for found in self.list(prefix) if found.key in keys)

    def folders(self, prefix: str = "") -> Iterator[str]:
        return self._call("list", prefix, lambda: iter(tuple(self._inner.folders(prefix))))

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        failures: list[DeleteFailure] = []
        for key in keys:
            try:
                failures += self._call("delete", key, lambda key=key: self._inner.delete([key]))
            except TiersnapError as error:
                failures.append(DeleteFailure(key, error.message))
        return tuple(failures)

    def now(self) -> int:
        return self._call("now", "", self._inner.now)

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        return self._call("unfinished_uploads", prefix, lambda: iter(tuple(self._inner.unfinished_uploads(prefix))))

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        self._call("abort_upload", upload.key, lambda: self._inner.abort_upload(upload))

    def _put(self, name: str, key: str, data: bytes, metadata: Mapping[str, str] | None) -> PutResult:
        self._actor.turn()
        fault, is_file = self._faults.of(name, key), name == "put_if_absent" or len(data) % 2 == 0
        if fault is Fault.LOST_CREATE or (fault is Fault.LOST_REQUEST and not is_file) or fault is Fault.CRASH_BEFORE:
            # What S3 has of a large object, or a directory of any.
            self._inner.leave_unfinished(key, is_file=is_file and fault is not Fault.LOST_CREATE)
        if fault is not Fault.LATE:
            self._faults.before_put(key)
        sent = flipped(data) if fault is Fault.WRONG_PUT else data
        done = self._do(fault, name, key, lambda: self._inner.put_if_absent(key, sent, metadata))
        return replace(done, crc32c=google_crc32c.value(data), proved=False) if fault is Fault.WRONG_PUT else done

    def _call(self, name: str, key: str, action: Callable[[], Any]) -> Any:
        self._actor.turn()
        if name in READS and key in self._flipped:
            self._flipped.remove(key)
            return action()
        fault = self._faults.of(name, key)
        if fault is Fault.FLIPPED_READ:
            self._flipped.add(key)
        return self._do(fault, name, key, action)

    def _do(self, fault: Fault | None, name: str, key: str, action: Callable[[], Any]) -> Any:
        if fault is Fault.INTERRUPT:
            raise KeyboardInterrupt
        if fault is Fault.CRASH_BEFORE:
            self._die()
        if fault is Fault.LATE:
            self._faults.later(action)
        if fault in (Fault.LATE, Fault.LOST_REQUEST):
            raise TransientError(f"{name} {key}: no answer")
        done = action()
        if fault is Fault.WRONG_PUT:
            self._inner.objects[key] = replace(self._inner.objects[key], is_right=False)
        if fault is Fault.CRASH_AFTER:
            self._die()
        if fault is Fault.LOST_ANSWER:
            raise TransientError(f"{name} {key}: no answer")
        if fault is Fault.LOST_PUT and done.outcome is PutOutcome.CREATED:
            self._inner.delete([key])
        return flipped_answer(done) if fault is Fault.FLIPPED_READ else done

    def _die(self) -> None:
        self._actor.killed = True
        raise Killed


def flipped_answer(done: bytes | ReadObject) -> bytes | ReadObject:
    """The answer to a read with a wrong bit."""
    return flipped(done) if isinstance(done, bytes) else replace(done, data=flipped(done.data))
