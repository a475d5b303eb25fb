"""Producer snapshots as objects, and what a run says of them.

A snapshot object is the bytes of a `.snapshot` file. What is not in those bytes is said twice: as the object's user
metadata (`tiersnap-…`, where the store keeps any) and in the run's manifest of the partition, which is written when
all its snapshots are there. One line of JSON:

    version            1
    tool               "tiersnap 0.1.0"
    runId              of the run that wrote it
    topic, topicId, partition    topicId is null for topics without one
    snapshots          in ascending offset, each:
        offset           exclusive end offset
        size, crc32c     bytes, and CRC-32C of all of them as 8 hex digits
        entries          producers
        provenance       BROKER, COMPUTED, or COMPUTED_FROM_ and where (Provenance)
        foldStartOffset  first offset that was folded into it; null for BROKER, where nobody knows

Nothing in it depends on the clock, so that the same run again writes the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from tiersnap.remote_storage.errors import InvalidKeyError, ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys, stored_json
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

_LARGEST_MANIFEST = 64 << 20  # bytes; a snapshot is about 130 of them
_ANEW = "move it away; tiersnap run --source LOGDIR --remote URI --warehouse OTHER --apply writes another"
TOOL = f"tiersnap {__version__}"


class SnapshotRecord(Stored, frozen=True):
    """One snapshot in a manifest; `offset` is exclusive, `fold_start_offset` inclusive."""

    offset: Offset
    size: Offset
    crc32c: Crc
    entries: Offset
    provenance: Provenance
    fold_start_offset: Offset | None


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """The snapshots of one partition that one run wrote or found."""

    partition: TopicIdPartition
    run_id: str
    tool: str
    snapshots: tuple[SnapshotRecord, ...]

    def encode(self) -> bytes:
        """One line of JSON."""
        at = self.partition
        return stored_json.encode(
            _StoredManifest(
                tool=self.tool,
                run_id=self.run_id,
                topic=at.topic,
                topic_id=at.topic_id,
                partition=at.partition,
                snapshots=tuple(sorted(self.snapshots, key=lambda row: row.offset)),
            )
        )

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> SnapshotManifest:
        """The inverse of `encode`; raises as `stored_json.decode`."""
        what = "a snapshot manifest"
        found = stored_json.decode(data, _StoredManifest, name=name, what=what, limit=_LARGEST_MANIFEST, hint=_ANEW)
        try:
            partition = TopicIdPartition(found.topic, found.topic_id, found.partition)
        except InvalidKeyError as error:
            raise stored_json.corrupt(name, what, error, _ANEW) from error
        return cls(partition, found.run_id, found.tool, found.snapshots)


class _StoredManifest(StoredObject, frozen=True, kw_only=True):
    tool: str
    run_id: str
    topic: str
    topic_id: str | None
    partition: Count
    snapshots: tuple[SnapshotRecord, ...]


def list_manifests(store: ObjectStore, partition: TopicIdPartition) -> Iterator[SnapshotManifest]:
    """Yield the snapshot manifests of a partition, by run id.

    Raises:
        CorruptDataError: one cannot be read.
    """
    for found in manifest_objects(store, partition):
        with suppress(ObjectNotFoundError):  # another run removed it since
            yield _read_manifest(store, found)


def manifest_objects(store: ObjectStore, partition: TopicIdPartition) -> Iterator[ObjectInfo]:
    """List the objects of the snapshot manifests of a partition, by run id."""
    for found in store.list(keys.partition_snapshots(partition)):
        parsed = keys.recognise(found.key)
        if parsed is not None and parsed.kind is KeyKind.SNAPSHOT_MANIFEST:
            yield found


def readable_manifests(
    store: ObjectStore, listed: Iterable[ObjectInfo]
) -> Iterator[tuple[ObjectInfo, SnapshotManifest]]:
    """Yield the snapshot manifests that can be read, with their objects; a warning names a damaged one."""
    for found in listed:
        try:
            yield found, _read_manifest(store, found)
        except ObjectNotFoundError:
            continue  # another run removed it since
        except CorruptDataError as error:
            _log.warning("passed over: %s", error.message)


def _read_manifest(store: ObjectStore, found: ObjectInfo) -> SnapshotManifest:
    return read_decoded(store, found.key, SnapshotManifest.decode, limit=_LARGEST_MANIFEST)


def list_snapshots(store: ObjectStore, partition: TopicIdPartition) -> Iterator[int]:
    """Exclusive end offsets of the snapshot objects of a partition, ascending."""
    for found in store.list(keys.partition_snapshots(partition)):
        parsed = keys.recognise(found.key)
        if parsed is not None and parsed.kind is KeyKind.SNAPSHOT and parsed.offset is not None:
            yield parsed.offset


def read_snapshot(store: ObjectStore, partition: TopicIdPartition, offset: int) -> bytes | None:
    """Bytes of the snapshot at an exclusive end offset, None if there is none.

    Raises:
        CorruptSnapshotError: a broker could not read them.
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
