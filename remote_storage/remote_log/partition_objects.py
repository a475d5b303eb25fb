"""List every object of a partition: segments in both layouts, claims, snapshots and tiersnap's other objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import in_each_layout
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import read_cluster_id
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, group, list_segments
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.errors import CorruptDataError


@dataclass(frozen=True, slots=True)
class PartitionObjects:
    """All objects of one partition, as listed."""

    partition: TopicIdPartition
    attempts: tuple[SegmentObjects, ...] = ()  # segments of either layout, ascending by start offset in each
    # the object of each claim, by the claimed segment
    claims: Mapping[ClaimedSegment, ObjectInfo] = field(default_factory=dict)
    snapshots: Mapping[int, ObjectInfo] = field(default_factory=dict)  # by exclusive snapshot offset
    manifests: Mapping[str, ObjectInfo] = field(default_factory=dict)  # snapshot manifests by run id
    known_manifests: ObjectInfo | None = None  # `manifests.json`: see known_manifests.py
    cluster: ObjectInfo | None = None  # `cluster.json`: see cluster_record.py
    cluster_id: str | None = None  # the content of `cluster`; None if missing or damaged

    @property
    def is_local(self) -> bool:
        """Return whether the first segment is in the layout of LocalTieredStorage."""
        return bool(self.attempts) and self.attempts[0].is_local


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The object with the saved configs of a topic, as listed."""

    topic: str
    topic_id: str
    info: ObjectInfo


def list_all(store: ObjectStore, is_wanted: Callable[[str], bool]) -> tuple[list[TopicIdPartition], list[StoredRecord]]:
    """Return the partitions that have objects, and the saved configs. Skip topics that `is_wanted` rejects."""
    partitions, records = set(), []
    for info in store.list():
        key = keys.recognise(info.key)
        if key is None or not is_wanted(key.partition.topic):
            continue
        if key.kind is KeyKind.UNBLOCK:
            records.append(StoredRecord(key.partition.topic, key.partition.topic_id or "", info))
        else:
            partitions.add(key.partition)
    return sorted(partitions, key=_order), records


def _order(partition: TopicIdPartition) -> tuple[str, str, int]:
    return partition.topic, partition.topic_id or "", partition.partition


def list_partition_objects(store: ObjectStore, partition: TopicIdPartition) -> PartitionObjects:
    """Return the objects of one partition, from at most four listings. `cluster.json` is read if it exists."""
    listed = list(store.list(keys.partition_snapshots(partition)))
    attempts: list[SegmentObjects] = []
    claims: dict[ClaimedSegment, ObjectInfo] = {}
    if partition.topic_id is not None:
        for location in in_each_layout(store):
            attempts += list_segments(location, partition)
        listed += store.list(keys.partition_claims(partition))
    snapshots: dict[int, ObjectInfo] = {}
    manifests: dict[str, ObjectInfo] = {}
    known = cluster = None
    for info in listed:
        key = keys.recognise(info.key)
        if key is None:
            continue
        if key.kind is KeyKind.CLAIM and key.offset is not None and key.leader_epoch is not None:
            claims[ClaimedSegment(partition, key.offset, key.leader_epoch)] = info
        elif key.kind is KeyKind.SNAPSHOT and key.offset is not None:
            snapshots[key.offset] = info
        elif key.kind is KeyKind.SNAPSHOT_MANIFEST and key.run_id is not None:
            manifests[key.run_id] = info
        elif key.kind is KeyKind.MANIFESTS:
            known = info
        elif key.kind is KeyKind.CLUSTER:
            cluster = info
    cluster_id = None if cluster is None else _cluster_id(store, partition)
    return PartitionObjects(partition, tuple(attempts), claims, snapshots, manifests, known, cluster, cluster_id)


def _cluster_id(store: ObjectStore, partition: TopicIdPartition) -> str | None:
    try:
        return read_cluster_id(store, partition)
    except CorruptDataError:
        return None


def list_topic(
    store: ObjectStore,
    topic: str,
    *,
    topic_id: str | None = None,
    partition: int | None = None,
    local: bool | None = None,
) -> tuple[PartitionObjects, ...]:
    """Return the partitions of `topic` that have segment objects, sorted by topic id and partition number.

    Args:
        local: True lists the layout of LocalTieredStorage, False the Aiven layout, None lists both.
    """
    listed = []
    layouts: tuple[bool, ...] = (False, True)
    if local is not None:
        layouts = (local,)
    for is_local in layouts:
        found = group(store.list(_prefix(topic, topic_id, partition, local=is_local)), local=is_local)
        for at, attempts in found.items():
            if (at.topic, at.topic_id) == (topic, topic_id or at.topic_id) and partition in (None, at.partition):
                listed.append(PartitionObjects(at, attempts))
    return tuple(
        sorted(listed, key=lambda each: (each.partition.topic_id or "", each.partition.partition, each.is_local))
    )


def _prefix(topic: str, topic_id: str | None, partition: int | None, *, local: bool) -> str:
    if topic_id is None or partition is None:
        return keys.topic(topic, local=local)
    return keys.partition_segments(TopicIdPartition(topic, topic_id, partition), local=local)


def read_claims(store: ObjectStore, stored: PartitionObjects, offsets: frozenset[int]) -> dict[str, Claim]:
    """Return the claims on segments that begin at one of `offsets`. The keys are segment ids.

    A claim is in the result once for each of its segment ids. Damaged claims are skipped.
    """

    def read(segment: ClaimedSegment) -> Claim | None:
        try:
            return read_claim(store, segment)
        except CorruptDataError:
            return None

    wanted = [segment for segment in stored.claims if segment.base_offset in offsets]
    named: dict[str, Claim] = {}
    for claim in in_parallel(read, wanted):
        if claim is not None:
            named.update(dict.fromkeys(claim.segment_ids, claim))
    return named
