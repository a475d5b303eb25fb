"""A snapshot object as a run writes it, where a test needs one without a run."""

from __future__ import annotations

from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.snapshot_objects import SnapshotRecord
from tiersnap.remote_storage.stores.object_store import ObjectStore, PutOutcome
from tiersnap.remote_storage.upload.snapshot_source import TrustedSnapshot
from tiersnap.remote_storage.upload.stored_snapshots import snapshot_metadata


def put_snapshot(
    store: ObjectStore,
    partition: TopicIdPartition,
    snapshot: TrustedSnapshot,
    *,
    run_id: str,
    fold_start_offset: int | None,
    replace: bool = False,
) -> tuple[SnapshotRecord, PutOutcome]:
    """Write one snapshot; `replace` overwrites another content instead of refusing it."""
    metadata = snapshot_metadata(snapshot, run_id=run_id, fold_start_offset=fold_start_offset)
    put = store.replace if replace else store.put_if_absent
    done = put(keys.snapshot(partition, snapshot.offset), snapshot.data, metadata)
    entries, provenance = snapshot.entry_count, snapshot.provenance
    crc = f"{done.crc32c:08x}"
    return SnapshotRecord(snapshot.offset, done.size, crc, entries, provenance, fold_start_offset), done.outcome
