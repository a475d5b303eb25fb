"""Which cluster a partition's objects come from: `cluster.json` beside the partition's snapshots.

    {"version":1,"clusterId":"<22 characters base64url>"}

Neither keys nor manifests of the plugins say it, and a restore must know: producer ids are given out by a cluster and
mean nothing in another. Written by a run before the partition's first segment; segments that a broker tiered have none.
"""

from __future__ import annotations

import json
import logging

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.strict_json import has_version, parse_object
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError

_log = logging.getLogger(__name__)

FORMAT_VERSION = 1
_MOST_BYTES = 4096


def put_cluster_id(store: ObjectStore, keys: ObjectKeys, partition: TopicIdPartition, cluster_id: str) -> None:
    """Say that the partition's segments come from `cluster_id`; said already is fine.

    Raises:
        ObjectExistsError: they come from another cluster: two logs would be mixed under one topic id.
    """
    key = keys.cluster(partition)
    try:
        store.put_if_absent(key, _encode(cluster_id))
    except ObjectExistsError as error:
        raise ObjectExistsError(
            f"{store.uri}{key}: the segments of {partition} there come from another cluster than {cluster_id}",
            hint="tier each cluster to a place of its own: two logs with one topic id cannot be told apart later",
            key=key,
        ) from error
    _log.debug("%s%s: the segments come from cluster %s", store.uri, key, cluster_id)


def read_cluster_id(store: ObjectStore, keys: ObjectKeys, partition: TopicIdPartition) -> str | None:
    """Where the partition's segments come from, None where nobody said it.

    Raises:
        NewerFormatError: a newer tiersnap wrote it.
        CorruptDataError: the object says nothing that makes sense.
    """
    key = keys.cluster(partition)
    try:
        data = store.get_range(key, 0, _MOST_BYTES + 1)
    except ObjectNotFoundError:
        return None
    try:
        found = parse_object(data, name=key, limit=_MOST_BYTES)
    except CorruptDataError:
        found = {}
    is_known, cluster_id = (
        has_version(found.get("version"), FORMAT_VERSION, name=store.uri + key),
        found.get("clusterId"),
    )
    if not is_known or not isinstance(cluster_id, str):
        raise CorruptDataError(
            f"{store.uri}{key}: does not name a cluster: {data[:80]!r}", hint="give the cluster by --cluster-id"
        )
    return cluster_id


def _encode(cluster_id: str) -> bytes:
    return json.dumps({"version": FORMAT_VERSION, "clusterId": cluster_id}, separators=(",", ":")).encode("ascii")
