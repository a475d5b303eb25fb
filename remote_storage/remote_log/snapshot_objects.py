"""Producer snapshots as objects, and the snapshot manifest that a run writes.

A snapshot object contains the bytes of a `.snapshot` file. If the store supports user metadata, further facts are in
the object's user metadata (`tiersnap-…`). They are also in the snapshot manifest, which a run writes after all
snapshots of a partition. The manifest is one line of JSON:

    version            1
    tool               "tiersnap 0.1.0"
    runId              id of the run that wrote the manifest
    topic, topicId, partition    topicId is null for topics without one
    snapshots          in ascending offset, each:
        offset           exclusive end offset
        size             size of the snapshot in bytes
        crc32c           CRC-32C of the snapshot as 8 hex digits
        entries          number of producers
        provenance       BROKER, COMPUTED, or COMPUTED_… with the start of the replay (see Provenance)
        foldStartOffset  first offset that was replayed into the snapshot; null for BROKER

The manifest contains no time. So if a run is repeated with the same run id, the manifest has the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Self

from tiersnap.remote_storage.errors import InvalidKeyError, ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.stored_json import Count, Crc, Offset, Stored, StoredObject
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.stores.small_object import read_decoded
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import CorruptDataError, CorruptSnapshotError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.trusted import Provenance

_log = logging.getLogger(__name__)

TOOL = f"tiersnap {__version__}"


class SnapshotRecord(Stored, frozen=True):
    """One snapshot in a manifest; `offset` is exclusive, `fold_start_offset` inclusive."""

    offset: Offset
    size: Offset
    crc32c: Crc
    entries: Offset
    provenance: Provenance
    fold_start_offset: Offset | None


class SnapshotManifest(StoredObject, frozen=True, kw_only=True):
    """The snapshots of one partition that one run wrote or found."""

    what = "a snapshot manifest"
    limit = 64 << 20  # about 130 bytes per snapshot
    hint = (
        "move the object away; to write another one: tiersnap run --source LOGDIR --remote URI --warehouse OTHER "
        "--apply"
    )

    tool: str
    run_id: str
    topic: str
    topic_id: str | None
    partition: Count
    snapshots: tuple[SnapshotRecord, ...]

    def __post_init__(self) -> None:
        try:
            TopicIdPartition(self.topic, self.topic_id, self.partition)
        except InvalidKeyError as error:
            raise ValueError(str(error)) from error

    @classmethod
    def of(cls, partition: TopicIdPartition, run_id: str, snapshots: Iterable[SnapshotRecord]) -> Self:
        """Return the manifest of a run, with the snapshots in ascending offset. `tool` is this version of tiersnap."""
        return cls(
            tool=TOOL,
            run_id=run_id,
            topic=partition.topic,
            topic_id=partition.topic_id,
            partition=partition.partition,
            snapshots=tuple(sorted(snapshots, key=lambda row: row.offset)),
        )


def list_manifests(store: ObjectStore, partition: TopicIdPartition) -> Iterator[SnapshotManifest]:
    """Yield the snapshot manifests of a partition, sorted by run id.

    Raises:
        CorruptDataError: a manifest cannot be read.
    """
    for found in manifest_objects(store, partition):
        with suppress(ObjectNotFoundError):  # another run deleted the manifest since
            yield _read_manifest(store, found)


def manifest_objects(store: ObjectStore, partition: TopicIdPartition) -> Iterator[ObjectInfo]:
    """Yield the objects of a partition's snapshot manifests, sorted by run id."""
    for found in store.list(keys.partition_snapshots(partition)):
        parsed = keys.recognise(found.key)
        if parsed is not None and parsed.kind is KeyKind.SNAPSHOT_MANIFEST:
            yield found


def readable_manifests(
    store: ObjectStore, listed: Iterable[ObjectInfo]
) -> Iterator[tuple[ObjectInfo, SnapshotManifest]]:
    """Yield each readable snapshot manifest with its object. Log a warning for each damaged manifest."""
    for found in listed:
        try:
            yield found, _read_manifest(store, found)
        except ObjectNotFoundError:
            continue  # another run deleted the manifest since
        except CorruptDataError as error:
            _log.warning("passed over: %s", error.message)


def _read_manifest(store: ObjectStore, found: ObjectInfo) -> SnapshotManifest:
    return read_decoded(store, found.key, SnapshotManifest.decode, limit=SnapshotManifest.limit)


def list_snapshots(store: ObjectStore, partition: TopicIdPartition) -> Iterator[int]:
    """Yield the exclusive snapshot offsets of a partition's snapshot objects, ascending."""
    for found in store.list(keys.partition_snapshots(partition)):
        parsed = keys.recognise(found.key)
        if parsed is not None and parsed.kind is KeyKind.SNAPSHOT and parsed.offset is not None:
            yield parsed.offset


def read_snapshot(store: ObjectStore, partition: TopicIdPartition, offset: int) -> bytes | None:
    """Return the bytes of the snapshot object at an exclusive offset, None without such an object.

    Raises:
        CorruptSnapshotError: the bytes are not a snapshot that a broker can read.
    """
    key = keys.snapshot(partition, offset)
    try:
        data = store.get(key)
    except ObjectNotFoundError:
        return None
    except CorruptDataError as error:
        raise CorruptSnapshotError(error.message, hint=error.hint, key=key) from error
    snapshot_file.decode(data, name=store.uri + key)
    return data
