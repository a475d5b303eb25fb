"""Read a cluster's `__remote_log_metadata` for the commands that restore or delete remote segments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.topics import Topic, is_there, leaders_of
from tiersnap.remote_storage.errors import UnknownToClusterError
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.restore.published import Published
from tiersnap.remote_storage.retire.attempts_of_brokers import ended_attempts
from tiersnap.remote_storage.retire.known_to_cluster import Ask, KnownPartition


class ClusterRecords:
    """A reader of the records in a cluster's `__remote_log_metadata`. Implements KnownToCluster.

    Raises:
        MetadataTopicAbsentError, BrokerUnavailableError: the records cannot be read.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topic = MetadataTopic.of(cluster)
        self.cluster_id = cluster.cluster_id()

    @contextmanager
    def reading(self, partitions: Iterable[TopicIdPartition]) -> Iterator[Ask]:
        with self._topic.read(each for each in partitions if each.topic_id is not None) as reader:
            yield partial(self._ask, reader)

    def _ask(
        self, reader: MetadataReader, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, KnownPartition]:
        wanted = [each for each in partitions if each.topic_id is not None]
        topics = self._cluster.topics({each.topic for each in wanted})
        live = leaders_of(topics, wanted)
        starts = self._cluster.log_starts(live)
        cache = reader.read_to_end()
        found = {}
        for each in wanted:
            log_start = None
            if each in live:
                log_start = starts.get(each, 0)
            found[each] = KnownPartition(
                each,
                self.cluster_id,
                dict(cache.segments(each)),
                frozenset(cache.doubtful),
                ended_attempts(cache, each),
                reader.log_starts[self._topic.partition_of(each)],
                log_start,
                live.get(each, 0) >= 0,
            )
        return self._with_absent(found, topics)

    def _with_absent(
        self, found: Mapping[TopicIdPartition, KnownPartition], topics: Mapping[str, Topic]
    ) -> dict[TopicIdPartition, KnownPartition]:
        """Return the partitions, with `is_absent` set to True if the cluster certainly lacks the topic id.

        Partitions without undeleted segments are not checked, and get False.
        """
        doubtful = [at for at, known in found.items() if not known.is_live and known.has_undeleted]
        gone = certainly_gone(self._cluster, topics, doubtful)
        return {at: replace(known, is_absent=at in gone) for at, known in found.items()}


def certainly_gone(
    cluster: Cluster, topics: Mapping[str, Topic], partitions: Collection[TopicIdPartition]
) -> set[TopicIdPartition]:
    """Return the partitions whose topic id the cluster certainly does not have.

    Topics that this user may not describe are not included.

    Args:
        topics: the partitions' topics that this user may describe, by name.
    """
    known = topics.keys() | cluster.absent({each.topic for each in partitions} - topics.keys())
    return {at for at in partitions if at.topic in known and not is_there(topics, at)}


def _unknown(cluster: Cluster, partition: TopicIdPartition, known: Topic | None) -> UnknownToClusterError:
    """Return the error for a partition whose topic id the cluster lacks.

    `known` is the cluster's topic with the partition's topic name; None if there is none.
    """
    there = "no such topic"
    if known is not None:
        there = f"a topic of that name with the topic id {known.topic_id}"
    return UnknownToClusterError(
        f"{partition} has the topic id {partition.topic_id} in remote storage, but {cluster.bootstrap_server} has "
        f"{there}",
        hint="the topic was deleted, or belongs to another cluster; to restore it nevertheless, add --unpublished",
    )


def read_published(
    cluster: Cluster, partitions: Iterable[TopicIdPartition], *, unpublished: bool = False
) -> dict[TopicIdPartition, Published]:
    """Return the newest recorded state of each remote segment, by partition and segment id.

    Args:
        unpublished: if True, return no segments for a topic that the cluster does not have. If False, raise
            UnknownToClusterError.

    Raises:
        UnknownToClusterError: the cluster has no topic of that name, or its topic has another id.
        MetadataTopicAbsentError, BrokerUnavailableError: the records cannot be read.
    """
    wanted = list(partitions)
    topics = cluster.topics({each.topic for each in wanted})
    found: dict[TopicIdPartition, Published] = {}
    left = []
    for each in wanted:
        if is_there(topics, each):
            left.append(each)
        elif unpublished:
            found[each] = {}
        else:
            raise _unknown(cluster, each, topics.get(each.topic))
    if left:
        with MetadataTopic.of(cluster).read(left) as reader:
            cache = reader.read_to_end()
            for each in left:
                found[each] = dict(cache.segments(each))
    return found
