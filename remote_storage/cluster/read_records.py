"""Read from a cluster's `__remote_log_metadata` the records of partitions in log directories."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.topics import with_ids_of
from tiersnap.remote_storage.errors import MetadataTopicAbsentError
from tiersnap.remote_storage.metadata.recorded import recorded
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.log_dir import split_folder_name
from tiersnap.snapshot.log.selection import NamedLogDir, matches_topic
from tiersnap.snapshot.replay.remote_records import Records


def partitions_of(log_dirs: Iterable[NamedLogDir], topic: re.Pattern[str] | None = None) -> set[TopicPartition]:
    """Return the partitions in log directories. `topic` matches the names of topics; None matches all."""
    found = set()
    for each in log_dirs:
        for folder in each.log_dir.folders:
            name = split_folder_name(folder)
            if name is not None and matches_topic(name[0], topic):
                found.add(name)
    return found


def with_topic_ids(cluster: Cluster, partitions: Iterable[TopicPartition]) -> list[TopicIdPartition]:
    """Return the partitions whose topics the cluster has, with the cluster's topic ids."""
    wanted = list(partitions)
    topics = cluster.topics({topic for topic, _ in wanted})
    return with_ids_of(topics, wanted)


def records_read(topic: MetadataTopic, reader: MetadataReader, partitions: Iterable[TopicIdPartition]) -> Records:
    """Return the records of the partitions from the cache of `reader`."""
    found = {}
    for each in partitions:
        is_complete = not reader.log_starts[topic.partition_of(each)]
        found[each.topic, each.partition] = recorded(reader.cache, each, is_complete=is_complete)
    return found


def read_records(cluster: Cluster, log_dirs: Iterable[NamedLogDir]) -> Records | None:
    """Return the records of the partitions in log directories, or None if the cluster has no `__remote_log_metadata`.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    partitions = with_topic_ids(cluster, partitions_of(log_dirs))
    try:
        topic = MetadataTopic.of(cluster)
    except MetadataTopicAbsentError:
        return None
    with topic.read(partitions) as reader:
        reader.read_to_end()
        return records_read(topic, reader, partitions)
