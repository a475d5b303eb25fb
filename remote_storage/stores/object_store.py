"""The protocol of object stores.

Keys are relative to the store's root (`uri`), use `/`, and are built by `layouts.keys` alone. Stores hold no
connection, so they can be pickled and sent to executors; clients are made once a process.

An object appears complete or not at all. `put_if_absent` and `put_file_if_absent` never change an existing object.
They return ALREADY_SAME if it has the same content, and raise ObjectExistsError if it has other content. `replace_if`
overwrites only the version that was read. `replace` overwrites unconditionally.

All methods raise TransientError for failures that may pass (time-outs, throttling, an unreachable server), and
RemoteStorageError for lasting ones (a missing bucket, denied access, a wrong checksum). No call lasts longer than the
Deadline in which it is made.
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


class PutOutcome(StrEnum):
    """The writer of the object.

    CREATED: this call certainly, even if its first answer was lost and the repeated request was refused. A clean-up may
        delete the object.
    ALREADY_SAME: another writer, with the same content.
    """

    CREATED = "CREATED"
    ALREADY_SAME = "ALREADY_SAME"

    @property
    def is_ours(self) -> bool:
        """Return whether this call wrote the object."""
        return self is PutOutcome.CREATED


@dataclass(frozen=True, slots=True)
class PutResult:
    """The object that is now in the store."""

    outcome: PutOutcome
    size: int  # bytes
    crc32c: int  # of the content
    etag: str  # for `replace_if`
    proved: bool = False  # whether the store confirmed this content; if not, compare it by `head`


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object."""

    key: str
    size: int
    crc32c: int | None  # of the content; None in listings, and if the store does not know it (S3 without checksums)
    modified: int  # ms, by the store's clock
    etag: str = ""  # of this version, for `replace_if`; empty in the listings of directories
    # as put: a store adds its own prefix to the names, and leaves out other writers' metadata; empty in listings and
    # for directories, which store none
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_replica: bool = False  # whether S3 replication made it from an object of another bucket; only `head` knows


@dataclass(frozen=True, slots=True)
class ReadObject:
    """The content of an object and when it was read."""

    data: bytes
    info: ObjectInfo
    read_at: int  # ms, by the clock of `info.modified`: the server's clock, never that of this host

    @property
    def age(self) -> int:
        """Return the ms since the object was written, by the store's clock."""
        return max(0, self.read_at - self.info.modified)


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """A key that could not be deleted, and the reason."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """A leftover of a killed process: an S3 multipart upload, which costs money unnoticed, or a temporary file."""

    key: str  # of the object that it would become; in a directory only the last part of the key
    upload_id: str
    started: int  # ms, by the store's clock
    age: int = 0  # ms since then, by the same clock; in a directory since the last byte was written
    is_ours: bool = False  # whether its name has our mark; a claim decides for the others


def other_content(name: str, key: str, place: str, more: str = "") -> ObjectExistsError:
    """Return the error that an object exists with other content; the hint suggests to change `place`."""
    return ObjectExistsError(
        f"{name} exists with other content{more}",
        hint=f"tiersnap overwrites nothing unasked: look at both, then name --replace or another {place}",
        key=key,
    )


def changed_since_read(name: str, key: str, how: str) -> ObjectChangedError:
    """Return the error that an object is not the one that was read."""
    return ObjectChangedError(
        f"{name}: {how} since it was read", hint="another writer was faster: run the same command again", key=key
    )


def too_large(name: str, key: str, limit: int) -> CorruptDataError:
    """Return the error that an object has more bytes than any of its kind."""
    return CorruptDataError(f"{name}: has more bytes than the {limit} that make sense", key=key)


def ended_early(name: str, lacking: int) -> TransientError:
    """Return the error that a source has fewer bytes than were announced."""
    return TransientError(
        f"{name}: the source ended {count_of(lacking, 'byte')} early",
        hint="the file was truncated or replaced since it was scanned: scan again",
    )


class ByteSource(Protocol):
    """A readable, seekable binary file."""

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes` bytes, none at the end."""

    def seek(self, position: int, /) -> int:
        """Go to a byte position."""


class ObjectStore(Protocol):
    """An object store."""

    @property
    def uri(self) -> str:
        """Return the URI of the store's root, ending in `/`; people paste `uri + key`."""

    @property
    def words(self) -> list[str]:
        """Return the options of a command line by which the store is reached, besides its URI."""

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Create an object. Raises ObjectExistsError: one exists with other content."""

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
            ObjectExistsError: one exists with other content.
            TransientError: also when `source` ends early, or time is over.
        """

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Create or overwrite an object, on the user's request."""

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Overwrite an object if it still has this `etag`; if its content is the same already, return ALREADY_SAME.

        Raises:
            ObjectChangedError: it is another version, or was deleted.
        """

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        """Return the content of an object.

        Raises:
            ObjectNotFoundError: it does not exist.
            CorruptDataError: it has more than `limit` bytes, or not the CRC that was stored with it.
        """

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        """Return the content of an object, its properties, and the time by the store's clock; raises as `get`."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return `length` bytes from byte `start`, fewer at the end. Raises ObjectNotFoundError: it does not exist."""

    def head(self, key: str) -> ObjectInfo | None:
        """Return the properties of an object, None if it does not exist; a directory reads the file for its CRC."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key begins with `prefix` and is greater than `after`, in key order."""

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        """Yield the objects among `keys` that a listing of `prefix` shows; a directory reads only these files."""

    def folders(self, prefix: str = "") -> Iterator[str]:
        """Yield the folders of keys that begin with `prefix`, in order; one request for each 1,000 of them.

        Args:
            prefix: empty, or ends in `/`. The results include it, and end in `/`, too.
        """

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        """Delete objects in any order; absent keys are no error. Return the failures, and never raise for them."""

    def now(self) -> int:
        """Return the server's time (ms), the clock of `modified`; 0 if it has none, so that no object looks old."""

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield uploads that were begun and neither finished nor aborted."""

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        """Abort an unfinished upload; it is no error if it no longer exists."""

    def probes(self) -> Iterator[ProbeAnswer]:
        """Yield answers about properties that only this kind of store has; see `probe.probe_store` for the others."""

    def refuses_damage(self, key: str) -> bool:
        """Return whether the store refuses content that differs from its checksum; it may write `key`."""

    def old_versions(self) -> str:
        """Return a sentence if deleted objects stay as old versions, or may; "" if they do not. At most one request.

        Raises:
            TransientError: the store does not answer.
        """
