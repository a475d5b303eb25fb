"""What a cluster has published of a partition's remote segments decides which copies there are to restore.

A topic that was deleted is not brought back from objects that its cluster has not removed yet, nor a partition from
objects that its cluster knows nothing of; and a segment that was published and is not in the store is missing, even if
no object of it is left to say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.errors import DeletedByClusterError, UnknownToClusterError
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.presence.copies import UnusableCopy
from tiersnap.remote_storage.restore.remote_copies import RemotePartition
from tiersnap.snapshot.units import count_of

Published = Mapping[str, RemoteLogSegmentMetadata]
_DELETED = (SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED)


def read_published(cluster: Cluster, partitions: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, Published]:
    """The newest state of every remote segment that the cluster knows of these partitions, by segment id.

    Raises:
        UnknownToClusterError: the cluster has no such topic, or another one of that name.
        MetadataTopicAbsentError, BrokerUnavailableError: it cannot be asked.
    """
    wanted = list(partitions)
    topics = cluster.topics({each.topic for each in wanted})
    for each in wanted:
        known = topics.get(each.topic)
        if known is None or known.topic_id != each.topic_id:
            there = "no such topic" if known is None else f"a topic of that name with the id {known.topic_id}"
            raise UnknownToClusterError(
                f"{each} with the topic id {each.topic_id}: {cluster.bootstrap_server} has {there}",
                hint="it was deleted there, or comes from another cluster; to restore it all the same leave out "
                "--bootstrap-server",
            )
    with MetadataTopic.of(cluster).read(wanted) as reader:
        cache = reader.read_to_end()
        return {each: dict(cache.segments(each)) for each in wanted}


def as_published(remote: RemotePartition, published: Published) -> RemotePartition:
    """The copies that the cluster has not deleted; what it has published beyond them is unusable.

    Raises:
        DeletedByClusterError: all of them are published as deleted.
        UnknownToClusterError: none of them was ever published.
    """
    gone = {segment_id for segment_id, known in published.items() if known.state in _DELETED}
    there = {copy.segment_id for copy in remote.copies} | {each.segment_id for each in remote.unusable}
    if not published.keys() & there:
        raise UnknownToClusterError(
            f"{remote.partition}: the cluster has published none of {count_of(len(there), 'segment')} in the store",
            hint="tiersnap publish tells it of them; to restore them all the same leave out --bootstrap-server",
        )
    if published.keys() & there <= gone:
        raise DeletedByClusterError(
            f"{remote.partition}: its remote segments are published as deleted",
            hint="the topic was deleted, or retention took all of it; to restore what is left of the objects all the "
            "same leave out --bootstrap-server",
        )
    lost = [
        UnusableCopy(segment_id, known.start_offset, "published as finished, and not in the store")
        for segment_id, known in published.items()
        if known.state is SegmentState.COPY_SEGMENT_FINISHED and segment_id not in there
    ]
    left = tuple(each for each in remote.unusable if each.segment_id not in gone)
    return replace(
        remote,
        copies=tuple(copy for copy in remote.copies if copy.segment_id not in gone),
        unusable=tuple(sorted((*left, *lost), key=lambda each: (each.start_offset, each.segment_id))),
    )
