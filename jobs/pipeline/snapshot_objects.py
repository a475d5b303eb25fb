"""The sink of the carry stage: computed snapshots and their manifests in remote storage."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.snapshot_objects import SnapshotRecord, put_manifest, put_snapshot, read_snapshot
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.trusted_snapshot import TrustedSnapshot
from tiersnap.snapshot.errors import CorruptSnapshotError, ObjectExistsError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.stages.snapshot_sink import SnapshotObject, StoredSnapshot
from tiersnap.snapshot.state.producer_state import is_expired
from tiersnap.snapshot.state.trust import Provenance, compare


@dataclass(frozen=True)
class StoredSnapshots:
    """Writes snapshots below `snapshots/` of a store, and one manifest a partition and run.

    Attributes:
        as_of: ms, expiration: ms or None: an object that lacks only producers expired by them is not another content.
        replace: overwrite objects that contradict the log.
    """

    store: ObjectStore
    run_id: str
    as_of: int
    expiration: int | None
    replace: bool = False
    keys: ObjectKeys = field(default_factory=ObjectKeys)

    def put(self, snapshot: SnapshotObject) -> StoredSnapshot:
        """See SnapshotSink."""
        partition = TopicIdPartition(snapshot.topic, snapshot.topic_id, snapshot.partition)
        key = self.keys.snapshot(partition, snapshot.end_offset)
        data = snapshot.data
        try:
            self._put(partition, snapshot, replace=False)
        except ObjectExistsError:
            before = read_snapshot(self.store, self.keys, partition, snapshot.end_offset)
            if before is not None and self._says_the_same(before, snapshot):
                data = before
            elif self.replace:
                self._put(partition, snapshot, replace=True)
            else:
                raise
        return StoredSnapshot(
            key=key,
            end_offset=snapshot.end_offset,
            size=len(data),
            crc32c=crc32c(data),
            crc=int.from_bytes(data[2:6], "big"),
            entry_count=(len(data) - snapshot_file.HEADER_LENGTH) // snapshot_file.ENTRY_LENGTH,
            provenance=snapshot.provenance,
            folded_from=snapshot.folded_from,
        )

    def _put(self, partition: TopicIdPartition, snapshot: SnapshotObject, *, replace: bool) -> None:
        trusted = TrustedSnapshot(snapshot.end_offset, snapshot.data, Provenance(snapshot.provenance))
        start = snapshot.folded_from
        put_snapshot(
            self.store, self.keys, partition, trusted, run_id=self.run_id, fold_start_offset=start, replace=replace
        )

    def _says_the_same(self, before: bytes, snapshot: SnapshotObject) -> bool:
        """Whether an earlier run wrote this boundary, as of an earlier time or when the log still began earlier.

        Retention moves the log start on, and what is folded from there knows less than what is there: that stays.
        """
        try:
            older, newer = snapshot_file.decode(before), snapshot_file.decode(snapshot.data)
        except CorruptSnapshotError:
            return False
        is_kept = np.isin(older["producer_id"], newer["producer_id"])
        gone = older[~is_kept]
        gone = gone[~is_expired(gone, as_of=self.as_of, expiration=self.expiration)]
        older = np.concatenate([older[is_kept], gone])
        comparison = compare(
            older[np.argsort(older["producer_id"], kind="stable")],
            newer,
            history_from=snapshot.folded_from,
        )
        return comparison.verdict(self.as_of, self.expiration).is_trusted

    def commit(self, topic: str, topic_id: str | None, partition: int, snapshots: list[StoredSnapshot]) -> None:
        """See SnapshotSink."""
        records = [
            SnapshotRecord(
                stored.end_offset,
                stored.size,
                stored.crc32c,
                stored.entry_count,
                Provenance(stored.provenance),
                stored.folded_from,
            )
            for stored in snapshots
        ]
        put_manifest(self.store, self.keys, TopicIdPartition(topic, topic_id, partition), self.run_id, records)
