"""What tiersnap asks of a place that keeps objects.

Keys are relative to the store's root (`uri`), use `/`, and are built by `layouts.keys` alone. Stores hold no
connection, so they can be pickled and sent to executors; clients are made once a process.

An object appears whole or not at all. `put_if_absent` and `put_file_if_absent` never change one that is there:
the same content again is ALREADY_SAME, other content is an ObjectExistsError. Only `replace` overwrites.

All methods raise TransientError for what may pass (time-outs, throttling, a server that is away), RemoteStorageError
for what will not (no such bucket, access denied, a wrong checksum).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tiersnap.remote_storage.stores.deadline import NO_DEADLINE, Deadline


class PutOutcome(StrEnum):
    """What a put-if-absent found."""

    CREATED = "CREATED"
    ALREADY_SAME = "ALREADY_SAME"


@dataclass(frozen=True, slots=True)
class PutResult:
    """What is now in the store: size in bytes, CRC-32C of the content."""

    outcome: PutOutcome
    size: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object.

    Attributes:
        crc32c: of the content; None where the store does not know it (S3 without checksums) and in listings.
        metadata: as put; empty in listings and for directories, which keep none.
        modified: ms.
    """

    key: str
    size: int
    crc32c: int | None
    modified: int
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """A key that is still there, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """What a killed process left: an S3 multipart upload that costs money unseen, a temporary file of a directory.

    Attributes:
        key: what it was to become; for directories only the last part of it.
        started: ms.
    """

    key: str
    upload_id: str
    started: int


class ByteSource(Protocol):
    """A readable, seekable binary file; also what pyarrow's `open_input_file` returns."""

    def read(self, nbytes: int, /) -> bytes:
        """At most `nbytes` bytes, none at the end."""
        ...

    def seek(self, position: int, /) -> int:
        """Go to a byte position."""
        ...


class ObjectStore(Protocol):
    """Where objects are kept."""

    @property
    def uri(self) -> str:
        """Where the store's root is, ending in `/`; `uri + key` is what people paste."""
        ...

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Create an object.

        Raises:
            ObjectExistsError: there is one with other content.
        """
        ...

    def put_file_if_absent(
        self,
        key: str,
        source: ByteSource,
        size: int,
        *,
        crc32c: int | None = None,
        metadata: Mapping[str, str] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> PutResult:
        """Create an object from the first `size` bytes of `source`, in bounded memory.

        `crc32c` is what the content must have; taken from the content when None.

        Raises:
            ObjectExistsError: there is one with other content.
            TransientError: also when `source` ends early or does not have that CRC, or time is over.
        """
        ...

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """Create or overwrite an object; for those who were told to."""
        ...

    def get(self, key: str) -> bytes:
        """The whole object.

        Raises:
            ObjectNotFoundError: there is none.
        """
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from byte `start`, fewer where the object ends.

        Raises:
            ObjectNotFoundError: there is none.
        """
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """What is there, or None; a directory reads the file for its CRC."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key begins with `prefix`, in key order."""
        ...

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        """Delete, in no order; absent keys are fine. Returns what could not be deleted and never raises for it."""
        ...

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Uploads that were begun and neither finished nor aborted."""
        ...

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        """Drop one of them; one that is gone is fine."""
        ...
