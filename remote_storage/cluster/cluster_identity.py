"""Whether log directories are of the cluster that is asked."""

from __future__ import annotations

from collections.abc import Mapping

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.formats.meta_properties import MetaProperties


def check_cluster(cluster: Cluster, owners: Mapping[str, MetaProperties]) -> None:
    """Refuse a cluster that log directories are not of.

    Args:
        owners: by log directory what its `meta.properties` says.

    Raises:
        UsageError: one of them is of another cluster.
        BrokerUnavailableError: the cluster does not answer.
    """
    cluster_id = cluster.cluster_id()
    for log_dir, owner in owners.items():
        if owner.cluster_id != cluster_id:
            raise UsageError(
                f"{log_dir} is of the cluster {owner.cluster_id}, and {cluster.bootstrap_server} of {cluster_id}",
                hint="--bootstrap-server names a broker of the cluster that the sources come from",
            )
