"""`cluster.json` beside a partition's snapshots: the cluster that its objects come from.

    {"version":1,"clusterId":"<22 characters base64url>"}

Neither keys nor manifests of the plugins say it, and a restore must know: producer ids are given out by a cluster and
mean nothing in another. Written by a run before the partition's first segment; segments that a broker tiered have none.
"""

from __future__ import annotations

import logging

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.own_objects import stored_json
from tiersnap.remote_storage.own_objects.stored_json import StoredObject
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.small_object import read_decoded
from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError, ObjectExistsError

_log = logging.getLogger(__name__)

_MOST_BYTES = 4096


def put_cluster_id(store: ObjectStore, partition: TopicIdPartition, cluster_id: str) -> None:
    """Say that the partition's segments come from `cluster_id`; said already is fine.

    Raises:
        ObjectExistsError: they come from another cluster: two logs would be mixed under one topic id.
        CorruptDataError, NewerFormatError: what is said there cannot be read.
    """
    key = keys.cluster(partition)
    try:
        store.put_if_absent(key, stored_json.encode(_StoredCluster(cluster_id=cluster_id)))
    except ObjectExistsError as error:
        check_cluster_id(store, partition, cluster_id, because=error)
        return
    _log.debug("%s%s: the segments come from cluster %s", store.uri, key, cluster_id)


def check_cluster_id(
    store: ObjectStore, partition: TopicIdPartition, cluster_id: str, *, because: Exception | None = None
) -> None:
    """See that no other cluster than `cluster_id` is recorded; raises as `put_cluster_id`."""
    key = keys.cluster(partition)
    if _recorded(store, partition) not in (cluster_id, None):
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
    """Return the id of the partition's cluster, None if nobody recorded it; raises as `stored_json.decode`."""
    try:
        return read_decoded(store, keys.cluster(partition), _decode, limit=_MOST_BYTES)
    except ObjectNotFoundError:
        return None


def _decode(data: bytes, *, name: str) -> str:
    hint, what = "give the cluster by --cluster-id", "the name of a cluster"
    return stored_json.decode(data, _StoredCluster, name=name, what=what, limit=_MOST_BYTES, hint=hint).cluster_id


class _StoredCluster(StoredObject, frozen=True, kw_only=True):
    cluster_id: str
