"""The sink of the carry stage: computed snapshots and their manifests in remote storage."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from remote_storage.keys import ObjectKeys
from remote_storage.object_store import ObjectStore
from remote_storage.segment_metadata import TopicIdPartition
from remote_storage.snapshot_objects import SnapshotRecord, put_manifest, put_snapshot, read_snapshot
from remote_storage.trusted_snapshot import TrustedSnapshot
from snapshot import snapshot_file
from snapshot.crc32c import crc32c
from snapshot.errors import ObjectExistsError
from snapshot.stages.carry_partitions import SnapshotObject
from snapshot.trust import Provenance, SnapshotVerdict, compare


@dataclass(frozen=True)
class StoredSnapshots:
    """Writes snapshots below `snapshots/` of a store, and one manifest a partition and run.

    Attributes:
        as_of: ms, expiration: ms or None: an object that lacks only producers expired by them is not another content.
        replace: overwrite objects of another content.
    """

    store: ObjectStore
    run_id: str
    as_of: int
    expiration: int | None
    replace: bool = False
    keys: ObjectKeys = field(default_factory=ObjectKeys)

    def put(self, snapshot: SnapshotObject) -> str:
        """See SnapshotSink."""
        partition = _partition(snapshot)
        trusted = TrustedSnapshot(snapshot.end_offset, snapshot.data, Provenance(snapshot.provenance))
        try:
            put_snapshot(
                self.store,
                self.keys,
                partition,
                trusted,
                run_id=self.run_id,
                fold_start_offset=snapshot.folded_from,
                replace=self.replace,
            )
        except ObjectExistsError:
            if not self._differs_by_expiry_only(partition, snapshot):
                raise
        return self.keys.snapshot(partition, snapshot.end_offset)

    def _differs_by_expiry_only(self, partition: TopicIdPartition, snapshot: SnapshotObject) -> bool:
        """An earlier run, whose warehouse is gone, wrote this boundary as of an earlier time."""
        before = read_snapshot(self.store, self.keys, partition, snapshot.end_offset)
        if before is None:
            return False
        older, newer = snapshot_file.decode(before), snapshot_file.decode(snapshot.data)
        gone = older[~np.isin(older["producer_id"], newer["producer_id"])]
        kept = older[np.isin(older["producer_id"], newer["producer_id"])]
        comparison = compare(kept, newer, history_from=0, written_at=self.as_of, producer_expiration=self.expiration)
        expired = compare(gone[:0], gone, history_from=0, written_at=self.as_of, producer_expiration=self.expiration)
        return comparison.verdict is expired.verdict is SnapshotVerdict.MATCHES

    def commit(self, snapshots: list[SnapshotObject]) -> None:
        """See SnapshotSink."""
        records = [
            SnapshotRecord(
                snapshot.end_offset,
                len(snapshot.data),
                crc32c(snapshot.data),
                snapshot.entry_count,
                Provenance(snapshot.provenance),
                snapshot.folded_from,
            )
            for snapshot in snapshots
        ]
        put_manifest(self.store, self.keys, _partition(snapshots[0]), self.run_id, records)


def _partition(snapshot: SnapshotObject) -> TopicIdPartition:
    return TopicIdPartition(snapshot.topic, snapshot.topic_id, snapshot.partition)
