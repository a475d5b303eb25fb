"""The sink of the carry stage: computed snapshots and their manifests in remote storage."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from tiersnap.remote_storage.cluster_record import put_cluster_id
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.snapshot_objects import (
    SnapshotRecord,
    list_manifests,
    put_manifest,
    put_snapshot,
    snapshot_metadata,
)
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.upload.trusted_snapshot import TrustedSnapshot
from tiersnap.snapshot.errors import CorruptDataError, CorruptSnapshotError, ObjectExistsError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.state.trust import Provenance, compare
from tiersnap.snapshot.tasks.snapshot_sink import SnapshotObject, StoredSnapshot

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredSnapshots:
    """Writes snapshots below `snapshots/` of a store, and one manifest a partition and run that wrote any.

    Attributes:
        replace: overwrite also what nobody knows to be ours.
    """

    store: ObjectStore
    run_id: str
    replace: bool = False
    keys: ObjectKeys = field(default_factory=ObjectKeys)
    _named: set[TopicIdPartition] = field(default_factory=set)

    @property
    def uri(self) -> str:
        """See SnapshotSink."""
        return self.store.uri

    def put(self, snapshot: SnapshotObject) -> StoredSnapshot:
        """See SnapshotSink."""
        partition = TopicIdPartition(snapshot.topic, snapshot.topic_id, snapshot.partition)
        key = self.keys.snapshot(partition, snapshot.end_offset)
        if snapshot.cluster_id is not None and partition not in self._named:
            put_cluster_id(self.store, self.keys, partition, snapshot.cluster_id)
            self._named.add(partition)
        trusted = TrustedSnapshot(snapshot.end_offset, snapshot.data, Provenance(snapshot.provenance))
        start, data = snapshot.folded_from, snapshot.data
        try:
            _, outcome = put_snapshot(
                self.store, self.keys, partition, trusted, run_id=self.run_id, fold_start_offset=start
            )
            is_new = outcome.is_ours
        except ObjectExistsError as error:
            there = self.store.read(key)
            _refuse_lost(there.data, snapshot, self.store.uri + key)
            if _knows_more(there.data, snapshot):
                data, is_new = there.data, False
                _log.debug("kept %s%s, which knows more than what was computed", self.store.uri, key)
            elif self.replace or self._is_ours(partition, snapshot.end_offset, there.info):
                metadata = snapshot_metadata(trusted, run_id=self.run_id, fold_start_offset=start)
                replaced = {"tiersnap-replaces-crc32c": f"{crc32c(there.data):08x}"}
                self.store.replace_if(key, data, there.info.etag, metadata | replaced)
                _log.info("replaced %s%s", self.store.uri, key)
                is_new = True
            else:
                raise ObjectExistsError(
                    f"{self.store.uri}{key}: an object with other content is there, and no run of tiersnap wrote it",
                    hint="look at it; tiersnap run --replace --apply puts the computed snapshot in its place",
                    key=key,
                ) from error
        return StoredSnapshot(
            key=key,
            end_offset=snapshot.end_offset,
            size=len(data),
            crc32c=crc32c(data),
            crc=int.from_bytes(data[2:6], "big"),
            entry_count=(len(data) - snapshot_file.HEADER_LENGTH) // snapshot_file.ENTRY_LENGTH,
            provenance=snapshot.provenance,
            folded_from=start,
            is_new=is_new,
        )

    def _is_ours(self, partition: TopicIdPartition, offset: int, found: ObjectInfo) -> bool:
        """Whether the object's metadata, or a manifest of ours, says that a run wrote it."""
        if "tiersnap-run-id" in found.metadata:
            return True
        manifests = list_manifests(self.store, self.keys, partition)
        return any(record.offset == offset for manifest in manifests for record in manifest.snapshots)

    def commit(self, topic: str, topic_id: str | None, partition: int, snapshots: list[StoredSnapshot]) -> None:
        """See SnapshotSink."""
        name = TopicIdPartition(topic, topic_id, partition)
        records = [_record(stored) for stored in snapshots]
        if not all(stored.is_new for stored in snapshots):
            # Of what was there: a run that was killed may have written it, and no manifest.
            manifests = list_manifests(self.store, self.keys, name)
            described = {_essence(record) for manifest in manifests for record in manifest.snapshots}
            records = [record for record in records if _essence(record) not in described]
        if records:
            put_manifest(self.store, self.keys, name, self.run_id, records)


def _record(stored: StoredSnapshot) -> SnapshotRecord:
    provenance = Provenance(stored.provenance)
    start = stored.folded_from
    return SnapshotRecord(stored.end_offset, stored.size, stored.crc32c, stored.entry_count, provenance, start)


def _essence(record: SnapshotRecord) -> tuple[int, int, int]:
    """What says which bytes are meant."""
    return record.offset, record.size, record.crc32c


def _refuse_lost(before: bytes, snapshot: SnapshotObject, name: str) -> None:
    """Keep what an earlier run made of a log that was whole.

    Raises:
        CorruptDataError: it knows of offsets that are in no segment any more.
    """
    try:
        entries = snapshot_file.decode(before)
    except CorruptSnapshotError:
        return
    lost = next((gap for gap in snapshot.gaps() if gap.is_known_to(entries)), None)
    if lost is not None:
        raise CorruptDataError(
            f"{lost}, and {name}, which was made while they were there, knows of some",
            hint="put the segment back from another replica; where its loss is final, move that object away",
        )


def _knows_more(before: bytes, snapshot: SnapshotObject) -> bool:
    """Whether what is there says all of it, and more from before the log start: retention has moved that on since."""
    try:
        older, newer = snapshot_file.decode(before), snapshot_file.decode(snapshot.data)
    except CorruptSnapshotError:
        return False
    return compare(older, newer, history_from=snapshot.folded_from).is_start
