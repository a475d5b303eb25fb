"""Read single objects of a remote segment, even if further objects of the segment are missing or wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from tiersnap.remote_storage.errors import NotRebuiltError, ObjectNotFoundError
from tiersnap.remote_storage.layouts import rsm_manifest
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import KIND_OF_INDEX
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_indexes
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.retire.store_leftovers import abort_uploads_of
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.small_object import MANIFEST_BYTES, read_decoded
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile
from tiersnap.snapshot.atomic_file import cannot_write
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL

_log = logging.getLogger(__name__)

_OF_BATCHES = (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)


def stored_index_files(folder: Path, store: ObjectStore, there: SegmentObjects | None) -> dict[IndexType, SourceFile]:
    """Fetch the offset, time and transaction index of a remote segment into a folder.

    Return no files if an index is damaged or missing. The indexes may be wrong, so the caller must compare them with
    the batches.

    Args:
        there: the segment's objects; None if there are none.
    """
    if there is None:
        return {}
    try:
        if there.is_local:
            return index_files(folder, _local_indexes(store, there))
        if _has_indexes(there):
            manifest = manifest_of(store, there)
            return index_files(folder, read_indexes(store, RemoteSegment(there, manifest.metadata, manifest.indexes)))
    except (CorruptDataError, ObjectNotFoundError):
        pass
    return {}


def _local_indexes(store: ObjectStore, there: SegmentObjects) -> dict[IndexType, bytes | None]:
    """Return the offset, time and transaction index of a segment in LocalTieredStorage's layout."""
    found: dict[IndexType, bytes | None] = {}
    for index in _OF_BATCHES:
        info = there.objects.get(KIND_OF_INDEX[index])
        if info is not None:
            found[index] = store.get(info.key)
    return found


def _has_indexes(there: SegmentObjects) -> bool:
    """Return whether the Aiven plugin's indexes object can be read: the object and its manifest exist."""
    return {KeyKind.INDEXES, KeyKind.RSM_MANIFEST} <= there.objects.keys()


def stored_entries(store: ObjectStore, there: SegmentObjects) -> np.ndarray | None:
    """Return the entries of the remote producer snapshot (ENTRY_DTYPE), or None if it is missing or unreadable."""
    try:
        if there.is_local:
            snapshot = there.objects.get(KeyKind.LOCAL_SNAPSHOT)
            if snapshot is None:
                return None
            return snapshot_file.decode(store.get(snapshot.key))
        if not _has_indexes(there):
            return None
        manifest = manifest_of(store, there)
        if manifest.is_encrypted:
            return None
        copy, wanted = RemoteSegment(there, manifest.metadata, manifest.indexes), IndexType.PRODUCER_SNAPSHOT
        return snapshot_file.decode(read_indexes(store, copy, (wanted,))[wanted] or b"")
    except (CorruptDataError, ObjectNotFoundError):
        return None


def index_files(folder: Path, indexes: Mapping[IndexType, bytes | None]) -> dict[IndexType, SourceFile]:
    """Write the offset, time and transaction index into a folder, if they exist. Return the files.

    Raises:
        UsageError, NoSpaceError: a file cannot be written.
    """
    files = {}
    for index in _OF_BATCHES:
        if (data := indexes.get(index)) is not None:
            path = folder / index
            try:
                path.write_bytes(data)
            except OSError as error:
                raise cannot_write(path, error) from error
            _log.debug("wrote %s: %d bytes", path, len(data))
            files[index] = SourceFile(LOCAL, str(path), len(data))
    return files


def computed_snapshot(path: Path, offset: int, data: bytes, provenance: Provenance) -> SnapshotSource:
    """Write a computed snapshot to `path`, and return it as a source for an upload."""
    path.write_bytes(data)
    _log.debug("computed the snapshot at %d: %s", offset, provenance)
    file = SourceFile(LOCAL, str(path), len(data))
    return SnapshotSource(offset=offset, provenance=provenance, crc32c=crc32c(data), file=file)


def not_mended(record: RemoteLogSegmentMetadata) -> str:
    """Return the beginning of the message about a segment that is not mended."""
    return f"{record.id}: offsets {record.start_offset} to {record.end_offset} are not mended: "


def not_rebuilt(record: RemoteLogSegmentMetadata, why: str) -> NotRebuiltError:
    """Return the error for a segment that cannot be rebuilt. `why` is the reason."""
    return NotRebuiltError(
        f"{not_mended(record)}{why}",
        hint="give as LOGDIR a log directory with these offsets, or give as --from a location with the objects of "
        "the segment",
    )


def manifest_of(store: ObjectStore, there: SegmentObjects) -> rsm_manifest.RsmManifest:
    """Return the manifest among listed objects.

    Raises:
        CorruptDataError, ObjectNotFoundError: the object is damaged or missing.
    """
    key = there.objects[KeyKind.RSM_MANIFEST].key
    return read_decoded(store, key, rsm_manifest.decode, limit=MANIFEST_BYTES)


def claimed_as(record: RemoteLogSegmentMetadata) -> ClaimedSegment:
    """Return the ClaimedSegment of a record, by which its claim is found."""
    return ClaimedSegment(record.id.topic_id_partition, record.start_offset, record.segment_leader_epochs[-1][0])


@contextmanager
def putting_back(location: RemoteLocation, record: RemoteLogSegmentMetadata) -> Iterator[None]:
    """Mark a published segment as kept while its objects are restored, so that no attempt deletes them.

    Unfinished multipart uploads of the segment are aborted before and after the block. Otherwise one of them could be
    completed late and create another object. See `claim_protocol.keep`.

    Raises:
        TiersnapError: another attempt may delete the segment, or remote storage does not answer. In both cases, the
            block does not run.
    """
    store, segment_id, stem = location.store, record.id.segment_id, location.layout.stem(record)
    claim_protocol.keep(store, claimed_as(record), segment_id)
    abort_uploads_of(store, stem, segment_id)
    try:
        yield
    finally:
        with suppress(TiersnapError):  # the objects are already restored, or deleted again
            abort_uploads_of(store, stem, segment_id)


def stored_copy(store: ObjectStore, record: RemoteLogSegmentMetadata, there: SegmentObjects) -> RemoteSegment:
    """Return a remote segment whose log can be read, even if other objects are missing or the manifest is damaged.

    Raises:
        NotRebuiltError: only the plugin can read the log.
    """
    if there.is_local:
        return RemoteSegment(there, record, None)
    plain = RemoteSegment(there, record, {})  # a transformed log fails later, at its size or its first batch
    if KeyKind.RSM_MANIFEST not in there.objects:
        return plain
    try:
        manifest = manifest_of(store, there)
    except CorruptDataError:
        return plain
    if manifest.is_encrypted:
        raise not_rebuilt(record, "the plugin encrypted the segment, and tiersnap has no key")
    chunks = None
    if manifest.is_compressed:
        chunks = manifest.chunks
    return RemoteSegment(there, record, manifest.indexes, chunks)
