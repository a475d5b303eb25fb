"""Where the leader epoch lineage of a partition is found: with its leader, or in the leader's log directory.

The leader is asked for its epoch cache, by which its copier looks for remote segments. Where it cannot be asked (SASL
is not spoken here) the `leader-epoch-checkpoint` of its log directory stands for it, `--log-dir`. What the records of a
log carry is no answer: after a restore into another cluster they name epochs that the cache does not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.raw_connection import RawConnection, can_speak
from tiersnap.remote_storage.errors import BrokerUnavailableError, LeaderEpochLineageError, UnknownTopicError
from tiersnap.remote_storage.metadata.leader_epochs import EndOffsetFor, end_offset_for
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.log.log_dir import LogDir, open_log_dir, read_partition

_BEYOND = (1 << 63) - 1


class LeaderLineage(ExitStack):
    """Asks the leaders, one connection each; an epoch once."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._brokers: dict[int, tuple[str, int]] = {}
        self._connections: dict[int, RawConnection] = {}

    def of(self, partition: TopicIdPartition, leader: int) -> EndOffsetFor:
        """How to ask for the epochs of a partition that broker `leader` leads."""

        @cache
        def ask(epoch: int) -> tuple[int, int]:
            return self._connection(leader).end_offset_for(partition.topic, partition.partition, epoch)

        return ask

    def _connection(self, broker: int) -> RawConnection:
        if broker not in self._connections:
            self._brokers = self._brokers or self._cluster.brokers()
            if broker not in self._brokers:
                raise BrokerUnavailableError(
                    f"{self._cluster.bootstrap_server}: broker {broker} is not there, and it is to lead a partition",
                    hint="run the same command again once the partition has a leader",
                )
            host, port = self._brokers[broker]
            self._connections[broker] = self.enter_context(RawConnection(host, port, self._cluster.properties))
        return self._connections[broker]


class LogDirLineage(ExitStack):
    """Reads `leader-epoch-checkpoint`; the log end is not known there and taken to be high enough."""

    def __init__(self, log_dirs: list[LogDir]) -> None:
        super().__init__()
        self._log_dirs = log_dirs

    def of(self, partition: TopicIdPartition, leader: int) -> EndOffsetFor:
        """See LeaderLineage.

        Raises:
            UnknownTopicError: no log directory has the partition, or one of another topic id.
        """
        for log_dir in self._log_dirs:
            if str(partition) in log_dir.folders:
                found = read_partition(log_dir.filesystem, f"{log_dir.path}/{partition}", log_dir.checkpoints)
                if found.topic_id != partition.topic_id:
                    raise UnknownTopicError(
                        f"{found.path}: topic id {found.topic_id}, the cluster's is {partition.topic_id}",
                        hint="--log-dir names a log directory of this cluster",
                    )
                return end_offset_for(found.leader_epochs or (), _BEYOND)
        raise UnknownTopicError(f"{partition} is in no --log-dir", hint="give the leader's log directories")


class UnknownLineage(ExitStack):
    """Of leaders that cannot be asked: whatever is new is refused."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster

    def of(self, partition: TopicIdPartition, leader: int) -> EndOffsetFor:
        """See LeaderLineage; the answer is an error."""

        def refuse(epoch: int) -> tuple[int, int]:
            raise LeaderEpochLineageError(
                f"{partition}: leader {leader} cannot be asked for epoch {epoch} over "
                f"{self._cluster.properties['security.protocol']}: SASL is not spoken here",
                hint="on the leader's host: --log-dir DIR takes the lineage from its leader-epoch-checkpoint",
            )

        return refuse


Lineage = LeaderLineage | LogDirLineage | UnknownLineage


def open_lineage(cluster: Cluster, log_dirs: Iterable[str]) -> Lineage:
    """From the log directories, if there are any, else from the leaders; a context that closes what it opens."""
    found = tuple(log_dirs)
    if found:
        return LogDirLineage([open_log_dir(uri) for uri in found])
    return LeaderLineage(cluster) if can_speak(cluster.properties) else UnknownLineage(cluster)
