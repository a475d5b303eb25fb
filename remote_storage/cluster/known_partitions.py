"""Read a cluster's records of partitions, for commands that restore or delete remote segments.

The leader epoch lineage is asked of the leader, whose copier looks for remote segments by it. If it cannot be asked
(SASL is not spoken here), the `leader-epoch-checkpoint` of its log directory stands for it, `--log-dir`. The records of
a log are no answer: after a restore into another cluster they name epochs that the cache does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial

from tiersnap.remote_storage.cluster.client import Cluster, Topic, leaders_of
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.raw_connection import RawConnection, can_speak
from tiersnap.remote_storage.errors import (
    BrokerUnavailableError,
    LeaderEpochLineageError,
    UnknownToClusterError,
    UnknownTopicError,
)
from tiersnap.remote_storage.metadata.segment_metadata import EndOffsetFor, TopicIdPartition, end_offset_for
from tiersnap.remote_storage.restore.published import Published
from tiersnap.remote_storage.retire.known_to_cluster import Ask, KnownPartition
from tiersnap.snapshot.log.log_dir import LogDir, open_log_dir, read_partition


class ClusterRecords:
    """A cluster's records of partitions: a KnownToCluster.

    Raises:
        MetadataTopicAbsentError, BrokerUnavailableError: it cannot be asked.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topic = MetadataTopic.of(cluster)
        self.cluster_id = cluster.cluster_id()

    @contextmanager
    def reading(self, partitions: Iterable[TopicIdPartition]) -> Iterator[Ask]:
        """See KnownToCluster."""
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
        found = {
            each: KnownPartition(
                each,
                self.cluster_id,
                dict(cache.segments(each)),
                frozenset(cache.doubtful),
                reader.log_starts[self._topic.partition_of(each)],
                starts.get(each, 0) if each in live else None,
                live.get(each, 0) >= 0,
            )
            for each in wanted
        }
        return self._with_absent(found, topics)

    def _with_absent(
        self, found: Mapping[TopicIdPartition, KnownPartition], topics: Mapping[str, Topic]
    ) -> dict[TopicIdPartition, KnownPartition]:
        """The same, told which of those with records that are not deleted are certainly of a topic that is gone."""
        doubtful = [at for at, known in found.items() if not known.is_live and known.has_undeleted]
        absent = self._cluster.absent({each.topic for each in doubtful} - topics.keys())
        made_anew = {at for at in doubtful if at.topic in topics and topics[at.topic].topic_id != at.topic_id}
        gone = made_anew.union(at for at in doubtful if at.topic in absent)
        return {at: replace(known, is_absent=at in gone) for at, known in found.items()}


def read_published(
    cluster: Cluster, partitions: Iterable[TopicIdPartition], *, unpublished: bool = False
) -> dict[TopicIdPartition, Published]:
    """The newest state of every remote segment that the cluster knows of these partitions, by segment id.

    Args:
        unpublished: of a topic that the cluster does not have nothing is published, and that is no error.

    Raises:
        UnknownToClusterError: the cluster has no such topic, or another one of that name.
        MetadataTopicAbsentError, BrokerUnavailableError: it cannot be asked.
    """
    wanted = list(partitions)
    topics = cluster.topics({each.topic for each in wanted})
    absent = set()
    for each in wanted:
        known = topics.get(each.topic)
        if known is not None and known.topic_id == each.topic_id:
            continue
        if not unpublished:
            there = "no such topic" if known is None else f"a topic of that name with the id {known.topic_id}"
            raise UnknownToClusterError(
                f"{each} with the topic id {each.topic_id}: {cluster.bootstrap_server} has {there}",
                hint="it was deleted there, or comes from another cluster; --unpublished restores it all the same",
            )
        absent.add(each)
    found: dict[TopicIdPartition, Published] = {each: {} for each in absent}
    left = [each for each in wanted if each not in absent]
    if left:
        with MetadataTopic.of(cluster).read(left) as reader:
            cache = reader.read_to_end()
            found |= {each: dict(cache.segments(each)) for each in left}
    return found


_BEYOND = (1 << 63) - 1


Lineage = Callable[[TopicIdPartition, int], EndOffsetFor]
"""Given a partition and the broker that leads it: how to ask for its epochs."""


@contextmanager
def open_lineage(cluster: Cluster, log_dirs: Iterable[str]) -> Iterator[Lineage]:
    """Ask log directories, if there are any, else the leaders; closes what it opens.

    The lineage raises UnknownTopicError if no log directory has the partition, or one of another topic id.
    """
    opened = [open_log_dir(uri) for uri in log_dirs]
    if opened:
        yield partial(_of_log_dirs, opened)
    elif can_speak(cluster.properties):
        with ExitStack() as connections:
            yield _Leaders(cluster, connections).of
    else:
        yield partial(_of_nobody, cluster)


@dataclass
class _Leaders:
    """Asks the leaders, one connection each; an epoch once."""

    cluster: Cluster
    stack: ExitStack
    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    connections: dict[int, RawConnection] = field(default_factory=dict)

    def of(self, partition: TopicIdPartition, leader: int) -> EndOffsetFor:
        """See Lineage."""
        return cache(lambda epoch: self._connection(leader).end_offset_for(partition.topic, partition.partition, epoch))

    def _connection(self, broker: int) -> RawConnection:
        if broker not in self.connections:
            self.brokers = self.brokers or self.cluster.brokers()
            if broker not in self.brokers:
                raise BrokerUnavailableError(
                    f"{self.cluster.bootstrap_server}: broker {broker} is not there, and it is to lead a partition",
                    hint="run the same command again once the partition has a leader",
                )
            connection = RawConnection(*self.brokers[broker], self.cluster.properties)
            self.connections[broker] = self.stack.enter_context(connection)
        return self.connections[broker]


def _of_log_dirs(log_dirs: Iterable[LogDir], partition: TopicIdPartition, leader: int) -> EndOffsetFor:
    """Read `leader-epoch-checkpoint`; the log end is not known there and taken to be high enough."""
    for log_dir in log_dirs:
        if str(partition) in log_dir.folders:
            found = read_partition(log_dir.filesystem, f"{log_dir.path}/{partition}", log_dir.checkpoints)
            if found.topic_id != partition.topic_id:
                raise UnknownTopicError(
                    f"{found.path}: topic id {found.topic_id}, the cluster's is {partition.topic_id}",
                    hint="--log-dir names a log directory of this cluster",
                )
            return end_offset_for(found.leader_epochs or (), _BEYOND)
    raise UnknownTopicError(f"{partition} is in no --log-dir", hint="give the leader's log directories")


def _of_nobody(cluster: Cluster, partition: TopicIdPartition, leader: int) -> EndOffsetFor:
    """Return an answer for leaders that cannot be asked: new segments are refused."""

    def refuse(epoch: int) -> tuple[int, int]:
        raise LeaderEpochLineageError(
            f"{partition}: leader {leader} cannot be asked for epoch {epoch} over "
            f"{cluster.properties['security.protocol']}: SASL is not spoken here",
            hint="on the leader's host: --log-dir DIR takes the lineage from its leader-epoch-checkpoint",
        )

    return refuse
