"""A partition in remote storage as tiersnap makes it, and what a cluster may say of it: for tests of orphans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.reference.planned import PARTITION, planned, write_log
from tests.reference.tiered import age, rows_of
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.remote_log.finished import finished_of
from tiersnap.remote_storage.remote_log.partition_objects import list_partition_objects
from tiersnap.remote_storage.retire.known_to_cluster import KnownPartition
from tiersnap.remote_storage.retire.orphan_kinds import Fate, Orphan
from tiersnap.remote_storage.retire.orphans import Aged
from tiersnap.remote_storage.retire.orphans_find import orphans_of
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.stored_snapshots import StoredSnapshots
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.replay.snapshot_sink import SnapshotObject

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
DAY = 86_400_000
_STEPS = list(SegmentState)


def tier_ours(store: ObjectStore, layout: Layout, log_dir: Path, *, run_id: str = "run-1") -> None:
    """Tier the three closed segments of a log that is written to `log_dir`."""
    segments = planned(write_log(log_dir))
    tierer = Tierer(run_id, 1_700_000_000_500, wait=0)
    rows = rows_of(tier_partition(RemoteLocation(store, layout), PARTITION, segments, tierer, cluster_id=CLUSTER))
    assert [row["error"] for row in rows] == [None] * len(rows)


def put_snapshots(store: ObjectStore, offsets: Iterable[int], *, run_id: str = "run-1") -> None:
    """Snapshot objects as the replay stage writes them, and their manifest."""
    sink = StoredSnapshots(store, run_id)
    name = (PARTITION.topic, PARTITION.topic_id, PARTITION.partition)
    data = bytes.fromhex("0001 48674bc7 00000000")  # no producers
    stored = [sink.put(SnapshotObject(*name, CLUSTER, offset, data, "COMPUTED", 0, 0)) for offset in offsets]
    sink.commit(*name, stored)


def make_old(store: DirectoryStore, *, but: str = "never") -> None:
    """Two days pass, for every object whose key does not hold `but`."""
    for info in list(store.list()):
        if but not in info.key:
            age(store, info.key, 2 * DAY)


def finished(store: ObjectStore, layout: Layout) -> list[RemoteLogSegmentMetadata]:
    """The copies that count, ascending."""
    return finished_of(RemoteLocation(store, layout), PARTITION)


def known(*records: RemoteLogSegmentMetadata, log_start: int | None = 0, **changes: object) -> KnownPartition:
    """What a cluster says that was told of these segments, up to the state that each has."""
    cache = MetadataCache()
    for record in records:
        cache.apply(SegmentRecord(replace(record, state=SegmentState.COPY_SEGMENT_STARTED)))
        for state in _STEPS[1 : _STEPS.index(record.state) + 1]:
            cache.apply(SegmentUpdate(record.id, 1, 1, state))
    told = KnownPartition(PARTITION, CLUSTER, dict(cache.segments(PARTITION)), log_start=log_start)
    return replace(told, **changes)


def orphans(store: ObjectStore, told: KnownPartition, *, older_than: int = DAY) -> list[Orphan]:
    """All that is found of the partition."""
    stored = list_partition_objects(store, PARTITION)
    return list(orphans_of(store, stored, told, Aged(store.now(), older_than)))


def removable(found: Iterable[Orphan]) -> set[str]:
    """Keys that would go."""
    return {key for each in found if each.action is Fate.REMOVE for key in each.keys}


def copies(store: ObjectStore) -> set[str]:
    """Segment ids of which there is any object."""
    parsed = (keys.recognise(info.key) for info in store.list())
    return {key.segment_id for key in parsed if key and key.segment_id}
