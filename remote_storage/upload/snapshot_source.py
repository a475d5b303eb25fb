"""Read the source files of a segment (from a disk, S3 or HDFS), and its producer snapshot.

A segment is uploaded only with a snapshot that was compared with the log or computed from it. tiersnap then records the
size and checksum of the snapshot, so that it detects a later change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tiersnap.remote_storage.errors import ObjectNotFoundError, SnapshotChangedError, SnapshotVanishedError
from tiersnap.remote_storage.stores.object_store import ByteSource, ObjectStore
from tiersnap.snapshot.errors import (
    CorruptDataError,
    CorruptSnapshotError,
    MissingProducerSnapshotError,
    TransientError,
    UnfinishedError,
)
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict, may_be_uploaded
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.units import count_of


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file with the `size` in bytes at the time of the scan. A file with another size counts as changed."""

    filesystem: FileSystem
    path: str
    size: int

    def check_unchanged(self) -> None:
        """Raise an error if the size of the file has changed since the scan.

        Raises:
            TransientError: the file was deleted or its size changed, by retention, a broker restart or another replica.
        """
        with self._reading():
            size = self.filesystem.size_of(self.path)
        if size is None:
            raise self._changed("the file was deleted")
        if size != self.size:
            raise self._changed(f"the file has {count_of(size, 'byte')}, but had {self.size} before")

    @contextmanager
    def open(self) -> Iterator[ByteSource]:
        """Open the file. Methods of the opened file raise the errors below, too.

        Raises:
            TransientError: the file was deleted or cannot be read.
            UnfinishedError: this user may not read the file.
        """
        with self._reading(), self.filesystem.open(self.path) as file:
            yield _NamedSource(file, self._reading)

    def read(self) -> bytes:
        """Return the whole file. Raise TransientError if it cannot be read, or if its size changed."""
        with self.open() as file:
            data = file.read(self.size + 1)
        if len(data) != self.size:
            raise self._changed(f"the file has fewer than {count_of(self.size, 'byte')} now")
        return data

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise self._changed("the file was deleted") from error
        except PermissionError as error:
            raise UnfinishedError(
                f"{self.path}: cannot be read: {error}", hint="run the command as the user that runs the broker"
            ) from error
        except OSError as error:
            raise TransientError(f"{self.path}: {error}", hint="run the same command again", path=self.path) from error

    def _changed(self, how: str) -> TransientError:
        return TransientError(
            f"{self.path}: the file changed after the scan: {how}",
            hint="run the same command again, which scans the file again",
            path=self.path,
        )


@dataclass(frozen=True, slots=True)
class _NamedSource:
    """A ByteSource whose errors name the source file. The store's error would name the target object instead."""

    file: ByteSource
    reading: Callable[[], AbstractContextManager[None]]

    def read(self, nbytes: int, /) -> bytes:
        with self.reading():
            return self.file.read(nbytes)

    def seek(self, position: int, /) -> int:
        with self.reading():
            return self.file.seek(position)


@dataclass(frozen=True, slots=True)
class TrustedSnapshot:
    """A producer snapshot that may be uploaded, as the bytes of a `.snapshot` file.

    Raises:
        SnapshotChangedError: the bytes differ from the recorded checksum.
        CorruptSnapshotError: the bytes are damaged, or an entry has an offset at or above `offset`.
        MissingProducerSnapshotError: a broker's file was not compared with the log, or contradicts the log.
    """

    offset: int  # exclusive; the base offset of the segment that follows
    data: bytes
    provenance: Provenance  # origin of the content
    # verdict of the comparison with the log; needed for a broker's file, None for a computed snapshot
    verdict: SnapshotVerdict | None = None
    # CRC-32C of the whole file, recorded by the replay; None if none was recorded
    crc32c: int | None = None
    # verdict of the comparison of every entry of a broker's file; None if unknown. `verdict` permits an upload, and
    # `comparison` permits a replay from this snapshot.
    comparison: SnapshotVerdict | None = None

    def __post_init__(self) -> None:
        name = snapshot_file.file_name(self.offset)
        if self.crc32c is not None and (found := crc32c(self.data)) != self.crc32c:
            raise SnapshotChangedError(
                f"{name}: the snapshot has {count_of(len(self.data), 'byte')} and CRC {found:08x}, but the "
                f"snapshot that tiersnap computed or compared had CRC {self.crc32c:08x}",
                hint="run the same command again, which compares the new file",
                offset=self.offset,
            )
        entries = snapshot_file.checked(self.data, name=name)
        newest = max(
            int(entries["last_offset"].max(initial=-1)), int(entries["current_txn_first_offset"].max(initial=-1))
        )
        if newest >= self.offset:
            raise CorruptSnapshotError(
                f"{name}: an entry has offset {newest}, but all offsets must be below the snapshot offset",
                hint="the file was renamed; to rebuild it: tiersnap repair LOGDIR --replace --apply",
            )
        if not may_be_uploaded(self.provenance, self.verdict):
            raise MissingProducerSnapshotError(
                f"{name}: the snapshot is not trusted: {self.provenance}, "
                f"{self.verdict or 'not compared with the log'}",
                hint="to compare: tiersnap verify SOURCE; to rebuild: tiersnap repair LOGDIR --replace --apply",
                offset=self.offset,
            )

    @property
    def entry_count(self) -> int:
        """Return the number of producers in the snapshot."""
        return (len(self.data) - snapshot_file.HEADER_LENGTH) // snapshot_file.ENTRY_LENGTH


LARGEST_SNAPSHOT = 512 << 20
"""Limit in bytes: a snapshot of eleven million producers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSource:
    """A snapshot to load. Exactly one of `data`, `file` and `object_key` is set."""

    offset: int  # exclusive; the base offset of the segment that follows
    provenance: Provenance  # for provenance, verdict and comparison see TrustedSnapshot
    verdict: SnapshotVerdict | None = None
    comparison: SnapshotVerdict | None = None
    crc32c: int | None = None  # recorded CRC-32C of the whole file; None if none was recorded
    data: bytes | None = None  # the bytes of a snapshot that was just computed
    file: SourceFile | None = None  # the broker's file, with its size at the comparison
    object_key: str | None = None  # key of the snapshot object in remote storage

    def load(self, store: ObjectStore) -> TrustedSnapshot:
        """Read the snapshot and compare it with the recorded checksum.

        Raises:
            SnapshotVanishedError: the file or object was deleted.
            SnapshotChangedError: the file or object changed.
            CorruptSnapshotError, MissingProducerSnapshotError: see TrustedSnapshot.
        """
        data = self._read(store)
        return TrustedSnapshot(self.offset, data, self.provenance, self.verdict, self.crc32c, self.comparison)

    def _read(self, store: ObjectStore) -> bytes:
        if self.data is not None:
            return self.data
        if self.file is not None:
            return self._read_file(self.file)
        key = self.object_key or ""
        try:
            return store.get(key, limit=LARGEST_SNAPSHOT)
        except ObjectNotFoundError as error:
            raise self._vanished(store.uri + key) from error
        except CorruptDataError as error:
            raise SnapshotChangedError(error.message, hint="run the same command again", offset=self.offset) from error

    def _read_file(self, file: SourceFile) -> bytes:
        try:
            return file.read()
        except TransientError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._vanished(file.path) from error
            raise SnapshotChangedError(
                f"{snapshot_file.file_name(self.offset)}: {error.message}",
                hint="run the same command again, which compares the new file",
                offset=self.offset,
            ) from error

    def _vanished(self, where: str) -> SnapshotVanishedError:
        return SnapshotVanishedError(
            f"{where}: the snapshot at offset {self.offset} was deleted after tiersnap judged the segment",
            hint="run the same command again, which computes the snapshot",
            offset=self.offset,
            place=where,
        )
