"""Which copies of a partition are whole now, whatever claims say of them: what brokers can read."""

from __future__ import annotations

from collections.abc import Collection

from tiersnap.remote_storage.inventory.attempts import group
from tiersnap.remote_storage.inventory.remote_segment import RemoteCopy, read_copy
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore


def complete_segments(
    store: ObjectStore, keys: ObjectKeys, partition: TopicIdPartition, segment_ids: Collection[str], *, local: bool
) -> frozenset[str]:
    """Those of `segment_ids` whose objects are all there; one listing, and a look into each that seems to be.

    Args:
        local: whether they lie as LocalTieredStorage lays them; else as Aiven's plugin does.
    """
    attempts = group(keys, store.list(keys.partition_segments(partition, local=local)), local=local)
    return frozenset(
        each.segment_id
        for each in attempts.get(partition, ())
        if each.segment_id in segment_ids and isinstance(read_copy(store, partition, each), RemoteCopy)
    )
