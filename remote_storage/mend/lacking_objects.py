"""Rebuild the missing objects of a remote segment so that they fit the existing objects, and put them.

No object is overwritten. In the Aiven layout, an existing manifest determines the position of each index in the
indexes object. In LocalTieredStorage's layout, each existing index must agree with the batches of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.layout import INDEXES_OF_ENTRIES, IndexType, PlannedObject
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import KIND_OF_INDEX
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.layouts.rsm_manifest import RsmManifest
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.mend.stored_files import claimed_as, manifest_of, not_rebuilt
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.remote_log.remote_log import snapshot_in_claim
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, decode_lineage, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, segments_by_id
from tiersnap.remote_storage.stores.object_store import ObjectStore, PutResult
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.checked_upload import CheckedLog, check_stored
from tiersnap.remote_storage.upload.send_objects import object_metadata
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError, TiersnapError, TransientError
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.repair.index_check import CheckedIndexes

_log = logging.getLogger(__name__)

_PIECE = 1 << 20
Contents = Mapping[IndexType, bytes]


@dataclass(frozen=True, slots=True)
class LackingObjects:
    """The missing objects of a segment: `others`, and the log if `log` is True.

    The last of `others` makes the segment visible.
    """

    record: RemoteLogSegmentMetadata
    ready: SegmentBundle
    log: bool
    others: tuple[PlannedObject, ...]


def plan_lacking(
    location: RemoteLocation, record: RemoteLogSegmentMetadata, there: SegmentObjects | None, ready: SegmentBundle
) -> LackingObjects:
    """Return the objects that a segment lacks.

    Args:
        there: the segment's existing objects; None if there are none.
        ready: the right content of the whole segment, from which missing objects are built.

    Raises:
        NotRebuiltError: the missing objects would not fit the existing objects.
        CorruptDataError: an existing object is damaged.
    """
    checked = _checked(ready)
    contents = ready.index_contents(checked)
    lacks_snapshot = there is None or {KeyKind.INDEXES, KeyKind.LOCAL_SNAPSHOT}.isdisjoint(there.objects)
    if lacks_snapshot:
        _check_claim(location.store, record, contents[IndexType.PRODUCER_SNAPSHOT])
    lacks_log = there is None or there.log is None
    if there is None:
        others = location.layout.plan(contents, record)
    elif location.is_local:
        others = _local(location, record, there, checked, contents)
    else:
        others = _aiven(location, record, there, contents)
        if lacks_log and not lacks_snapshot and checked.rebuilt:
            name, why = next(iter(checked.rebuilt.items()))
            raise not_rebuilt(record, f"the {name} in remote storage: {why}")
    return LackingObjects(record, ready, lacks_log, others)


def put_lacking(
    location: RemoteLocation, lacking: LackingObjects, check_known: Callable[[], None], made: list[str]
) -> None:
    """Put the objects that a segment lacks, and check that the segment is complete.

    Args:
        check_known: raises an error if brokers no longer know the segment. It is called directly before the last object
            is put, because that object makes the segment visible.
        made: receives the keys of the objects that this call created.

    Raises:
        TransientError: the store lost or changed an object, or another run put an object with other content.
        TiersnapError: see CheckedLog.
    """
    store, ready, metadata = location.store, lacking.ready, object_metadata(lacking.ready)

    def put(key: str, send: Callable[[], PutResult]) -> None:
        try:
            done = send()
        except ObjectExistsError as error:
            raise TransientError(
                f"{error.message}: another writer put this object after the listing", hint="run the same command again"
            ) from error
        _log.debug("put %s%s: %s", store.uri, key, done.outcome)
        if done.outcome.is_ours:
            made.append(key)
        try:
            check_stored(store, key, done)
        except TiersnapError:
            if done.outcome.is_ours:
                store.delete([key])  # otherwise the next run could not put the right content
            raise

    if lacking.log:
        with ready.log.open() as file:
            log, key = CheckedLog(file, ready, ready.found_indexes()), location.layout.log_key(lacking.record)
            put(key, lambda: store.put_file_if_absent(key, log, ready.log.size, metadata=metadata))
    for each in lacking.others:
        if each is lacking.others[-1]:
            check_known()
        put(each.key, lambda each=each: store.put_if_absent(each.key, each.content, metadata))  # type: ignore[misc]
    _look_again(location, lacking.record)


def _look_again(location: RemoteLocation, record: RemoteLogSegmentMetadata) -> None:
    listed = segments_by_id(location, record.id.topic_id_partition)
    there = listed.get(record.id.segment_id)
    why = "the segment has no objects"
    if there is not None:
        found = read_segment(location.store, there)
        if isinstance(found, RemoteSegment):
            return
        why = found.problem
    raise TransientError(f"{record.id}: still not complete after mend: {why}", hint="run the same command again")


def _checked(ready: SegmentBundle) -> CheckedIndexes:
    """Read a log to its end, and return its indexes, checked against the batches."""
    ready.log.check_unchanged()
    with ready.log.open() as file:
        log = CheckedLog(file, ready, ready.found_indexes())
        while log.read(_PIECE):
            pass
    return log.indexes


def _check_claim(store: ObjectStore, record: RemoteLogSegmentMetadata, snapshot: bytes) -> None:
    """Refuse a snapshot that differs from the snapshot in the segment's claim."""
    claimed = snapshot_in_claim(read_claim(store, claimed_as(record)), record.id.segment_id)
    right = f"{crc32c(snapshot):08x}"
    if claimed is not None and claimed.crc32c != right:
        why = (
            f"the claim of the segment names a snapshot with CRC {claimed.crc32c}, but the snapshot to upload has "
            f"CRC {right}"
        )
        raise not_rebuilt(record, why)


def _local(
    location: RemoteLocation,
    record: RemoteLogSegmentMetadata,
    there: SegmentObjects,
    checked: CheckedIndexes,
    contents: Contents,
) -> tuple[PlannedObject, ...]:
    for name, why in checked.rebuilt.items():
        if KIND_OF_INDEX[INDEXES_OF_ENTRIES[name]] in there.objects:
            raise not_rebuilt(record, f"{name}: {why}")
    _check_leader_epochs(location.store, record, there)
    return tuple(each for each in location.layout.plan(contents, record) if each.key not in there.keys)


def _check_leader_epochs(store: ObjectStore, record: RemoteLogSegmentMetadata, there: SegmentObjects) -> None:
    """Raise CorruptDataError if the object with leader epochs exists and is damaged."""
    epochs = there.objects.get(KeyKind.LOCAL_LEADER_EPOCHS)
    if epochs is not None:
        decode_lineage(RemoteSegment(there, record, None), store.get(epochs.key), name=epochs.key)


def _aiven(
    location: RemoteLocation, record: RemoteLogSegmentMetadata, there: SegmentObjects, contents: Contents
) -> tuple[PlannedObject, ...]:
    indexes, manifest = location.layout.plan(contents, record)
    if KeyKind.RSM_MANIFEST not in there.objects:
        if KeyKind.INDEXES not in there.objects:
            return indexes, manifest
        _check_indexes(location.store, record, indexes)
        return (manifest,)
    stored = manifest_of(location.store, there)
    _check_manifest(record, stored)
    if stored.is_encrypted:
        raise not_rebuilt(record, "the plugin encrypted the segment, so its missing object cannot be rebuilt unchanged")
    if stored.is_compressed and there.log is None:
        raise not_rebuilt(
            record, "the plugin compressed the segment, so its missing object cannot be rebuilt unchanged"
        )
    if KeyKind.INDEXES in there.objects:
        return ()
    _check_places(record, stored, contents)
    return (indexes,)


def _check_indexes(store: ObjectStore, record: RemoteLogSegmentMetadata, right: PlannedObject) -> None:
    """Refuse an indexes object that differs from the indexes of the log."""
    try:
        stored = store.get(right.key, limit=len(right.content))
    except (CorruptDataError, ObjectNotFoundError):
        stored = b""
    if stored != right.content:
        raise not_rebuilt(record, "the object with the indexes exists, but differs from the indexes of the log")


def _check_manifest(record: RemoteLogSegmentMetadata, stored: RsmManifest) -> None:
    """Refuse a manifest that describes another segment than the record."""
    theirs = stored.metadata
    named = (theirs.id, theirs.start_offset, theirs.end_offset, theirs.segment_leader_epochs, stored.file_size)
    known = (record.id, record.start_offset, record.end_offset, record.segment_leader_epochs, record.segment_size)
    if named != known:
        raise not_rebuilt(record, "the manifest of the segment describes another segment than the record")


def _check_places(record: RemoteLogSegmentMetadata, stored: RsmManifest, contents: Contents) -> None:
    """Refuse a manifest whose positions in the indexes object differ from the positions of the right indexes."""
    position = 0
    for index in IndexType:
        content, place = contents.get(index), stored.indexes[index]
        if not _is_place_of(content, place, position):
            expected = None
            if content is not None:
                expected = (position, len(content))
            why = f"{index}: position and size are {place} in the manifest, but {expected} in the rebuilt indexes"
            raise not_rebuilt(record, why)
        position += len(content or b"")


def _is_place_of(content: bytes | None, place: tuple[int, int] | None, position: int) -> bool:
    """Return whether an index with this content begins at `position`, according to its `place` in the manifest.

    A place is (position, size) in bytes. If the segment lacks the index, the place must be None or have size 0.
    """
    if content is None:
        return place is None or place[1] == 0
    return place == (position, len(content))
