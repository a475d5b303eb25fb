"""Which of a run's sources lies on the disk of the broker that leads a partition, asked of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.formats.meta_properties import MetaProperties

LEADERS = pa.schema([("log_dir", pa.string()), ("topic", pa.string()), ("partition", pa.int32())])


def leading_replicas(cluster: Cluster, owners: Mapping[str, MetaProperties], topics: Iterable[str]) -> pa.Table:
    """Rows of LEADERS: each partition that is led from the broker of a source, once for each log directory of it.

    Args:
        owners: by source what its `meta.properties` says.

    Raises:
        UsageError: a source is of another cluster.
        BrokerUnavailableError: the cluster does not answer.
    """
    cluster_id = cluster.cluster_id()
    log_dirs: dict[int, list[str]] = {}
    for log_dir, owner in owners.items():
        if owner.cluster_id != cluster_id:
            raise UsageError(
                f"{log_dir} is of the cluster {owner.cluster_id}, and {cluster.bootstrap_server} of {cluster_id}",
                hint="--bootstrap-server names a broker of the cluster that the sources come from",
            )
        if owner.node_id is not None:
            log_dirs.setdefault(owner.node_id, []).append(log_dir)
    rows = [
        {"log_dir": log_dir, "topic": topic.name, "partition": partition}
        for topic in cluster.topics(topics).values()
        for partition, leader in topic.leaders.items()
        for log_dir in log_dirs.get(leader, ())
    ]
    return pa.Table.from_pylist(rows, schema=LEADERS)
