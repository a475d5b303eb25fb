"""A location from which brokers of a model cluster have read a record back, without the read-back."""

from __future__ import annotations

from tests.reference.model_cluster import CLUSTER_ID, ModelCluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.locks.read_back_record import ReadBackStore
from tiersnap.remote_storage.publish.broker_configuration import configuration_digest
from tiersnap.remote_storage.publish.storage_manager import ask_brokers
from tiersnap.remote_storage.stores.object_store import ObjectStore


def keep_proof(cluster: ModelCluster, store: ObjectStore) -> None:
    """Leave in a store in memory what a read-back leaves there."""
    digest = configuration_digest(cluster, MetadataTopic.of(cluster), ask_brokers(cluster))
    assert digest is not None
    ReadBackStore(store, CLUSTER_ID, "").keep(digest)
