"""What killed processes left that no reader ever sees: multipart uploads, temporary files, probes of the store.

No record can tell of them, so what shows that they are ours is enough: a claim that names the attempt, the mark in a
file's name, the prefix of our probes. A plugin's uploads are under way in the same bucket, and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.orphans.judge import Aged, Fate, Orphan, OrphanKind
from tiersnap.remote_storage.orphans.stored import StoredPartition, list_stored, read_claims
from tiersnap.remote_storage.stores.object_store import ObjectStore, UnfinishedUpload


def unfinished(
    store: ObjectStore, keys: ObjectKeys, aged: Aged, cluster_id: str, is_wanted: Callable[[str], bool]
) -> Iterator[Orphan]:
    """Old ones of the topics that `is_wanted` takes and, of this cluster or of none that is named; and of no topic."""
    for probe in store.list(keys.probes):
        if aged.is_old(probe.modified):
            yield Orphan(OrphanKind.PROBE, Fate.REMOVE, "a probe of the store", (probe.key,), probe.size)
    partitions: dict[TopicIdPartition, StoredPartition] = {}
    for upload in store.unfinished_uploads():
        if upload.age <= aged.older_than:
            continue
        if upload.is_ours:
            yield Orphan(OrphanKind.FILE, Fate.REMOVE, "a killed process left it", (upload.key,), upload=upload)
            continue
        key = keys.recognise(upload.key)
        if key is None or key.offset is None or key.segment_id is None or not is_wanted(key.partition.topic):
            continue
        if key.partition not in partitions:
            partitions[key.partition] = list_stored(store, keys, key.partition)
        stored = partitions[key.partition]
        claims = read_claims(store, keys, stored, frozenset({key.offset}))
        yield _of_segment(upload, stored, cluster_id, key.segment_id, is_named=key.segment_id in claims)


def _of_segment(
    upload: UnfinishedUpload, stored: StoredPartition, cluster_id: str, segment_id: str, *, is_named: bool
) -> Orphan:
    action, reason = Fate.REMOVE, "a killed attempt left it"
    if not is_named:
        action, reason = Fate.LEAVE, "no claim of ours names it"
    elif stored.cluster_id not in (None, cluster_id):
        action, reason = Fate.REFUSE, f"it comes from the cluster {stored.cluster_id}, this one is {cluster_id}"
    return Orphan(OrphanKind.UPLOAD, action, reason, (upload.key,), 0, stored.partition, segment_id, upload)
