"""A store in memory with a clock that a test sets: what S3 promises, and tests/s3/test_object_store_contract.py holds.

store = MemoryStore()
store.time += 3_600_000      # an hour passes
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import google_crc32c

from tiersnap.remote_storage.errors import ObjectChangedError, ObjectNotFoundError
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
from tiersnap.remote_storage.stores.requests import NO_DEADLINE, Deadline, current
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError, TiersnapError, TransientError


@dataclass(frozen=True)
class Stored:
    """One object; CRC and etag are those of what was put, and whether it is what a client sent."""

    data: bytes
    modified: int
    crc32c: int
    etag: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_right: bool = True

    def holds(self, data: bytes) -> bool:
        """Whether the same was put, as far as the server knows."""
        return self.crc32c == google_crc32c.value(data)


@dataclass
class MemoryStore:
    """See the module.

    Attributes:
        time: ms, the server's clock.
        objects: by key.
        uploads: multipart uploads and temporary files that were begun, by upload id.
        changes: number of puts and deletions.
    """

    time: int = 1_700_000_000_000
    objects: dict[str, Stored] = field(default_factory=dict)
    uploads: dict[str, UnfinishedUpload] = field(default_factory=dict)
    uri: str = "memory://bucket/"
    changes: int = 0

    @property
    def words(self) -> list[str]:
        return []

    def probes(self) -> Iterator[ProbeAnswer]:
        return iter(())

    def refuses_damage(self, key: str) -> bool:
        return True

    def old_versions(self) -> str:
        return ""

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        current().check(key)
        found = self.objects.get(key)
        if found is not None and not found.holds(data):
            raise ObjectExistsError(f"{key}: the object exists with other content", hint="look at both", key=key)
        return self._put(key, data, metadata) if found is None else _result(found, PutOutcome.ALREADY_SAME)

    def put_file_if_absent(
        self,
        key: str,
        source: ByteSource,
        size: int,
        *,
        metadata: Mapping[str, str] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> PutResult:
        deadline.check(key)
        return self.put_if_absent(key, read_all(source, size), metadata)

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        current().check(key)
        return self._put(key, data, metadata)

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        current().check(key)
        found = self.objects.get(key)
        if found is None:
            raise ObjectChangedError(f"{key}: gone since tiersnap read it", key=key)
        if found.holds(data):
            return _result(found, PutOutcome.ALREADY_SAME)
        if found.etag != etag:
            raise ObjectChangedError(f"{key}: changed since tiersnap read it", key=key)
        return self._put(key, data, metadata)

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        return self.read(key, limit=limit).data

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        found = self._found(key)
        if limit is not None and len(found.data) > limit:
            raise CorruptDataError(f"{key}: the object has more than {limit} bytes, the limit for its kind", key=key)
        if not found.holds(found.data):
            raise CorruptDataError(f"{key}: not the CRC that was stored with it", key=key)
        return ReadObject(found.data, _info(key, found), self.time)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._found(key).data[start : start + max(0, length)]

    def head(self, key: str) -> ObjectInfo | None:
        current().check(key)
        return _info(key, self.objects[key]) if key in self.objects else None

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        current().check(prefix)
        for key in sorted(self.objects):
            if key.startswith(prefix) and key > after:
                found = self.objects[key]
                yield ObjectInfo(key, len(found.data), None, found.modified, found.etag)

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        return (found for found in self.list(prefix) if found.key in keys)

    def folders(self, prefix: str = "") -> Iterator[str]:
        found = {key.removeprefix(prefix) for key in self.objects if key.startswith(prefix)}
        return iter(sorted({f"{prefix}{key.partition('/')[0]}/" for key in found if "/" in key}))

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        failures = []
        for key in keys:
            try:
                current().check(key)
            except TiersnapError as error:
                failures.append(DeleteFailure(key, error.message))
            else:
                self.changes += self.objects.pop(key, None) is not None
        return tuple(failures)

    def now(self) -> int:
        return self.time

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        current().check(prefix)
        for each in sorted(self.uploads.values(), key=lambda upload: upload.key):
            if each.key.startswith(prefix):
                yield replace(each, age=self.time - each.started)

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        self.uploads.pop(upload.upload_id, None)

    def flip(self, key: str) -> None:
        """Damage an object for good, as a disk does: all that the server knows of it stays."""
        found = self.objects[key]
        self.objects[key] = replace(found, data=flipped(found.data), is_right=False)

    def leave_unfinished(self, key: str, *, is_file: bool) -> None:
        """Begin a multipart upload of which nobody will hear, or a temporary file as a directory has them."""
        upload_id = f"upload-{len(self.uploads)}-{self.time}"
        self.uploads[upload_id] = UnfinishedUpload(key, upload_id, self.time, is_ours=is_file)

    def _put(self, key: str, data: bytes, metadata: Mapping[str, str] | None) -> PutResult:
        self.changes += 1
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        self.objects[key] = Stored(data, self.time, google_crc32c.value(data), etag, dict(metadata or {}))
        return _result(self.objects[key], PutOutcome.CREATED)

    def _found(self, key: str) -> Stored:
        current().check(key)
        if key not in self.objects:
            raise ObjectNotFoundError(f"{self.uri}{key}: the object does not exist", path=key)
        return self.objects[key]


def flipped(data: bytes) -> bytes:
    """The same with a wrong bit in its middle."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :] if data else data


def read_all(source: ByteSource, size: int) -> bytes:
    """The first `size` bytes of a file; TransientError if it has fewer."""
    source.seek(0)
    parts, left = [], size
    while left:
        part = source.read(left)
        if not part:
            raise TransientError(f"the source ended {left} bytes early", hint="scan again")
        parts.append(bytes(part))
        left -= len(part)
    return b"".join(parts)


def _result(stored: Stored, outcome: PutOutcome) -> PutResult:
    return PutResult(outcome, len(stored.data), stored.crc32c, stored.etag, proved=True)


def _info(key: str, stored: Stored) -> ObjectInfo:
    return ObjectInfo(key, len(stored.data), stored.crc32c, stored.modified, stored.etag, stored.metadata)
