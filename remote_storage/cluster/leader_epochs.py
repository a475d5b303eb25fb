"""Where the leader epoch lineage of a partition is found: with its leader, or in the leader's log directory.

The leader is asked for its epoch cache, by which its copier looks for remote segments. Where it cannot be asked (SASL
is not spoken here) the `leader-epoch-checkpoint` of its log directory stands for it, `--log-dir`. What the records of a
log carry is no answer: after a restore into another cluster they name epochs that the cache does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.raw_connection import RawConnection, can_speak
from tiersnap.remote_storage.errors import BrokerUnavailableError, LeaderEpochLineageError, UnknownTopicError
from tiersnap.remote_storage.metadata.leader_epochs import EndOffsetFor, end_offset_for
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.log.log_dir import LogDir, open_log_dir, read_partition

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
    """Of leaders that cannot be asked: whatever is new is refused."""

    def refuse(epoch: int) -> tuple[int, int]:
        raise LeaderEpochLineageError(
            f"{partition}: leader {leader} cannot be asked for epoch {epoch} over "
            f"{cluster.properties['security.protocol']}: SASL is not spoken here",
            hint="on the leader's host: --log-dir DIR takes the lineage from its leader-epoch-checkpoint",
        )

    return refuse
