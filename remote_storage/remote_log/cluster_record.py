"""`cluster.json` of a partition: the cluster that its remote segments come from.

    {"version":1,"clusterId":"<22 characters base64url>"}

A restore must know the cluster, because a producer id is unique in one cluster only. Neither the keys nor the manifests
of the plugins contain it. A run writes the object before the partition's first segment; a broker writes none.
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
    hint = "give the cluster by --cluster-id"

    cluster_id: str


def put_cluster_id(store: ObjectStore, partition: TopicIdPartition, cluster_id: str) -> None:
    """Record that the partition's segments come from `cluster_id`, unless that is recorded already.

    Raises:
        ObjectExistsError: another cluster is recorded, so two logs would be mixed under one topic id.
        CorruptDataError, NewerFormatError: the record cannot be read.
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
    """See that no other cluster than `cluster_id` is recorded; raises as `put_cluster_id`.

    Args:
        because: the refusal of a new record; then one must be there.
    """
    key = keys.cluster(partition)
    if _recorded(store, partition) not in ((cluster_id,) if because else (cluster_id, None)):
        raise ObjectExistsError(
            f"{store.uri}{key}: the segments of {partition} there come from another cluster than {cluster_id}",
            hint="tier each cluster to a place of its own: two logs with one topic id cannot be told apart later",
            key=key,
        ) from because


def _recorded(store: ObjectStore, partition: TopicIdPartition) -> str | None:
    try:
        return read_cluster_id(store, partition)
    except NewerFormatError:
        raise
    except CorruptDataError as error:
        error.hint = "move it away, then run the same command again, which writes it anew"
        raise


def read_cluster_id(store: ObjectStore, partition: TopicIdPartition) -> str | None:
    """Return the id of the partition's cluster, None without a record; raises as `ClusterRecord.decode`."""
    try:
        return read_decoded(store, keys.cluster(partition), ClusterRecord.decode, limit=ClusterRecord.limit).cluster_id
    except ObjectNotFoundError:
        return None
