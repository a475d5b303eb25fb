"""Write computed snapshots and their manifests to remote storage: the SnapshotSink of a replay."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import check_cluster_id, put_cluster_id
from tiersnap.remote_storage.remote_log.snapshot_objects import (
    SnapshotManifest,
    SnapshotRecord,
    manifest_objects,
    readable_manifests,
)
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.stores.small_object import read_decoded, read_twice_if_damaged
from tiersnap.remote_storage.upload.snapshot_source import LARGEST_SNAPSHOT, TrustedSnapshot
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import CorruptDataError, CorruptSnapshotError, ObjectExistsError, TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.replay.snapshot_comparison import compare
from tiersnap.snapshot.replay.snapshot_sink import SnapshotObject, StoredSnapshot

_log = logging.getLogger(__name__)


@dataclass
class KeptSnapshots:
    """Keeps the bytes of stored snapshots in memory, so that the upload of their segments does not request them again.

    The first snapshots of each partition are kept, up to `limit` bytes, because the first segments are uploaded first.
    """

    limit: int = 64 << 20
    _kept: dict[str, bytes] = field(default_factory=dict)
    _size: int = 0

    def keep(self, key: str, data: bytes) -> None:
        """Keep the bytes of an object if the limit permits it."""
        if self._size + len(data) <= self.limit:
            self._kept[key], self._size = data, self._size + len(data)

    def of(self, key: str) -> bytes | None:
        """Return the bytes of an object; None if they were not kept."""
        return self._kept.get(key)

    def clear(self) -> None:
        """Drop all snapshots. Call this before each partition."""
        self._kept.clear()
        self._size = 0


@dataclass(frozen=True, slots=True)
class _There:
    """An existing object; `data` is None if the bytes contradict the stored checksum."""

    info: ObjectInfo
    data: bytes | None

    @property
    def entries(self) -> np.ndarray | None:
        """Return the entries (ENTRY_DTYPE) of the snapshot; None if the snapshot is damaged."""
        try:
            if self.data is not None:
                return snapshot_file.decode(self.data)
        except CorruptSnapshotError:
            pass
        return None


@dataclass(frozen=True)
class StoredSnapshots:
    """Writes snapshots below `snapshots/` of a store, and one snapshot manifest per partition and run."""

    store: ObjectStore
    run_id: str
    replace: bool = False  # overwrite objects of unknown writers too
    writes: bool = True  # False writes nothing and returns the same results
    kept: KeptSnapshots | None = None  # receives the bytes of stored snapshots
    _named: set[TopicIdPartition] = field(default_factory=set)

    @property
    def uri(self) -> str:
        return self.store.uri

    def put(self, snapshot: SnapshotObject) -> StoredSnapshot:
        """See SnapshotSink.

        Raises:
            ObjectExistsError: an object of an unknown writer has other content.
            CorruptDataError: the stored snapshot refers to batches in a gap of the log. The log lost these batches
                after the snapshot was uploaded.
        """
        partition = TopicIdPartition(snapshot.topic, snapshot.topic_id, snapshot.partition)
        key = keys.snapshot(partition, snapshot.end_offset)
        if snapshot.cluster_id is not None and partition not in self._named:
            name_cluster = put_cluster_id if self.writes else check_cluster_id
            name_cluster(self.store, partition, snapshot.cluster_id)
            self._named.add(partition)
        there = self._put_if_absent(partition, snapshot)
        kept = None
        if there is not None:
            kept = self._settle(partition, snapshot, there)
        data = snapshot.data if kept is None else kept
        if self.kept is not None:
            self.kept.keep(key, data)
        return StoredSnapshot(
            key=key,
            end_offset=snapshot.end_offset,
            size=len(data),
            crc32c=crc32c(data),
            crc=int.from_bytes(data[2:6], "big"),
            entry_count=(len(data) - snapshot_file.HEADER_LENGTH) // snapshot_file.ENTRY_LENGTH,
            provenance=snapshot.provenance,
            folded_from=snapshot.folded_from,
            is_new=kept is None,
            is_mended=there is not None and there.entries is None,
        )

    def _settle(self, partition: TopicIdPartition, snapshot: SnapshotObject, there: _There) -> bytes | None:
        """Return the bytes of the existing object, or None after the computed snapshot replaced it."""
        key = self.store.uri + keys.snapshot(partition, snapshot.end_offset)
        if there.data == snapshot.data:
            return there.data
        if there.entries is not None:
            _refuse_lost(there.entries, snapshot, key)
            if _knows_more(there.entries, snapshot):
                _log.debug("kept %s, which has more producers than the computed snapshot", key)
                return there.data
        self._replace(partition, snapshot, there)
        return None

    def _put_if_absent(self, partition: TopicIdPartition, snapshot: SnapshotObject) -> _There | None:
        """Write the snapshot and return None if no object exists. Otherwise read and return the existing object.

        The existing bytes are read, because S3 keeps the checksum of the upload even if the bytes rot later.
        """
        if not self.writes:
            with suppress(ObjectNotFoundError):
                return self._read(partition, snapshot.end_offset)
            return None
        key, metadata = keys.snapshot(partition, snapshot.end_offset), self._metadata(snapshot)
        try:
            outcome = self.store.put_if_absent(key, snapshot.data, metadata).outcome
        except ObjectExistsError:
            return self._read(partition, snapshot.end_offset)
        _log.info("snapshot %s%s: %s", self.store.uri, key, outcome)
        if outcome.is_ours:
            return None
        return self._read(partition, snapshot.end_offset)

    def _metadata(self, snapshot: SnapshotObject) -> dict[str, str]:
        trusted = TrustedSnapshot(snapshot.end_offset, snapshot.data, Provenance(snapshot.provenance))
        return snapshot_metadata(trusted, run_id=self.run_id, fold_start_offset=snapshot.folded_from)

    def _read(self, partition: TopicIdPartition, offset: int) -> _There:
        key = keys.snapshot(partition, offset)
        try:
            found = read_twice_if_damaged(lambda: self.store.read(key, limit=LARGEST_SNAPSHOT))
        except CorruptDataError:
            info = self.store.head(key)
            if info is None:
                raise TransientError(
                    f"{self.store.uri}{key}: the object was deleted while tiersnap read it",
                    hint="run the same command again",
                ) from None
            return _There(info, None)
        return _There(found.info, found.data)

    def _replace(self, partition: TopicIdPartition, snapshot: SnapshotObject, there: _There) -> None:
        key = keys.snapshot(partition, snapshot.end_offset)
        # If the stored checksum equals that of the computed snapshot, the object was uploaded with this content.
        is_same = there.info.crc32c == crc32c(snapshot.data)
        if not (self.replace or is_same or self._is_ours(partition, snapshot.end_offset, there.info)):
            raise ObjectExistsError(
                f"{self.store.uri}{key}: the object has other content, and no run of tiersnap wrote it",
                hint="find the program that wrote the object; to overwrite the object: tiersnap run --replace --apply",
                key=key,
            )
        if not self.writes:
            return
        before = "damaged" if there.data is None else f"{crc32c(there.data):08x}"
        metadata = self._metadata(snapshot) | {"replaces-crc32c": before}
        self.store.replace_if(key, snapshot.data, there.info.etag, metadata)
        if there.entries is None:
            _log.warning("damaged, computed again and replaced: %s%s", self.store.uri, key)
        else:
            _log.info("replaced %s%s", self.store.uri, key)

    def _is_ours(self, partition: TopicIdPartition, offset: int, found: ObjectInfo) -> bool:
        """Return whether the object's metadata or a manifest proves that a run of tiersnap wrote the object."""
        if "run-id" in found.metadata:
            return True
        return any(record.offset == offset for record in self._described(partition))

    def _described(self, partition: TopicIdPartition) -> Iterator[SnapshotRecord]:
        """Yield the records of the readable manifests. Damaged manifests are skipped."""
        listed = manifest_objects(self.store, partition)
        for _, manifest in readable_manifests(self.store, listed):
            yield from manifest.snapshots

    def commit(self, topic: str, topic_id: str | None, partition: int, snapshots: list[StoredSnapshot]) -> None:
        if not self.writes:
            return
        name = TopicIdPartition(topic, topic_id, partition)
        records = list(map(_record, snapshots))
        if not all(stored.is_new for stored in snapshots):
            # A killed run may have written a snapshot without a manifest, so list existing snapshots too.
            described = set(map(_essence, self._described(name)))
            records = [record for record in records if _essence(record) not in described]
        if records:
            put_manifest(self.store, name, self.run_id, records)


def _record(stored: StoredSnapshot) -> SnapshotRecord:
    of, start = Provenance(stored.provenance), stored.folded_from
    return SnapshotRecord(stored.end_offset, stored.size, f"{stored.crc32c:08x}", stored.entry_count, of, start)


def _essence(record: SnapshotRecord) -> tuple[int, int, str]:
    return record.offset, record.size, record.crc32c


def _refuse_lost(before: np.ndarray, snapshot: SnapshotObject, name: str) -> None:
    lost = next((gap for gap in snapshot.gaps() if gap.is_known_to(before)), None)
    if lost is not None:
        raise CorruptDataError(
            f"{lost}, but the earlier snapshot {name} refers to batches at these offsets",
            hint=f"restore the segment from another replica. If no replica has the segment, move {name} away",
        )


def _knows_more(before: np.ndarray, snapshot: SnapshotObject) -> bool:
    return compare(before, snapshot_file.decode(snapshot.data), history_from=snapshot.folded_from).is_start


def snapshot_metadata(snapshot: TrustedSnapshot, *, run_id: str, fold_start_offset: int | None) -> dict[str, str]:
    """Return the user metadata for a snapshot object."""
    return {
        "version": __version__,
        "run-id": run_id,
        "provenance": str(snapshot.provenance),
        "entries": str(snapshot.entry_count),
        "fold-start-offset": "" if fold_start_offset is None else str(fold_start_offset),
    }


def put_manifest(
    store: ObjectStore, partition: TopicIdPartition, run_id: str, records: Iterable[SnapshotRecord]
) -> SnapshotManifest:
    """Write the snapshot manifest of this run. A resumed run adds records to its existing manifest.

    Raises:
        ObjectExistsError: the existing manifest has another record for the same offset.
    """
    manifest = SnapshotManifest.of(partition, run_id, records)
    key = keys.snapshot_manifest(partition, run_id)
    try:
        store.put_if_absent(key, manifest.encode())
    except ObjectExistsError:
        before = read_decoded(store, key, SnapshotManifest.decode)
        rows = {row.offset: row for row in before.snapshots}
        if any(rows.get(row.offset, row) != row for row in manifest.snapshots):
            raise
        rows |= {row.offset: row for row in manifest.snapshots}
        manifest = SnapshotManifest.of(partition, run_id, rows.values())
        store.replace(key, manifest.encode())
    return manifest
