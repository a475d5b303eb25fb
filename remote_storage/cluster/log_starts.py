"""Ask a cluster for log start offsets if log-start-offset-checkpoint may be outdated (see snapshot.log.log_start)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topics import Topic
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, name_of
from tiersnap.remote_storage.remote_log.cluster_record import read_cluster_id
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.log import log_start
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import may_take_leaders, with_leaders

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def located(cluster: Cluster | None, partitions: Iterable[tuple[_T, Partition]]) -> Iterator[tuple[_T, Partition]]:
    """Yield the partitions. `log_start.with_leaders` decides which of them get the leader's log start offset.

    Only partitions for which `may_take_leaders` is True need requests: two per partition, and one per topic.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    topics: dict[str, Topic | None] = {}
    for place, partition in partitions:
        if cluster is None or not may_take_leaders(partition):
            yield place, partition
        else:
            yield place, _located(cluster, partition, topics)


def _located(cluster: Cluster, partition: Partition, topics: dict[str, Topic | None]) -> Partition:
    if partition.topic not in topics:
        topics[partition.topic] = cluster.topics([partition.topic]).get(partition.topic)
    start = None
    if partition.topic_id is not None:
        start = _start_in(cluster, name_of(partition), topics[partition.topic])
    return with_leaders(partition, start)


def moved_up(cluster: Cluster | None, partition: Partition) -> Partition | None:
    """Return the partition with its leader's log start offset.

    Return None if this offset is not above `log_start_checkpoint`, or if one of the two is unknown.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    if cluster is None or partition.log_start_checkpoint is None or partition.topic_id is None:
        return None
    return log_start.moved_up(partition, log_start_of(cluster, name_of(partition)))


def log_start_of(cluster: Cluster, partition: TopicIdPartition) -> int | None:
    """Return the log start offset of a partition.

    None if the cluster has no such topic id, or the partition has no leader.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    return _start_in(cluster, partition, cluster.topics([partition.topic]).get(partition.topic))


def _start_in(cluster: Cluster, partition: TopicIdPartition, topic: Topic | None) -> int | None:
    if topic is None or topic.topic_id != partition.topic_id:
        return None
    start = cluster.log_starts({partition: topic.leaders.get(partition.partition, -1)}).get(partition)
    _log.debug("%s: log start offset %s in the cluster", partition, start)
    return start


def is_deleted(cluster: Cluster, store: ObjectStore, partition: TopicIdPartition) -> bool:
    """Return whether a partition was uploaded from this cluster, and the cluster no longer has its topic id.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    topic = cluster.topics([partition.topic]).get(partition.topic)
    if topic is None and partition.topic not in cluster.absent([partition.topic]):
        return False  # this user may not describe the topic, or a broker does not list it yet
    if topic is not None and topic.topic_id == partition.topic_id:
        return False
    with suppress(CorruptDataError):
        return read_cluster_id(store, partition) == cluster.cluster_id()
    return False
