"""Ask the cluster which of a run's sources lies on the disk of a partition's leader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copy_tasks import check_cluster
from tiersnap.snapshot.errors import TiersnapError, TransientError, UnfinishedError
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.tables.schemas import schema_of

LEADERS = schema_of(
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("leader", pa.int32()),  # a broker's id, -1 where the partition has no leader
    ("log_dirs", pa.list_(pa.string())),  # the sources that are that broker's
)


def leading_replicas(cluster: Cluster, owners: Mapping[str, MetaProperties], topics: Iterable[str]) -> pa.Table:
    """Rows of LEADERS, one for each partition that the cluster has of `topics`.

    Args:
        owners: by source what its `meta.properties` says.

    Raises:
        UsageError: a source is of another cluster.
        BrokerUnavailableError: the cluster does not answer.
    """
    check_cluster(cluster, owners)
    log_dirs: dict[int, list[str]] = {}
    for log_dir, owner in owners.items():
        if owner.node_id is not None:
            log_dirs.setdefault(owner.node_id, []).append(log_dir)
    rows = [
        {"topic": topic.name, "partition": partition, "leader": leader, "log_dirs": log_dirs.get(leader, [])}
        for topic in cluster.topics(topics).values()
        for partition, leader in topic.leaders.items()
    ]
    return pa.Table.from_pylist(rows, schema=LEADERS)


def unled_error(name: str, replica_count: int, leader: int | None) -> TiersnapError:
    """Return the error about a partition with several replicas, none of which is known to lead.

    Args:
        leader: a broker's id, -1 where the partition has none, None where the cluster does not know the partition.
    """
    which = f"which of its {replica_count} replicas counts nobody knows, and it is left alone"
    if leader is None:
        return UnfinishedError(
            f"{name}: the cluster has no such partition; {which}",
            hint="leave the topic out with --topic, or say with --leader LOGDIR which replica counts",
        )
    if leader < 0:
        return TransientError(
            f"{name}: it has no leader now; {which}",
            hint="run the same command again once it has one, or say with --leader LOGDIR which replica counts",
        )
    return UnfinishedError(
        f"{name}: broker {leader} leads it, and no source is a log directory of that broker; {which}",
        hint="give that log directory as --source, too, or say with --leader LOGDIR which replica counts",
    )
