"""Find topics that have segments in a remote location, but certainly do not exist in the cluster.

No broker will delete the segments of these topics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.cluster_records import certainly_gone
from tiersnap.remote_storage.cluster.unused_topic import UnusedTopic
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import read_cluster_id
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError


def find_unused(store: ObjectStore, cluster: Cluster) -> list[UnusedTopic]:
    """Return the topics that have segments in `store` but certainly do not exist in the cluster.

    They are sorted by name and id.

    If a `cluster.json` object of a topic names another cluster or cannot be read, the topic is not returned. The
    search needs two listings. For each candidate it lists the `cluster.json` objects, and reads them.
    """
    folders = _topic_folders(store)  # list first: a topic with segments then exists when the cluster is asked
    topics = cluster.topics({each.topic for each in folders})
    gone = sorted(certainly_gone(cluster, topics, folders), key=lambda each: (each.topic, each.topic_id or ""))
    cluster_id = cluster.cluster_id()
    unused = []
    for at in gone:
        if not _is_of_another(store, at, cluster_id):
            uris = [store.uri + folder for folder in folders[at]]
            unused.append(UnusedTopic(at.topic, at.topic_id or "", uris))
    return unused


def _topic_folders(store: ObjectStore) -> dict[TopicIdPartition, Sequence[str]]:
    found: dict[TopicIdPartition, list[str]] = defaultdict(list)
    for folder in chain(store.folders(), store.folders(f"{keys.LOCAL_TIERED_STORAGE}/")):
        at = keys.topic_of_folder(folder)
        if at is not None:
            found[at].append(folder)
    return dict(found)


def _is_of_another(store: ObjectStore, topic: TopicIdPartition, cluster_id: str) -> bool:
    """Return whether a `cluster.json` of the topic names another cluster, or cannot be read."""
    for folder in store.folders(keys.partition_snapshots(topic).removesuffix(f"{topic.partition}/")):
        key = keys.recognise(folder + KeyKind.CLUSTER.value)
        try:
            if key is not None and read_cluster_id(store, key.partition) not in (cluster_id, None):
                return True
        except CorruptDataError:
            return True
    return False
