"""Check that a cluster has the requested topics, and that their configs allow the publication of segments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.permissions import not_described
from tiersnap.remote_storage.cluster.topics import Topic, TopicConfig
from tiersnap.remote_storage.errors import (
    CopyingOffError,
    CopyingOnError,
    SettingsAsideError,
    TieringOffError,
    UnknownTopicError,
)
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.metadata.topic_configs import (
    COPY_DISABLE,
    LOCAL_RETENTION,
    MARK,
    REMOTE_STORAGE,
    RETENTION,
    RETENTION_MS,
    UNLIMITED,
)
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.units import count_of


def value_of(settings: Mapping[str, TopicConfig], name: str, default: str) -> str:
    """Return the value of a config, or `default` if this Kafka version does not have the config."""
    setting = settings.get(name)
    if setting is None or setting.value is None:
        return default
    return setting.value


def is_copying_off(settings: Mapping[str, TopicConfig]) -> bool:
    """Return whether copying is disabled for the topic."""
    return value_of(settings, COPY_DISABLE, "false") == "true"


def is_tiered(settings: Mapping[str, TopicConfig]) -> bool:
    """Return whether remote storage is enabled for the topic."""
    return value_of(settings, REMOTE_STORAGE, "false") == "true"


def is_copied(settings: Mapping[str, TopicConfig]) -> bool:
    """Return whether brokers copy the topic's segments to remote storage."""
    is_compacted = "compact" in value_of(settings, "cleanup.policy", "delete")
    return is_tiered(settings) and not is_compacted and not is_copying_off(settings)


def is_marked(settings: Mapping[str, TopicConfig]) -> bool:
    """Return whether the topic has the mark of a pause: tiersnap has set `retention.ms` to the value MARK."""
    retention = settings.get(RETENTION_MS)
    return retention is not None and retention.is_own and retention.value == MARK


def check_copying_was_not_switched_off(topic: str, settings: Mapping[str, TopicConfig], by_us: Collection[str]) -> None:
    """Check that no other user disabled copying, and that the saved configs of an earlier pause exist.

    Args:
        by_us: names of the configs that an earlier run overrode and did not restore.

    Raises:
        CopyingOffError: another user disabled copying.
        SettingsAsideError: tiersnap paused copying, and the topic's saved configs are missing.
    """
    if is_marked(settings) and RETENTION_MS not in by_us:
        earlier = ",".join(f"{name}=VALUE" for name in (COPY_DISABLE, *RETENTION, *LOCAL_RETENTION))
        raise SettingsAsideError(
            f"{topic}: {RETENTION_MS}={MARK} shows that tiersnap changed the topic's configs, but the saved "
            "configs in remote storage are missing",
            hint=f"restore the earlier values: kafka-configs --alter --topic {topic} --add-config {earlier}; "
            "then run the same command again",
        )
    if is_copying_off(settings) and COPY_DISABLE not in by_us:
        raise CopyingOffError(
            f"{topic}: another user or program set {COPY_DISABLE}=true: the topic does not have "
            f"{RETENTION_MS}={MARK}, which tiersnap sets when it disables copying",
            hint=f"to enable copying: kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=false; then "
            "run the same command again. To publish while copying is disabled: set unlimited retention, then tiersnap "
            "publish",
        )


def check_selected(cluster: Cluster, topic: re.Pattern[str]) -> None:
    """Check that --topic matches a topic of the cluster.

    Otherwise a mistyped name would look like a cluster without problems.

    Raises:
        UsageError: the regular expression matches no whole topic name.
    """
    if not any(matches_topic(name, topic) for name in cluster.partition_counts()):
        raise UsageError(
            f"{cluster.bootstrap_server}: no topic name matches {topic.pattern!r}",
            hint="--topic must match the whole name of a topic, and this user needs the permission to DESCRIBE the "
            "topic",
        )


def check_identity(partition: TopicIdPartition, topics: Mapping[str, Topic], hidden: Collection[str]) -> None:
    """Check that the cluster has the partition, and that its topic id in the cluster is `partition.topic_id`.

    Args:
        topics: the topics that the cluster describes.
        hidden: names of topics that this user may not describe.

    Raises:
        ClusterRefusedError: this user may not describe the topic.
        UnknownTopicError: the cluster lacks the topic or the partition, or the topic has another id.
    """
    topic = topics.get(partition.topic)
    if topic is None and partition.topic in hidden:
        raise not_described(str(partition), partition.topic)
    if topic is None:
        raise UnknownTopicError(
            f"{partition}: the cluster has no topic {partition.topic}",
            hint="check that --bootstrap-server is a broker of the cluster that wrote this log",
        )
    if topic.topic_id != partition.topic_id:
        raise UnknownTopicError(
            f"{partition}: the topic id is {topic.topic_id} in the cluster, but {partition.topic_id} in remote storage",
            hint="the topic was deleted and created again, or --bootstrap-server belongs to another cluster: the "
            "segments do not belong to the topic in the cluster",
        )
    if partition.partition not in topic.leaders:
        raise UnknownTopicError(
            f"{partition}: the topic has only {count_of(len(topic.leaders), 'partition')}",
            hint="check that --bootstrap-server is a broker of the cluster that wrote this log",
        )


@dataclass(frozen=True)
class ClusterTopics:
    """The topics that a command uses, as a cluster describes them."""

    described: Mapping[str, Topic]  # by name
    hidden: frozenset[str]  # names of topics that this user may not describe

    @classmethod
    def ask(cls, cluster: Cluster, topics: Iterable[str]) -> ClusterTopics:
        """Ask a cluster for topics.

        Raises:
            BrokerUnavailableError: the cluster does not answer.
            ClusterRefusedError: the cluster refuses a request.
        """
        names = set(topics)
        described = cluster.topics(names)
        return cls(described, cluster.hidden(names - described.keys()))

    def check(self, partition: TopicIdPartition) -> None:
        """Raise the errors of `check_identity`."""
        check_identity(partition, self.described, self.hidden)

    def leader_of(self, partition: TopicIdPartition) -> int:
        """Return the broker id of a partition's leader; -1 without a leader."""
        topic = self.described.get(partition.topic)
        if topic is None:
            return -1
        return topic.leaders.get(partition.partition, -1)


def check_settings(topic: str, settings: Mapping[str, TopicConfig]) -> None:
    """Check that brokers would read published segments of a topic, and would not delete them.

    Raises:
        TieringOffError: remote storage is disabled, or the topic is compacted.
        CopyingOffError: copying is disabled, and retention is limited.
    """
    if "compact" in value_of(settings, "cleanup.policy", "delete"):
        raise TieringOffError(
            f"{topic} is compacted, and Kafka does not tier compacted topics", hint="exclude the topic with --topic"
        )
    if not is_tiered(settings):
        raise TieringOffError(
            f"{topic}: {REMOTE_STORAGE}=false: brokers read no remote segments of the topic",
            hint=f"kafka-configs --alter --topic {topic} --add-config {REMOTE_STORAGE}=true; if the copy task of "
            "the topic is stuck afterwards, because a snapshot is missing: tiersnap unblock",
        )
    finite = {}
    for name in RETENTION:
        value = value_of(settings, name, UNLIMITED)
        if value not in {UNLIMITED, MARK}:
            finite[name] = value
    if is_copying_off(settings) and finite:
        listed = ", ".join(f"{name}={value}" for name, value in finite.items())
        raise CopyingOffError(
            f"{topic}: {COPY_DISABLE}=true together with {listed}: while copying is disabled, brokers apply this "
            "retention to the local log too, and delete local and remote segments",
            hint=f"enable copying (kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=false), or set "
            "unlimited retention (-1) until copying is enabled",
        )


def check_copier_rests(topic: str, settings: Mapping[str, TopicConfig]) -> None:
    """Check that copying is disabled, so that segments can be published. Raises CopyingOnError: copying is enabled."""
    if not is_copying_off(settings):
        endless = ",".join(f"{name}={UNLIMITED}" for name in RETENTION)
        raise CopyingOnError(
            f"{topic}: copying is enabled: a running copy task does not notice published segments, and uploads "
            "them again",
            hint=f"disable copying before you publish: kafka-configs --alter --topic {topic} --add-config "
            f"{COPY_DISABLE}=true,{endless}; if the copy task is stuck because a snapshot is missing: tiersnap unblock",
        )
