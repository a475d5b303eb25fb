"""The protocol of object stores.

Keys are relative to the store's root (`uri`), use `/`, and are built by `layouts.keys` only. Stores hold no connection,
so they can be pickled and sent to executors. Each process creates its own client.

Readers never see an incomplete object. `put_if_absent` and `put_file_if_absent` never change an existing object. They
return ALREADY_SAME if the existing object has the same content, and raise ObjectExistsError if the content differs.
`replace_if` overwrites only the version that the caller read. `replace` overwrites unconditionally.

All methods raise TransientError for failures that may pass, such as a time-out, throttling or an unreachable server.
They raise RemoteStorageError for lasting failures, such as a missing bucket, denied access or a wrong checksum. Inside
a `with Deadline(…)` block, each call ends before that deadline.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tiersnap.remote_storage.errors import ObjectChangedError
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer
from tiersnap.remote_storage.stores.requests import NO_DEADLINE, Deadline
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError, TransientError
from tiersnap.snapshot.units import count_of

LIST_PAGE = 1_000  # greatest number of objects in one answer to a list request of S3


class PutOutcome(StrEnum):
    """The outcome of a call that writes an object.

    CREATED: this call wrote the object, perhaps by a request whose answer was lost. The caller may delete the object.
    ALREADY_SAME: another writer wrote the object with the same content.
    """

    CREATED = "CREATED"
    ALREADY_SAME = "ALREADY_SAME"

    @property
    def is_ours(self) -> bool:
        """Return whether this call wrote the object."""
        return self is PutOutcome.CREATED


@dataclass(frozen=True, slots=True)
class PutResult:
    """The stored object after a put."""

    outcome: PutOutcome
    size: int  # bytes
    crc32c: int  # of the content
    etag: str  # for `replace_if`
    proved: bool = False  # whether the store confirmed this content; if not, the caller compares it by `head`


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Properties of one object."""

    key: str
    size: int
    crc32c: int | None  # of the content; None in listings, and if the server stores no checksum
    modified: int  # ms, by the store's clock
    etag: str = ""  # of this version, for `replace_if`; empty in the listings of directories
    # User metadata that tiersnap put, without the store's prefix of the names. Empty in listings, and for directories.
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_replica: bool = False  # whether S3 replication wrote the object; always False in listings


@dataclass(frozen=True, slots=True)
class ReadObject:
    """The content of an object and the time of the read."""

    data: bytes
    info: ObjectInfo
    read_at: int  # ms, by the store's clock, like `info.modified`

    @property
    def age(self) -> int:
        """Return the time since the object was written, in ms by the store's clock."""
        return max(0, self.read_at - self.info.modified)


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """A key that the store did not delete, and the reason."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """A leftover of a killed process: an S3 multipart upload, which costs money, or a temporary file of a directory."""

    key: str  # of the object to be; in a directory only the last part of the key
    upload_id: str
    started: int  # ms, by the store's clock
    age: int = 0  # ms since `started`, by the store's clock; in a directory since the last write
    is_ours: bool = False  # whether the file name has tiersnap's mark; always False for S3 uploads


def other_content(name: str, key: str, place: str, more: str = "") -> ObjectExistsError:
    """Return the error that an object exists with other content.

    The hint advises the user to give another `place`, such as another prefix or directory.
    """
    return ObjectExistsError(
        f"{name}: the object exists with other content{more}",
        hint=f"compare the object with the new content, then give --replace or another {place}",
        key=key,
    )


def changed_since_read(name: str, key: str, how: str) -> ObjectChangedError:
    """Return the error that another writer changed an object since the read. `how` is "changed" or "gone"."""
    return ObjectChangedError(
        f"{name}: {how} since tiersnap read it",
        hint="another writer changed the object: run the same command again",
        key=key,
    )


def too_large(name: str, key: str, limit: int) -> CorruptDataError:
    """Return the error that an object has more than `limit` bytes."""
    return CorruptDataError(f"{name}: the object has more than {limit} bytes, the limit for its kind", key=key)


def ended_early(name: str, lacking: int) -> TransientError:
    """Return the error that a source has fewer bytes than the caller gave. `lacking` is the number of missing bytes."""
    return TransientError(
        f"{name}: the source has {count_of(lacking, 'byte')} less than expected",
        hint="the file was cut or replaced after the scan: scan again",
    )


class ByteSource(Protocol):
    """A readable, seekable binary file."""

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes` bytes, none at the end of the file."""

    def seek(self, position: int, /) -> int:
        """Set the byte position, and return it."""


class ObjectStore(Protocol):
    """An object store."""

    @property
    def uri(self) -> str:
        """Return the URI of the store's root with a `/` at the end. `uri + key` is the URI of an object."""

    @property
    def words(self) -> list[str]:
        """Return the command-line options that a command needs besides the URI to reach the store."""

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Create an object. Raises ObjectExistsError: the object exists with other content."""

    def put_file_if_absent(
        self,
        key: str,
        source: ByteSource,
        size: int,
        *,
        metadata: Mapping[str, str] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> PutResult:
        """Create an object from the first `size` bytes of `source`, in bounded memory.

        Raises:
            ObjectExistsError: the object exists with other content.
            TransientError: `source` ends early, the deadline has passed, or the store fails for now.
        """

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Create or overwrite an object unconditionally."""

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Overwrite an object if its ETag is still `etag`. Return ALREADY_SAME if the object already has this content.

        Raises:
            ObjectChangedError: the object has another ETag, or was deleted.
        """

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        """Return the content of an object.

        Raises:
            ObjectNotFoundError: the object does not exist.
            CorruptDataError: the content has more than `limit` bytes, or its CRC differs from the stored CRC.
        """

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        """Return the content and the properties of an object, and the time of the read.

        Raises the same errors as `get`.
        """

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return `length` bytes from byte `start`, fewer at the end.

        Raises:
            ObjectNotFoundError: the object does not exist.
        """

    def head(self, key: str) -> ObjectInfo | None:
        """Return the properties of an object, or None if the object does not exist.

        DirectoryStore reads the complete file to compute its CRC.
        """

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key begins with `prefix` and is greater than `after`, in key order."""

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        """Yield the existing objects among `keys`, which all begin with `prefix`.

        S3Store lists all keys below `prefix`. DirectoryStore reads the status of each file in `keys`.
        """

    def folders(self, prefix: str = "") -> Iterator[str]:
        """Yield the folders directly below `prefix`, in order. S3 needs one request for each 1,000 folders.

        Args:
            prefix: empty, or ends in `/`. The results begin with `prefix` and end in `/`.
        """

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        """Delete objects in any order, and return the failures instead of raising them.

        An absent key is not a failure.
        """

    def now(self) -> int:
        """Return the server's time in ms, by the clock that `ObjectInfo.modified` uses.

        Return 0 if the server gives no time, so that no object looks old.
        """

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads that were neither completed nor aborted, and whose key begins with `prefix`."""

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        """Abort an unfinished upload. An upload that no longer exists is not an error."""

    def probes(self) -> Iterator[ProbeAnswer]:
        """Yield answers about properties that only this kind of store has.

        See `probe.probe_store` for the common properties.
        """

    def refuses_damage(self, key: str) -> bool:
        """Return whether the store refuses content that differs from its checksum.

        If the store accepts the content, the object `key` exists afterwards.
        """

    def old_versions(self) -> str:
        """Return a warning if the store keeps deleted objects as old versions, or may keep them. Otherwise return "".

        S3 needs one request.

        Raises:
            TransientError: the store does not answer.
        """
