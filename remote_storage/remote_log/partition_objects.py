"""List every object of a partition: segments in both layouts, claims, snapshots and records; nothing is read."""

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
    """The objects of one partition."""

    partition: TopicIdPartition
    attempts: tuple[SegmentObjects, ...] = ()  # objects of segments, of either layout, ascending
    # objects of claims, by the segment that they claim
    claims: Mapping[ClaimedSegment, ObjectInfo] = field(default_factory=dict)
    snapshots: Mapping[int, ObjectInfo] = field(default_factory=dict)  # objects by exclusive end offset
    manifests: Mapping[str, ObjectInfo] = field(default_factory=dict)  # objects of snapshot manifests, by run id
    known_manifests: ObjectInfo | None = None  # the object with the manifests that were read
    cluster: ObjectInfo | None = None  # the object that says whose partition this is
    cluster_id: str | None = None  # by its content; None if no such object can be read

    @property
    def is_local(self) -> bool:
        """Return whether its first segment lies as LocalTieredStorage lays them."""
        return bool(self.attempts) and self.attempts[0].is_local


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The saved configs of a topic."""

    topic: str
    topic_id: str
    info: ObjectInfo


def list_all(store: ObjectStore, is_wanted: Callable[[str], bool]) -> tuple[list[TopicIdPartition], list[StoredRecord]]:
    """Return the partitions with any object, and the saved configs, of topics that `is_wanted` takes."""
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
    """List one partition: at most four listings, and a request for `cluster.json`."""
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
    """Return the partitions of `topic` with any object of a segment, by topic id and number.

    Args:
        local: only LocalTieredStorage's objects, or only the others; None takes both.
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
    """Return the claims on segments at these base offsets, by the segment ids that they name; skip damaged claims."""

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
