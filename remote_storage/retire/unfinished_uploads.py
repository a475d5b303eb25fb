"""Unfinished uploads, temporary files and probes of the store as orphans: what every run removes, and what is refused.

store_leftovers finds them. Here a cluster was asked, so an upload of a partition of another cluster is refused, and
a plugin's is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.retire.orphans import Aged, Orphan
from tiersnap.remote_storage.retire.outcomes import Fate, OrphanKind
from tiersnap.remote_storage.retire.store_leftovers import (
    UploadOfSegment,
    old_probes,
    old_uploads,
    uploads_of_segments,
)
from tiersnap.remote_storage.stored.cluster_record import read_cluster_id
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError


def unfinished(
    store: ObjectStore, keys: ObjectKeys, aged: Aged, cluster_id: str, is_wanted: Callable[[str], bool]
) -> Iterator[Orphan]:
    """Those of the topics that `is_wanted` takes, of this cluster or of none that is named; and of no topic.

    Those that are too young are named as such; a plugin's are not, since they may be under way.
    """
    for probe in old_probes(store, keys, aged.now, -1):
        orphan = Orphan(OrphanKind.PROBE, Fate.REMOVE, "a probe of the store", (probe.key,), probe.size)
        yield orphan if aged.is_old(probe.modified) else aged.waiting(orphan, probe.modified)
    others = []
    for upload in old_uploads(store, -1):
        if upload.is_ours:
            orphan = Orphan(OrphanKind.FILE, Fate.REMOVE, "a killed process left it", (upload.key,), upload=upload)
            yield orphan if upload.age > aged.older_than else aged.waiting(orphan, upload.started)
        else:
            others.append(upload)
    for each in uploads_of_segments(store, keys, others, is_wanted):
        orphan = _of_segment(store, keys, each, cluster_id)
        if each.upload.age > aged.older_than:
            yield orphan
        elif orphan.action is Fate.REMOVE:
            yield aged.waiting(orphan, each.upload.started)


def _of_segment(store: ObjectStore, keys: ObjectKeys, each: UploadOfSegment, cluster_id: str) -> Orphan:
    action, reason = Fate.REMOVE, "a killed attempt left it"
    if each.claim is None:
        action, reason = Fate.LEAVE, "no claim of ours names it"
    elif (theirs := _cluster_id(store, keys, each)) not in (None, cluster_id):
        action, reason = Fate.REFUSE, f"it comes from the cluster {theirs}, this one is {cluster_id}"
    return Orphan(
        OrphanKind.UPLOAD, action, reason, (each.upload.key,), 0, each.partition, each.segment_id, each.upload
    )


def _cluster_id(store: ObjectStore, keys: ObjectKeys, each: UploadOfSegment) -> str | None:
    try:
        return read_cluster_id(store, keys, each.partition)
    except CorruptDataError:
        return None
