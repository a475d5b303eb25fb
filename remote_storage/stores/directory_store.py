"""Objects as files below a directory: a mounted volume, a test, or the target of Kafka's LocalTieredStorage.

A put writes a file below `.tiersnap-unfinished/` (see `directory_files`), syncs the file and links it to its final
name. The link fails if the name exists. After the link, the put syncs the directories. A replacement or a deletion
holds the lock of the store until it has renamed or removed the file. No symlink below the directory is followed. User
metadata is not stored, because claims and snapshot manifests also contain the provenance of snapshots.

The ETag of an object consists of its CRC, its size and its modification time.
"""

from __future__ import annotations

import builtins
import errno
import io
import logging
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import google_crc32c

from tiersnap.remote_storage.errors import InvalidKeyError, ObjectNotFoundError
from tiersnap.remote_storage.stores.directory_files import (
    UNFINISHED,
    Temporary,
    UnfinishedFolder,
    entries,
    new_file,
    opened_file,
    opened_folder,
)
from tiersnap.remote_storage.stores.object_store import (
    ByteSource,
    DeleteFailure,
    ObjectInfo,
    PutOutcome,
    PutResult,
    ReadObject,
    UnfinishedUpload,
    changed_since_read,
    ended_early,
    other_content,
    too_large,
)
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer
from tiersnap.remote_storage.stores.requests import NO_DEADLINE, Deadline, current, earliest
from tiersnap.snapshot.atomic_file import FULL, cannot_write
from tiersnap.snapshot.errors import RemoteStorageError, TiersnapError, TransientError

_log = logging.getLogger(__name__)

_READ_SIZE = 1 << 20
# A mount point has a folder lost+found, which belongs to root and which other users may not read.
_NO_OBJECTS = frozenset({f"{UNFINISHED}/", "lost+found/"})
_PASSING = {errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.EIO, errno.ESTALE, errno.ETIMEDOUT}


@dataclass(frozen=True, slots=True)
class DirectoryStore:
    """ObjectStore over a directory. The first put creates the directory."""

    root: Path
    # If True, the store creates no file, and uses the clock of this host instead of the file system's.
    is_only_read: bool = False

    @property
    def uri(self) -> str:
        """Return `file:///…/`."""
        return _uri_of(self.root)

    @property
    def words(self) -> list[str]:
        return []

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        return self.put_file_if_absent(key, io.BytesIO(data), len(data))

    def put_file_if_absent(
        self,
        key: str,
        source: ByteSource,
        size: int,
        *,
        metadata: Mapping[str, str] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> PutResult:
        *folders, name = self._parts(key)
        with (
            self._use(key),
            self._made(key, source, size, deadline) as (temporary, put),
            opened_folder(self.root, folders, make=True) as folder,
        ):
            try:
                temporary.link(folder, name)
            except FileExistsError:
                return self._same(_described(folder, name, key), key, put)
        _log.debug("put %s%s, %d bytes", self.uri, key, size)
        return put

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        *folders, name = self._parts(key)
        with (
            self._use(key),
            self._made(key, io.BytesIO(data), len(data)) as (temporary, put),
            opened_folder(self.root, folders, make=True) as folder,
            self._unfinished.locked(),
        ):
            temporary.rename(folder, name)
        _log.debug("replaced %s%s", self.uri, key)
        return put

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        *folders, name = self._parts(key)
        with self._use(key), self._made(key, io.BytesIO(data), len(data)) as (temporary, put):
            try:
                with opened_folder(self.root, folders) as folder, self._unfinished.locked():
                    found = _described(folder, name, key)
                    if _is_same(found, put):
                        return _already(found, put)
                    if found.etag != etag:
                        raise changed_since_read(f"{self._path(key)}", key, "changed")
                    temporary.rename(folder, name)
                    _log.debug("replaced %s%s", self.uri, key)
            except FileNotFoundError as error:
                raise changed_since_read(f"{self._path(key)}", key, "gone") from error
        return put

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        with self._file(key) as file:
            return self._content(file, key, limit)

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        """See ObjectStore. If the store is read-only, `read_at` is the time of this host's clock."""
        with self._file(key) as file:
            status, data = os.fstat(file.fileno()), self._content(file, key, limit)
        return ReadObject(data, _info(key, status, google_crc32c.value(data)), self._unfinished.now())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._file(key) as file:
            file.seek(start)
            return file.read(max(0, length))

    def head(self, key: str) -> ObjectInfo | None:
        *folders, name = self._parts(key)
        with self._use(key):
            try:
                with opened_folder(self.root, folders) as folder:
                    return _described(folder, name, key)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return None

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        folder = prefix.rpartition("/")[0]
        if folder or prefix.startswith("/"):
            self._parts(folder)
        yield from self._walk(folder + "/" if folder else "", prefix, after)

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        for path, below in groupby(sorted(keys), key=lambda key: key.rpartition("/")[0]):
            wanted = [(key, self._parts(key)) for key in below]
            with suppress(ObjectNotFoundError), self._use(path), opened_folder(self.root, wanted[0][1][:-1]) as folder:
                for key, (*_, name) in wanted:
                    with suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield ObjectInfo(key, status.st_size, None, _ms(status))

    def folders(self, prefix: str = "") -> Iterator[str]:
        """See ObjectStore. Folders without any file are skipped."""
        if prefix:
            self._parts(prefix.removesuffix("/"))
        found, _ = self._entries(prefix, "")
        for folder in sorted(f"{prefix}{name}/" for name in found):
            if folder not in _NO_OBJECTS and next(self._walk(folder, folder, ""), None) is not None:
                yield folder

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        failures = []
        for key in keys:
            if not self._is_there(key):
                continue
            *folders, name = self._parts(key)
            try:
                with self._use(key), opened_folder(self.root, folders) as folder, self._unfinished.locked():
                    os.unlink(name, dir_fd=folder)
                    os.fsync(folder)
                    _log.debug("deleted %s%s", self.uri, key)
            except ObjectNotFoundError:
                continue  # deleted meanwhile
            except TiersnapError as error:
                failures.append(DeleteFailure(key, error.message))
        return tuple(failures)

    def now(self) -> int:
        """See ObjectStore. The clock is the file system's, or this host's if the store is read-only."""
        with self._use(UNFINISHED):
            return self._unfinished.now()

    def probes(self) -> Iterator[ProbeAnswer]:
        return iter(())

    def refuses_damage(self, key: str) -> bool:
        return True

    def old_versions(self) -> str:
        return ""

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """See ObjectStore. `prefix` is ignored, because temporary files are named by the last part of the key."""
        with self._use(UNFINISHED):
            found = tuple(self._unfinished.uploads())
        yield from found

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        """See ObjectStore. A file without tiersnap's mark is kept."""
        with self._use(UNFINISHED):
            self._unfinished.remove(upload.upload_id)

    @property
    def _unfinished(self) -> UnfinishedFolder:
        return UnfinishedFolder(self.root, asks_clock=not self.is_only_read)

    def _parts(self, key: str) -> builtins.list[str]:
        parts = key.split("/")
        if parts[0] == UNFINISHED or not {"", ".", ".."}.isdisjoint(parts) or "\0" in key:
            raise InvalidKeyError(f"{key!r} is not a possible key of a file below {self.root}", key=key)
        return parts

    def _path(self, key: str) -> Path:
        return self.root / key

    @contextmanager
    def _file(self, key: str) -> Iterator[BinaryIO]:
        *folders, name = self._parts(key)
        with self._use(key), opened_folder(self.root, folders) as folder, opened_file(folder, name) as file:
            yield file

    def _content(self, file: BinaryIO, key: str, limit: int | None) -> bytes:
        size = os.fstat(file.fileno()).st_size
        if limit is not None and size > limit:
            raise too_large(f"{self._path(key)}", key, limit)
        return file.read(size)

    @contextmanager
    def _made(
        self, key: str, source: ByteSource, size: int, deadline: Deadline = NO_DEADLINE
    ) -> Iterator[tuple[Temporary, PutResult]]:
        with self._unfinished.temporary(key.rpartition("/")[2]) as temporary:
            with new_file(temporary.folder, temporary.name) as file:
                crc = _copy(source, size, file, f"{self.root}/{key}", earliest(deadline, current()))
            yield temporary, PutResult(PutOutcome.CREATED, size, crc, _etag(temporary.status(), crc), proved=True)

    def _walk(self, folder: str, prefix: str, after: str) -> Iterator[ObjectInfo]:
        begin = ""
        if prefix.startswith(folder):
            begin = prefix[len(folder) :]
        folders, files = self._entries(folder, begin)
        # With the `/`, folders sort like their keys: `a-b/x` precedes `a/x`.
        found = {name + "/": None for name in folders} | dict(files)
        for name in sorted(found):
            key, status = folder + name, found[name]
            if key in _NO_OBJECTS:
                continue
            if status is None:
                if _may_hold(key, prefix, after):
                    yield from self._walk(key, prefix, after)
            elif key > after:
                yield ObjectInfo(key, status.st_size, None, _ms(status))

    def _entries(self, folder: str, begins: str) -> tuple[Sequence[str], Sequence[tuple[str, os.stat_result]]]:
        """Return the folders and files whose names begin with `begins`. Both are empty if the folder does not exist."""
        with self._use(folder):
            try:
                with opened_folder(self.root, folder.split("/")[:-1]) as descriptor:
                    return entries(descriptor, begins)
            except (FileNotFoundError, NotADirectoryError):
                return [], []

    def _same(self, found: ObjectInfo, key: str, put: PutResult) -> PutResult:
        if _is_same(found, put):
            return _already(found, put)
        raise other_content(f"{self._path(key)}", key, "directory")

    def _is_there(self, key: str) -> bool:
        *folders, name = self._parts(key)
        try:
            with opened_folder(self.root, folders) as folder:
                os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # the file may exist, but this user cannot see it
            return True
        return True

    @contextmanager
    def _use(self, key: str) -> Iterator[None]:
        path = f"{self.root}/{key}"
        current().check(f"access to {path}")
        try:
            yield
        except FileNotFoundError as error:
            raise ObjectNotFoundError(f"{path}: the object does not exist", path=path) from error
        except OSError as error:
            raise _translated(Path(path), error) from error


@cache
def _uri_of(root: Path) -> str:
    return root.as_uri().rstrip("/") + "/"


def _described(folder: int, name: str, key: str) -> ObjectInfo:
    with opened_file(folder, name) as file:
        status, crc = os.fstat(file.fileno()), 0
        while data := file.read(_READ_SIZE):
            crc = google_crc32c.extend(crc, data)
        return _info(key, status, crc)


def _info(key: str, status: os.stat_result, crc: int) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, crc, _ms(status), _etag(status, crc))


def _etag(status: os.stat_result, crc: int) -> str:
    return f"{crc:08x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def _ms(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000


def _is_same(found: ObjectInfo, put: PutResult) -> bool:
    return (found.size, found.crc32c) == (put.size, put.crc32c)


def _already(found: ObjectInfo, put: PutResult) -> PutResult:
    return PutResult(PutOutcome.ALREADY_SAME, put.size, put.crc32c, found.etag, proved=True)


def _copy(source: ByteSource, size: int, file: BinaryIO, name: str, deadline: Deadline) -> int:
    """Write the first `size` bytes of `source` to `file`, and return their CRC-32C."""
    source.seek(0)
    crc, left = 0, size
    while left:
        deadline.check(f"copy to {name}")
        data = source.read(min(left, _READ_SIZE))
        if not data:
            raise ended_early(name, left)
        crc, left = google_crc32c.extend(crc, data), left - len(data)
        file.write(data)
    return crc


def _translated(path: Path, error: OSError) -> TiersnapError:
    if error.errno in _PASSING:
        return TransientError(f"{path}: {error.strerror}", hint="run the same command again")
    if error.errno in FULL:
        return cannot_write(path, error)
    return RemoteStorageError(f"{path}: {error.strerror}", hint=_hint(path, error), path=str(path))


def _hint(path: Path, error: OSError) -> str:
    if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and path.is_symlink()):
        return "tiersnap follows no symbolic link inside a store: replace the link by its files"
    if error.errno == errno.EROFS:
        return "the file system is mounted read-only: mount -o remount,rw"
    if error.errno in {errno.EPERM, errno.ENOTSUP, errno.EMLINK} and path.parent.is_dir():
        return (
            "the file system may lack hard links, without which tiersnap could overwrite files: use another file "
            "system. If it has hard links, check owner and mode of the directory"
        )
    return "check owner and mode of the directory"


def _may_hold(folder: str, prefix: str, after: str) -> bool:
    """Return whether a folder may contain keys that begin with `prefix` and are greater than `after`.

    `folder` ends in `/`.
    """
    return (folder.startswith(prefix) or prefix.startswith(folder)) and folder >= after[: len(folder)]
