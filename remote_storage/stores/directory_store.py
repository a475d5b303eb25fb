"""Objects as files below a directory: a mounted volume, a test, or the target of Kafka's LocalTieredStorage.

A file is written below `.tiersnap-unfinished/`, synced, and linked to its name, which fails if the name is taken; then
the directories are synced. User metadata is not kept: whoever needs it reads the manifests.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import google_crc32c

from tiersnap.remote_storage.errors import InvalidKeyError, ObjectNotFoundError
from tiersnap.remote_storage.stores.deadline import NO_DEADLINE, Deadline
from tiersnap.remote_storage.stores.object_store import (
    ByteSource,
    DeleteFailure,
    ObjectInfo,
    PutOutcome,
    PutResult,
    UnfinishedUpload,
)
from tiersnap.snapshot.errors import ObjectExistsError, RemoteStorageError, TransientError
from tiersnap.snapshot.formats.crc32c import crc32c_of_file

UNFINISHED = ".tiersnap-unfinished"
_READ_SIZE = 1 << 20
_PASSING = {errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.EIO, errno.ESTALE, errno.ETIMEDOUT}


@dataclass(frozen=True, slots=True)
class DirectoryStore:
    """ObjectStore over a directory, which is made when the first object is put."""

    root: Path

    @property
    def uri(self) -> str:
        """`file:///…/`."""
        return self.root.as_uri().rstrip("/") + "/"

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """See ObjectStore."""
        return self.put_file_if_absent(key, io.BytesIO(data), len(data))

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
        """See ObjectStore."""
        path = self._path(key)
        with _translated(path), self._temporary(path) as temporary:
            crc = _copy(source, size, temporary, deadline)
            if crc32c is not None and crc != crc32c:
                raise TransientError(f"{path}: the source has CRC {crc:08x} and not {crc32c:08x}", hint="scan again")
            self._make_directories(path.parent)
            try:
                path.hardlink_to(temporary)
            except FileExistsError:
                return self._same(path, key, size, crc)
            _sync_directory(path.parent)
        return PutResult(PutOutcome.CREATED, size, crc)

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """See ObjectStore."""
        path = self._path(key)
        with _translated(path), self._temporary(path) as temporary:
            crc = _copy(io.BytesIO(data), len(data), temporary, NO_DEADLINE)
            self._make_directories(path.parent)
            temporary.replace(path)
            _sync_directory(path.parent)
        return PutResult(PutOutcome.CREATED, len(data), crc)

    def get(self, key: str) -> bytes:
        """See ObjectStore."""
        path = self._path(key)
        with _translated(path):
            return path.read_bytes()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ObjectStore."""
        path = self._path(key)
        with _translated(path), path.open("rb") as file:
            file.seek(start)
            return file.read(max(0, length))

    def head(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        path = self._path(key)
        with _translated(path):
            try:
                return _info(key, path.stat(), crc32c_of_file(path))
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See ObjectStore."""
        folder = prefix.rpartition("/")[0]
        if folder or prefix.startswith("/"):
            self._path(folder)
        with _translated(self.root):
            yield from self._walk(folder + "/" if folder else "", prefix)

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        """See ObjectStore."""
        failures = []
        for key in keys:
            path = self._path(key)
            try:
                path.unlink(missing_ok=True)
                _sync_directory(path.parent)
            except NotADirectoryError:
                continue
            except OSError as error:
                if error.errno != errno.ENOENT:
                    failures.append(DeleteFailure(key, str(error)))
        return tuple(failures)

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """See ObjectStore; temporary files know the last part of their key alone, so they are listed for any prefix."""
        with _translated(self.root), suppress(FileNotFoundError):
            for path in sorted((self.root / UNFINISHED).iterdir()):
                yield UnfinishedUpload(path.name.partition(".")[2], path.name, path.stat().st_mtime_ns // 1_000_000)

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        """See ObjectStore."""
        path = self.root / UNFINISHED / PurePosixPath(upload.upload_id).name
        with _translated(path):
            path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if parts[0] == UNFINISHED or any(part in {"", ".", ".."} for part in parts) or "\0" in key:
            raise InvalidKeyError(f"{key!r} is no key of a file below {self.root}", key=key)
        return self.root.joinpath(*parts)

    @contextmanager
    def _temporary(self, path: Path) -> Iterator[Path]:
        folder = self.root / UNFINISHED
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{uuid.uuid4().hex}.{path.name[-180:]}"
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _make_directories(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_directories(folder.parent)
            folder.mkdir(exist_ok=True)
            _sync_directory(folder.parent)

    def _walk(self, folder: str, prefix: str) -> Iterator[ObjectInfo]:
        """Objects below `folder` (a key prefix ending in `/`, or empty) in the order of their keys."""
        try:
            with os.scandir(self.root / folder) as entries:
                # A folder sorts as its keys do: `a-b/x` before `a/x`.
                found = sorted((entry.name + "/" if entry.is_dir() else entry.name, entry) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name, entry in found:
            key = folder + name
            if key == UNFINISHED + "/" or not (key.startswith(prefix) or prefix.startswith(key)):
                continue
            if name.endswith("/"):
                yield from self._walk(key, prefix)
            elif key.startswith(prefix):
                with suppress(FileNotFoundError):
                    yield _info(key, entry.stat(), None)

    def _same(self, path: Path, key: str, size: int, crc: int) -> PutResult:
        if path.stat().st_size == size and crc32c_of_file(path) == crc:
            return PutResult(PutOutcome.ALREADY_SAME, size, crc)
        raise ObjectExistsError(
            f"{path} exists with other content",
            hint="tiersnap overwrites nothing unasked: look at both, then name --replace or another directory",
            key=key,
        )


def _info(key: str, status: os.stat_result, crc: int | None) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, crc, status.st_mtime_ns // 1_000_000)


def _copy(source: ByteSource, size: int, path: Path, deadline: Deadline) -> int:
    """Write the first `size` bytes of `source` to a new, synced file; returns their CRC-32C."""
    source.seek(0)
    crc, left = 0, size
    with path.open("xb") as file:
        while left:
            deadline.check(f"copy to {path}")
            data = source.read(min(left, _READ_SIZE))
            if not data:
                raise TransientError(
                    f"{path}: the source ended {left} bytes early",
                    hint="the file was truncated or replaced since it was scanned: scan again",
                )
            crc, left = google_crc32c.extend(crc, data), left - len(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return crc


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectNotFoundError(f"{path}: there is no such object", path=str(path)) from error
    except OSError as error:
        hint = "check the owner, the mode and the free space of the directory"
        if error.errno in _PASSING:
            raise TransientError(f"{path}: {error.strerror}", hint="run the same command again") from error
        if error.errno in {errno.EPERM, errno.ENOTSUP, errno.EMLINK} and stat.S_ISDIR(path.parent.stat().st_mode):
            hint = "the file system may lack hard links, which are how nothing is overwritten; use another"
        raise RemoteStorageError(f"{path}: {error.strerror}", hint=hint, path=str(path)) from error
