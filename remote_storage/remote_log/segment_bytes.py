"""Fetch the segment file of a remote segment. Chunks that the Aiven plugin compressed are decompressed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import BinaryIO

import google_crc32c

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import chunk_index
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.atomic_file import cannot_write
from tiersnap.snapshot.errors import CorruptDataError, TransientError
from tiersnap.snapshot.log.log_dir import FileRef, Segment

FETCH_SIZE = 8 << 20


def fetch_segment(store: ObjectStore, layout: Layout, metadata: RemoteLogSegmentMetadata) -> Iterator[bytes]:
    """Yield the stored bytes of an uncompressed segment file, in pieces of at most 8 MiB.

    Raises:
        CorruptDataError: the log object is shorter than the segment.
    """
    yield from _fetch(store, layout.log_key(metadata), metadata.segment_size)


def _fetch(store: ObjectStore, key: str, size: int) -> Iterator[bytes]:
    """Yield the `size` bytes of an object in pieces of at most 8 MiB, one request each."""
    start = 0
    while start < size:
        data = store.get_range(key, start, min(FETCH_SIZE, size - start))
        if not data:
            raise CorruptDataError(f"{store.uri}{key}: ends at byte {start} of {size}", key=key)
        yield data
        start += len(data)


def fetch_range(store: ObjectStore, copy: RemoteSegment, position: int, length: int) -> bytes:
    """Return `length` bytes of a segment file from byte `position` on; fewer at its end.

    Raises:
        CorruptDataError: a chunk is damaged.
    """
    key = copy.layout.log_key(copy.metadata)
    if copy.chunks is None:
        return store.get_range(key, position, length)
    start, found = 0, b""
    for chunk in copy.chunks.chunks():
        if start < position + length and position < start + chunk.original_size:
            data = b"".join(_decompressed(store, key, chunk, store.get_range(key, chunk.position, chunk.size)))
            found += data[max(position - start, 0) : position + length - start]
        start += chunk.original_size
    return found


def fetch_log(store: ObjectStore, copy: RemoteSegment, file: BinaryIO, stop: Event | None = None) -> None:
    """Write the segment file of a remote segment to `file`.

    Raises:
        CorruptDataError: the log object ends early, contradicts its stored checksum or has a damaged chunk.
        TransientError: another thread set `stop`.
        OSError: the file cannot be written.
    """
    key = copy.layout.log_key(copy.metadata)
    crc = 0
    for stored, pieces in _chunks(store, copy):
        if stop is not None and stop.is_set():
            raise TransientError(f"{store.uri}{key}: reading stopped, because the data is no longer needed")
        crc = google_crc32c.extend(crc, stored)
        file.writelines(pieces)
    found = store.head(key)
    if found is not None and found.crc32c not in (None, crc):
        raise CorruptDataError(
            f"{store.uri}{key}: the content has CRC {crc:08x}, but CRC {found.crc32c:08x} was stored with it",
            hint="run the same command again. If the error recurs and another segment has the same offsets, leave this "
            f"segment out: --without {copy.segment_id}",
            key=key,
        )


def fetch_into(folder: Path, store: ObjectStore, copy: RemoteSegment) -> Segment:
    """Write the segment file of a remote segment into a folder.

    Raises:
        CorruptDataError: see `fetch_log`.
        UsageError, NoSpaceError: the file cannot be written; see `cannot_write`.
    """
    return _written_into(folder, copy.start_offset, copy.end_offset, partial(fetch_log, store, copy))


def fetched_segment(store: ObjectStore, copy: RemoteSegment) -> AbstractContextManager[Segment]:
    """Return a context manager with the segment file in a temporary folder. Its exit deletes the folder.

    Raises:
        CorruptDataError: the log object does not exist; see also `fetch_log`.
        UsageError, NoSpaceError: the file cannot be written; see `cannot_write`.
    """
    return _fetched(copy.start_offset, copy.end_offset, partial(fetch_log, store, copy))


def fetched_log(store: ObjectStore, attempt: SegmentObjects) -> AbstractContextManager[Segment]:
    """Return a context manager with the log object as a segment file in a temporary folder.

    Its exit deletes the folder. The end offset of the Segment is unknown, because no manifest is read.

    Args:
        attempt: objects that include the log object.

    Raises:
        CorruptDataError: the log object does not exist or ends early.
        UsageError, NoSpaceError: the file cannot be written; see `cannot_write`.
    """
    log = attempt.log
    assert log is not None
    return _fetched(attempt.start_offset, None, lambda file: file.writelines(_fetch(store, log.key, log.size)))


@contextmanager
def _fetched(start: int, end: int | None, write: Callable[[BinaryIO], None]) -> Iterator[Segment]:
    with tempfile.TemporaryDirectory(prefix="tiersnap-") as scratch:
        try:
            segment = _written_into(Path(scratch), start, end, write)
        except ObjectNotFoundError as error:
            raise CorruptDataError(error.message) from error
        yield segment


def _written_into(folder: Path, start: int, end: int | None, write: Callable[[BinaryIO], None]) -> Segment:
    """Create the segment file in a folder with the content that `write` writes."""
    path = folder / f"{start:020d}.log"
    try:
        with path.open("xb") as file:
            write(file)
    except OSError as error:
        raise cannot_write(path, error) from error
    return Segment(start, end, FileRef(str(path), path.stat().st_size, 0))


def _chunks(store: ObjectStore, copy: RemoteSegment) -> Iterator[tuple[bytes, Iterable[bytes]]]:
    """Yield each chunk in order: the stored bytes, and the decompressed bytes in pieces."""
    if copy.chunks is None:
        for data in fetch_segment(store, copy.layout, copy.metadata):
            yield data, (data,)
        return
    key = copy.layout.log_key(copy.metadata)
    pieces, read = _fetch(store, key, copy.chunks.object_size), bytearray()
    for chunk in copy.chunks.chunks():
        while len(read) < chunk.size:
            read += next(pieces)
        stored = bytes(read[: chunk.size])
        del read[: chunk.size]
        yield stored, _decompressed(store, key, chunk, stored)


def _decompressed(store: ObjectStore, key: str, chunk: chunk_index.Chunk, stored: bytes) -> Iterator[bytes]:
    try:
        yield from chunk_index.decompress(stored, chunk.original_size)
    except ValueError as error:
        raise CorruptDataError(
            f"{store.uri}{key}: the chunk at byte {chunk.position}: {error}",
            hint="if another segment has the same offsets, leave this segment out: --without SEGMENT_ID",
            key=key,
        ) from error
