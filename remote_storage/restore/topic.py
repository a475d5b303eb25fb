"""The partitions of a topic that a restore was asked for, found and planned; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.inventory.partition_objects import PartitionObjects
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.restore.plan import (
    RestorePlan,
    find_partitions,
    known_log_start,
    plan_pieces,
    plan_restore,
)
from tiersnap.remote_storage.restore.published import Published
from tiersnap.remote_storage.restore.request import RestoreRequest
from tiersnap.remote_storage.restore.target import Target, choose_destination
from tiersnap.remote_storage.stored.cluster_record import read_cluster_id
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.units import count_of

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition in remote storage; `cluster_id` wrote it, None where nobody says."""

    listed: PartitionObjects
    cluster_id: str | None


def find_topic(store: ObjectStore, asked: RestoreRequest) -> list[FoundPartition]:
    """What remote storage has of the topic.

    Raises:
        ObjectNotFoundError, UsageError: see `find_partitions`; or another cluster was named than the one recorded; or
            an offset was given for several partitions.
    """
    listed = find_in_layout(store, asked.topic, asked.topic_id, asked.partitions, asked.layout)
    _check_offsets(listed, asked)
    return [FoundPartition(each, _source_cluster(store, each, asked.cluster_id)) for each in listed]


def _check_offsets(listed: Sequence[PartitionObjects], asked: RestoreRequest) -> None:
    """An offset means something in one partition only."""
    for option, offset in (("--log-start", asked.log_start), ("--until", asked.until)):
        if offset is not None and len(listed) > 1:
            named = ", ".join(str(each.partition) for each in listed[:_MOST_NAMED])
            raise UsageError(
                f"{option} {offset} for {count_of(len(listed), 'partition')}: {named}",
                hint=f"name one: {option} {offset} --partition {listed[0].partition.partition}",
            )


def find_in_layout(
    store: ObjectStore, topic: str, topic_id: str | None, partitions: Iterable[int], layout: str | None
) -> list[PartitionObjects]:
    """Partitions of one topic id and one layout, which need not be named where there is one; see `find_partitions`."""
    local = None if layout is None else layout == "local-tiered-storage"
    return find_partitions(store, topic, topic_id=topic_id, partitions=tuple(partitions), local=local)


def plan_topic(
    store: ObjectStore,
    target: Target,
    found: Iterable[FoundPartition],
    asked: RestoreRequest,
    published: Mapping[TopicIdPartition, Published] | None,
) -> list[RestorePlan]:
    """How each partition goes to the target.

    Args:
        published: what the cluster knows of each partition; None where none was asked.

    Raises:
        TiersnapError: see `choose_destination`, `plan_pieces` and `plan_restore`.
    """
    return [_plan(store, target, each, asked, (published or {}).get(each.listed.partition)) for each in found]


def _plan(
    store: ObjectStore, target: Target, found: FoundPartition, asked: RestoreRequest, published: Published | None
) -> RestorePlan:
    listed = found.listed
    destination = choose_destination(
        target,
        str(listed.partition),
        source_cluster=found.cluster_id,
        topic_id=listed.partition.topic_id or "",
        as_topic_id=asked.as_topic_id,
        producer_state=asked.producer_state,
    )
    chain = plan_pieces(
        store,
        listed,
        without=asked.without,
        log_start_offset=asked.log_start,
        until=asked.until,
        known_log_start=known_log_start(target, listed, is_same_cluster=destination.is_same_cluster),
        published=published,
        unpublished=asked.unpublished,
    )
    return plan_restore(
        store,
        target,
        listed,
        chain,
        destination,
        source_cluster=found.cluster_id or "",
        producer_expiration=asked.producer_expiration,
        now=asked.now,
        topic_is_checked=published is not None,
    )


def _source_cluster(store: ObjectStore, listed: PartitionObjects, given: str | None) -> str | None:
    recorded = read_cluster_id(store, ObjectKeys(), listed.partition)
    if recorded is not None and given not in (None, recorded):
        raise UsageError(
            f"{listed.partition}: --cluster-id {given}, but the run that tiered it recorded {recorded}",
            hint="leave --cluster-id out: what was recorded is taken",
        )
    return recorded or given
