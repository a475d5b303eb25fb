"""A store that lies: it gives other bytes than it has, loses what it acknowledged, or does later what it refused.

    store = LyingStore(DirectoryStore(path))
    store.flips[key] = 1          # the next read of it has a flipped byte
    store.loses = {".log"}        # what ends so is acknowledged and not kept
    store.shortens = {".log"}     # what ends so is acknowledged and kept without its last byte
    store.late = {".log"}         # what ends so fails, and is there after `store.deliver()`

A wish about a put counts once; what is kept lies in `inner`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tiersnap.remote_storage.stores.object_store import ByteSource, ObjectStore, PutResult, ReadObject
from tiersnap.snapshot.errors import TransientError


@dataclass
class LyingStore:
    """An ObjectStore over `inner`; what it is not told to lie about it hands on.

    Attributes:
        flips: by key, how many of its next reads have a flipped byte.
        loses, shortens: ends of keys whose next put is acknowledged, and lost or cut.
        late: ends of keys whose next put fails, and is done by `deliver`.
        reads: keys that were read as a whole.
    """

    inner: ObjectStore
    flips: dict[str, int] = field(default_factory=dict)
    loses: set[str] = field(default_factory=set)
    shortens: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    reads: list[str] = field(default_factory=list)
    _delivered_later: list[Callable[[], PutResult]] = field(default_factory=list)

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def words(self) -> list[str]:
        return self.inner.words

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        self.reads.append(key)
        found = self.inner.read(key, limit=limit)
        return replace(found, data=self._flipped(key, found.data))

    def replace_if(self, key: str, data: bytes, *args: Any, **options: Any) -> PutResult:
        done = self.inner.replace_if(key, data, *args, **options)
        self.flips.pop(key, None)  # other bytes on another place of the disk
        return done

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        return self.read(key, limit=limit).data

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        return self._put(key, lambda: self.inner.put_if_absent(key, data, metadata))

    def put_file_if_absent(self, key: str, source: ByteSource, size: int, **options: Any) -> PutResult:
        if self._is_wished(self.late, key):
            content = source.read(size)  # the file may be gone by then
            while len(content) < size:
                content += source.read(size - len(content))
            self._delivered_later.append(lambda: self.inner.put_if_absent(key, content))
            raise TransientError(f"{key}: no answer")
        return self._put(key, lambda: self.inner.put_file_if_absent(key, source, size, **options))

    def deliver(self) -> None:
        """Do what was refused."""
        while self._delivered_later:
            self._delivered_later.pop()()

    def _put(self, key: str, put: Callable[[], PutResult]) -> PutResult:
        if self._is_wished(self.late, key):
            self._delivered_later.append(put)
            raise TransientError(f"{key}: no answer")
        done = put()
        if self._is_wished(self.loses, key):
            self.inner.delete([key])
        if self._is_wished(self.shortens, key):
            self.inner.replace(key, self.inner.get(key)[:-1])
        return done

    def _is_wished(self, wishes: set[str], key: str) -> bool:
        wish = next((wish for wish in wishes if key.endswith(wish)), None)
        if wish is not None:
            wishes.discard(wish)
        return wish is not None

    def _flipped(self, key: str, data: bytes) -> bytes:
        if self.flips.get(key, 0) <= 0:
            return data
        self.flips[key] -= 1
        return bytes([data[0] ^ 0x40]) + data[1:]
