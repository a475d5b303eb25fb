"""Compute a digest that changes if brokers restart or change their remote storage settings.

Brokers hide the values of `rsm.config.*` from clients, and read them only at start. A restart of a broker raises the
leader epochs of the partitions that the broker leads. So the digest covers the visible settings and the leader epochs
of `__remote_log_metadata`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC
from tiersnap.remote_storage.publish.storage_manager import BrokerAnswer

_log = logging.getLogger(__name__)


def configuration_digest(cluster: Cluster, topic: MetadataTopic, answers: Iterable[BrokerAnswer]) -> str | None:
    """Return the SHA-256 digest in hex; None if a broker did not answer or a partition has no leader.

    Args:
        topic: `__remote_log_metadata`.
        answers: the answers of `ask_brokers`.
    """
    try:
        epochs = cluster.leader_epochs(METADATA_TOPIC, range(topic.partition_count))
    except (ClusterRefusedError, BrokerUnavailableError) as error:
        _log.debug("leader epochs are not known: %s", error.message)
        return None
    remote = {each.broker: each.remote for each in answers}
    if remote.keys() != cluster.brokers().keys() or any(-1 in each for each in epochs.values()):
        return None
    shown = json.dumps([sorted(remote.items()), sorted(epochs.items())])
    return hashlib.sha256(shown.encode()).hexdigest()
