"""The plans for all partitions of a store: listed first, and asked after at the cluster then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from tiersnap.remote_storage.inventory.partition_objects import list_all, list_partition_objects
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.retire.expire_plan import ExpirePlan, plan_partition
from tiersnap.remote_storage.retire.known_to_cluster import KnownToCluster, manager_of
from tiersnap.remote_storage.retire.retention import Retention
from tiersnap.remote_storage.stores.object_store import ObjectStore

_PARTITIONS_AT_ONCE = 64


def find_expired(
    store: ObjectStore,
    is_wanted: Callable[[TopicIdPartition], bool],
    retention: Retention,
    *,
    cluster: KnownToCluster | None,
    unmanaged: bool,
) -> Iterator[ExpirePlan]:
    """A plan for each partition that has objects of segments, or had until `expire` was at it; nothing is changed.

    A cluster is asked right before the partitions that are yielded next, so that what it says is not old by the time
    that they are deleted.

    Args:
        cluster: asked whether a broker manages them; None where nobody is asked.
        unmanaged: the user says that no broker does.

    Raises:
        MetadataTopicAbsentError, BrokerUnavailableError: the cluster cannot be asked.
        TransientError: the store does not answer.
    """
    keys = ObjectKeys()
    listed, records = list_all(store, keys, lambda _: True)
    wanted = [each for each in listed if each.topic_id is not None and is_wanted(each)]
    unblocking = {(each.topic, each.topic_id) for each in records}
    with nullcontext() if cluster is None else cluster.reading(wanted) as ask:
        for start in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            some = [list_partition_objects(store, keys, each) for each in wanted[start : start + _PARTITIONS_AT_ONCE]]
            some = [each for each in some if each.attempts or each.expire]
            known = {} if ask is None else ask(each.partition for each in some)
            for stored in some:
                managed = manager_of(
                    known.get(stored.partition),
                    stored.cluster_id,
                    [each.segment_id for each in stored.attempts],
                    unblocking=(stored.partition.topic, stored.partition.topic_id) in unblocking,
                    unmanaged=unmanaged,
                )
                yield plan_partition(store, keys, stored, managed, retention)
