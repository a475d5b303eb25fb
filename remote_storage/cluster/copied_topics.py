"""Find in the topic configs which topics brokers copy, and for which topics tiersnap paused copying."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.read_records import partitions_of
from tiersnap.remote_storage.cluster.topic_checks import is_copied, is_marked, is_tiered
from tiersnap.remote_storage.cluster.topics import TopicConfig, led_partitions
from tiersnap.remote_storage.errors import ClusterRefusedError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, name_of
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, read_properties
from tiersnap.snapshot.log.selection import NamedLogDir, named


@dataclass(frozen=True, slots=True)
class CopiedTopics:
    """The copied topics and the paused topics of a cluster, as far as this user may describe them."""

    leaders: Mapping[TopicIdPartition, int]  # broker ids, of the partitions that brokers copy and that have a leader
    topic_ids: Mapping[str, str]  # topic ids by topic name, of tiered topics and of `marked`
    marked: frozenset[str]  # names of the topics whose configs have the mark of a pause

    def led_here(self, log_dirs: Sequence[NamedLogDir]) -> dict[TopicIdPartition, tuple[FileSystem, Partition]]:
        """Return the copied partitions that the broker of the log directories leads, with their local files.

        If a log directory has no `meta.properties`, its broker is unknown, and all its copied partitions are returned.
        """
        found = {}
        for each in log_dirs:
            log_dir = each.log_dir
            owner = read_properties(log_dir.filesystem, log_dir.path)
            led = set()
            for at, leader in self.leaders.items():
                if owner is None or leader == owner.node_id:
                    led.add((at.topic, at.partition))
            for partition in named(log_dir, led):
                name = name_of(partition)
                if name in self.leaders:
                    found[name] = log_dir.filesystem, partition
        return found


def ask_topics(cluster: Cluster, log_dirs: Sequence[NamedLogDir], records: MetadataCache) -> CopiedTopics:
    """Return the copied and paused topics among the topics in `log_dirs` and `records`. Needs one request per topic.

    If `log_dirs` is empty, all topics of the cluster are examined.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
    """
    names = {each.topic for each in records.partitions()}
    if log_dirs:
        names.update(topic for topic, _ in partitions_of(log_dirs))
    else:
        names.update(cluster.partition_counts())
    topics = cluster.topics(names)
    configs = configs_of(cluster, topics)
    copied: list[TopicPartition] = []
    topic_ids: dict[str, str] = {}
    marked: set[str] = set()
    for name, settings in configs.items():
        if is_copied(settings):
            copied += product([name], topics[name].leaders)
        if is_marked(settings):
            marked.add(name)
        if is_marked(settings) or is_tiered(settings):
            topic_ids[name] = topics[name].topic_id
    return CopiedTopics(led_partitions(topics, copied), topic_ids, frozenset(marked))


def configs_of(cluster: Cluster, topics: Iterable[str]) -> dict[str, Mapping[str, TopicConfig]]:
    """Return the configs of the topics that this user may describe, by topic name. Needs one request per topic."""

    def describe(topic: str) -> Mapping[str, TopicConfig] | None:
        try:
            return cluster.settings(topic)
        except ClusterRefusedError:
            return None

    names = list(topics)
    asked = zip(names, in_parallel(describe, names), strict=True)
    return {name: settings for name, settings in asked if settings is not None}
