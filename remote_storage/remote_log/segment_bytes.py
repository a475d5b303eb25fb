"""The bytes of a remote segment: as they are stored, and as the segment file that they are of."""

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
    """Bytes of the segment file, in pieces of at most 8 MiB.

    Raises:
        CorruptDataError: the object ends early.
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
    """Return a range of a segment file. If the plugin compressed it, fetch the chunks that hold the range.

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
    """Write a copy's segment file to `file`; chunks that the plugin compressed are decompressed.

    Raises:
        CorruptDataError: the object ends early, the store gave other bytes than it was given, by its own checksum; or a
            chunk is damaged.
        TransientError: `stop` was set meanwhile.
        OSError: the file cannot be written.
    """
    key = copy.layout.log_key(copy.metadata)
    crc = 0
    for stored, pieces in _chunks(store, copy):
        if stop is not None and stop.is_set():
            raise TransientError(f"{store.uri}{key}: no longer wanted")
        crc = google_crc32c.extend(crc, stored)
        file.writelines(pieces)
    found = store.head(key)
    if found is not None and found.crc32c not in (None, crc):
        raise CorruptDataError(
            f"{store.uri}{key}: content has CRC {crc:08x}, {found.crc32c:08x} was stored with it",
            hint="read it again; if it recurs the object is damaged: --without SEGMENT_ID takes another copy, if any",
            key=key,
        )


def fetch_into(folder: Path, store: ObjectStore, copy: RemoteSegment) -> Segment:
    """Write a copy's segment file into a folder.

    Raises:
        CorruptDataError: see `fetch_log`.
        UsageError, NoSpaceError: it cannot be written; see `cannot_write`.
    """
    return _written_into(folder, copy.start_offset, copy.end_offset, partial(fetch_log, store, copy))


def fetched_segment(store: ObjectStore, copy: RemoteSegment) -> AbstractContextManager[Segment]:
    """Give a copy's segment file, in a temporary folder that goes with the context.

    Raises:
        CorruptDataError: the log is gone, ends early or is damaged; see `fetch_log`.
        UsageError, TransientError: it cannot be written; see `cannot_write`.
    """
    return _fetched(copy.start_offset, copy.end_offset, partial(fetch_log, store, copy))


def fetched_log(store: ObjectStore, attempt: SegmentObjects) -> AbstractContextManager[Segment]:
    """Give the log object of an attempt, which has one, as a segment file with an unknown end; no manifest is read.

    Raises:
        CorruptDataError: the log is gone, or ends early.
        UsageError, NoSpaceError: it cannot be written; see `cannot_write`.
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
    """Return the segment whose log `write` puts into a new file of a folder."""
    path = folder / f"{start:020d}.log"
    try:
        with path.open("xb") as file:
            write(file)
    except OSError as error:
        raise cannot_write(path, error) from error
    return Segment(start, end, FileRef(str(path), path.stat().st_size, 0))


def _chunks(store: ObjectStore, copy: RemoteSegment) -> Iterator[tuple[bytes, Iterable[bytes]]]:
    """Yield the bytes of a chunk as they are stored, and its bytes of the segment file in pieces, in order."""
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
            hint="the object is damaged: --without SEGMENT_ID takes another copy, if any",
            key=key,
        ) from error
