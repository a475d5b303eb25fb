"""Ask a cluster for the log start of partitions of which nothing on this host tells it (snapshot.log.log_start)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import begins_below, with_log_start

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def located(cluster: Cluster | None, partitions: Iterable[tuple[_T, Partition]]) -> Iterator[tuple[_T, Partition]]:
    """Yield the partitions, those whose log start is unknown as their leader tells it; as they are without a cluster.

    It costs some requests for such a partition, and none for the others.

    Raises:
        BrokerUnavailableError, ClusterRefusedError: the cluster does not say.
    """
    for place, partition in partitions:
        is_asked = cluster is not None and begins_below(partition) is None
        yield place, partition if cluster is None or not is_asked else _located(cluster, partition)


def _located(cluster: Cluster, partition: Partition) -> Partition:
    topic = cluster.topics([partition.topic]).get(partition.topic)
    if topic is None or topic.topic_id != partition.topic_id:
        return partition
    name = TopicIdPartition(partition.topic, topic.topic_id, partition.partition)
    start = cluster.log_starts({name: topic.leaders.get(partition.partition, -1)}).get(name)
    _log.debug("%s: the cluster says that its log starts at %s", partition.name, start)
    return with_log_start(partition, start)
