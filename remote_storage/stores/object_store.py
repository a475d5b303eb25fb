"""The protocol of object stores.

Keys are relative to the store's root (`uri`), use `/`, and are built by `layouts.keys` alone. Stores hold no
connection, so they can be pickled and sent to executors; clients are made once a process.

An object appears whole or not at all. `put_if_absent` and `put_file_if_absent` never change one that is there:
the same content again is ALREADY_SAME, other content is an ObjectExistsError. `replace_if` overwrites the object that
was read and no other; only `replace` overwrites whatever is there.

All methods raise TransientError for what may pass (time-outs, throttling, a server that is away), RemoteStorageError
for what will not (no such bucket, access denied, a wrong checksum). No call outlasts the Deadline it is made in.
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
    """The maker of the object that is there.

    CREATED: this call did, beyond doubt; also where its first answer was lost and the repeated request was refused.
        Who has to clean up may delete it.
    ALREADY_SAME: somebody else did, with the same content.
    """

    CREATED = "CREATED"
    ALREADY_SAME = "ALREADY_SAME"

    @property
    def is_ours(self) -> bool:
        """Return whether this call made the object."""
        return self is PutOutcome.CREATED


@dataclass(frozen=True, slots=True)
class PutResult:
    """The object that is now in the store."""

    outcome: PutOutcome
    size: int  # bytes
    crc32c: int  # of the content
    etag: str  # for `replace_if`
    proved: bool = False  # whether the store itself said that it has this content; if not, ask it by `head`


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object."""

    key: str
    size: int
    crc32c: int | None  # of the content; None where the store does not know it (S3 without checksums) and in listings
    modified: int  # ms, by the store's clock
    etag: str = ""  # the store's word for this content, for `replace_if`; empty in the listings of directories
    # as put: a store adds its own prefix to the names, and leaves out other writers' metadata; empty in listings and
    # for directories, which store none
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_replica: bool = False  # whether S3 replication made it from an object of another bucket; from `head` alone


@dataclass(frozen=True, slots=True)
class ReadObject:
    """The content of an object and when it was read."""

    data: bytes
    info: ObjectInfo
    read_at: int  # ms, by the clock that `info.modified` is of: the server's, and never that of this host

    @property
    def age(self) -> int:
        """Time since the object was written: ms, by the store's clock."""
        return max(0, self.read_at - self.info.modified)


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """A key that is still there, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """A leftover of a killed process: an S3 multipart upload, which costs money unseen, or a directory's file."""

    key: str  # what it was to become; for directories only the last part of it
    upload_id: str
    started: int  # ms, by the store's clock
    age: int = 0  # ms since then, by the same clock; in a directory since the last byte was written
    is_ours: bool = False  # its name bears our mark; of others a claim must tell


def other_content(name: str, key: str, place: str, more: str = "") -> ObjectExistsError:
    """Return the error that an object is there with other content; `place` is what another one would be."""
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
    """Return the error that a source has fewer bytes than were to be sent."""
    return TransientError(
        f"{name}: the source ended {count_of(lacking, 'byte')} early",
        hint="the file was truncated or replaced since it was scanned: scan again",
    )


class ByteSource(Protocol):
    """A readable, seekable binary file."""

    def read(self, nbytes: int, /) -> bytes:
        """At most `nbytes` bytes, none at the end."""

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
        """Create an object. Raises ObjectExistsError: there is one with other content."""

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
            ObjectExistsError: there is one with other content.
            TransientError: also when `source` ends early, or time is over.
        """

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Create or overwrite an object; for those who were told to."""

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Overwrite an object if it is still the one with this `etag`; the same content is ALREADY_SAME as well.

        Raises:
            ObjectChangedError: it is another one, or gone.
        """

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        """The whole object.

        Raises:
            ObjectNotFoundError: there is none.
            CorruptDataError: it has more than `limit` bytes, or not the CRC that was stored with it.
        """

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        """The whole object, what the store knows of it, and when it was, by the store's clock; raises as `get`."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from byte `start`, fewer where the object ends. Raises ObjectNotFoundError: there is none."""

    def head(self, key: str) -> ObjectInfo | None:
        """Return the object that is there, or None; a directory reads the file for its CRC."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key begins with `prefix` and is greater than `after`, in key order."""

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        """Those of `keys` that a listing of `prefix` shows; a directory looks at these files alone."""

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        """Delete, in no order; absent keys are fine. Returns what could not be deleted and never raises for it."""

    def now(self) -> int:
        """ms, by the clock that `modified` is of: the server's; 0 where it tells none, so that nothing looks old."""

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Uploads that were begun and neither finished nor aborted."""

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        """Drop one of them; one that is gone is fine."""

    def probes(self) -> Iterator[ProbeAnswer]:
        """Yield answers about properties that only this kind of store has; see `probe.probe_store` for the others."""

    def refuses_damage(self, key: str) -> bool:
        """Return whether the store refuses content that differs from its checksum; it may write `key`."""

    def old_versions(self) -> str:
        """Return a sentence if deleted objects stay as old versions, or may; "" if they do not. At most one request.

        Raises:
            TransientError: the store does not answer.
        """
