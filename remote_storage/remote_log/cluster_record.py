"""`cluster.json` of a partition: the id of the cluster that wrote its remote segments.

    {"version":1,"clusterId":"<22 characters base64url>"}

A restore needs the cluster id, because producer ids are unique only within a cluster. Neither object keys nor
rsm-manifests contain the cluster id. tiersnap writes the object before it uploads the partition's first segment.
Brokers do not write it.
"""

from __future__ import annotations

import logging

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.stored_json import StoredObject
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.small_object import read_decoded
from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError, ObjectExistsError

_log = logging.getLogger(__name__)


class ClusterRecord(StoredObject, frozen=True, kw_only=True):
    """The content of `cluster.json`."""

    what = "the name of a cluster"
    limit = 4096
    hint = "give the cluster id with --cluster-id"

    cluster_id: str


def put_cluster_id(store: ObjectStore, partition: TopicIdPartition, cluster_id: str) -> None:
    """Write `cluster.json` if it does not exist.

    Raises:
        ObjectExistsError: `cluster.json` names another cluster, so two logs would share one topic id.
        CorruptDataError, NewerFormatError: `cluster.json` cannot be read.
    """
    key = keys.cluster(partition)
    try:
        store.put_if_absent(key, ClusterRecord(cluster_id=cluster_id).encode())
    except ObjectExistsError as error:
        check_cluster_id(store, partition, cluster_id, because=error)
        return
    _log.debug("%s%s: the segments come from cluster %s", store.uri, key, cluster_id)


def check_cluster_id(
    store: ObjectStore, partition: TopicIdPartition, cluster_id: str, *, because: Exception | None = None
) -> None:
    """Raise ObjectExistsError if `cluster.json` names another cluster. See `put_cluster_id` for the other errors.

    Args:
        because: the error of a refused write. If it is given, a missing `cluster.json` also raises ObjectExistsError.
    """
    key = keys.cluster(partition)
    if _recorded(store, partition) not in ((cluster_id,) if because else (cluster_id, None)):
        raise ObjectExistsError(
            f"{store.uri}{key}: the segments of {partition} come from another cluster than {cluster_id}",
            hint="give each cluster a --remote of its own: otherwise tiersnap could not distinguish two logs with the "
            "same topic id",
            key=key,
        ) from because


def _recorded(store: ObjectStore, partition: TopicIdPartition) -> str | None:
    try:
        return read_cluster_id(store, partition)
    except NewerFormatError:
        raise
    except CorruptDataError as error:
        error.hint = "move the object away, then run the same command again: tiersnap writes a new one"
        raise


def read_cluster_id(store: ObjectStore, partition: TopicIdPartition) -> str | None:
    """Return the cluster id in `cluster.json`, or None if the object does not exist.

    Raises like `ClusterRecord.decode`.
    """
    try:
        return read_decoded(store, keys.cluster(partition), ClusterRecord.decode, limit=ClusterRecord.limit).cluster_id
    except ObjectNotFoundError:
        return None
