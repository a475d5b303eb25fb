"""Check that a cluster has the requested topics, and that their configs permit the publication of segments."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

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
    """Return the value of a config; `default` if this version of Kafka does not have the config."""
    setting = settings.get(name)
    return default if setting is None or setting.value is None else setting.value


def is_copying_off(settings: Mapping[str, TopicConfig]) -> bool:
    """Return whether the topic's copying is disabled."""
    return value_of(settings, COPY_DISABLE, "false") == "true"


def is_copied(settings: Mapping[str, TopicConfig]) -> bool:
    """Return whether brokers copy the topic's segments to remote storage by themselves."""
    is_tiered = value_of(settings, REMOTE_STORAGE, "false") == "true"
    is_compacted = "compact" in value_of(settings, "cleanup.policy", "delete")
    return is_tiered and not is_compacted and not is_copying_off(settings)


def is_marked(settings: Mapping[str, TopicConfig]) -> bool:
    """Return whether the topic has the mark that its configs are overridden."""
    retention = settings.get(RETENTION_MS)
    return retention is not None and retention.is_own and retention.value == MARK


def check_copying_was_not_switched_off(topic: str, settings: Mapping[str, TopicConfig], by_us: Collection[str]) -> None:
    """Refuse to pause copying if another user disabled it, or if the saved configs of an earlier pause are missing.

    Args:
        by_us: configs that an earlier run overrode and did not restore.

    Raises:
        CopyingOffError: copying is disabled, but not by tiersnap.
        SettingsAsideError: tiersnap paused copying, and the topic's saved configs are missing.
    """
    if is_marked(settings) and RETENTION_MS not in by_us:
        raise SettingsAsideError(
            f"{topic}: {RETENTION_MS}={MARK} says that tiersnap overrode its configs, and the saved configs in "
            "remote storage are gone",
            hint=f"kafka-configs --alter --topic {topic} with what the topic had: {COPY_DISABLE}, "
            f"{', '.join(RETENTION + LOCAL_RETENTION)}; then the same command again",
        )
    if is_copying_off(settings) and COPY_DISABLE not in by_us:
        raise CopyingOffError(
            f"{topic}: {COPY_DISABLE}=true, and no saved configs say that tiersnap set it: somebody "
            "else has switched copying off",
            hint="tiersnap publish tells the brokers what was tiered, while copying is off and retention endless; or "
            f"kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=false, then the same command again",
        )


def check_selected(cluster: Cluster, topic: re.Pattern[str]) -> None:
    """Refuse a --topic that selects no topic of the cluster, so that a mistyped name does not look like no problems.

    Raises:
        UsageError: no topic's whole name matches.
    """
    if not any(matches_topic(name, topic) for name in cluster.partition_counts()):
        raise UsageError(
            f"{cluster.bootstrap_server}: no topic matches {topic.pattern!r}",
            hint="--topic must match a topic's whole name, and the right to describe the topic is needed",
        )


def check_identity(partition: TopicIdPartition, topics: Mapping[str, Topic], hidden: Collection[str]) -> None:
    """Refuse a partition that the cluster does not have, or whose topic this user may not describe.

    Args:
        topics: the topics that the cluster describes.
        hidden: names of topics that this user may not describe.

    Raises:
        ClusterRefusedError: the topic is hidden.
        UnknownTopicError: the cluster has no such topic or partition, or another topic of that name.
    """
    topic = topics.get(partition.topic)
    if topic is None and partition.topic in hidden:
        raise not_described(str(partition), partition.topic)
    if topic is None:
        raise UnknownTopicError(
            f"{partition}: the cluster has no topic {partition.topic}",
            hint="is --bootstrap-server a broker of the cluster that wrote this log?",
        )
    if topic.topic_id != partition.topic_id:
        raise UnknownTopicError(
            f"{partition}: topic id {topic.topic_id} in the cluster, {partition.topic_id} in remote storage",
            hint="the topic was deleted and made anew, or this is another cluster: its segments are not of this topic",
        )
    if partition.partition not in topic.leaders:
        raise UnknownTopicError(
            f"{partition}: the topic has {count_of(len(topic.leaders), 'partition')}",
            hint="is this the cluster of that log?",
        )


def check_settings(topic: str, settings: Mapping[str, TopicConfig]) -> None:
    """Refuse a topic if brokers would not read published segments, or would delete them.

    Raises:
        TieringOffError: remote storage is disabled, or the topic is compacted.
        CopyingOffError: copying is disabled, and retention is finite.
    """
    if "compact" in value_of(settings, "cleanup.policy", "delete"):
        raise TieringOffError(
            f"{topic} is compacted: Kafka tiers no compacted topics", hint="leave the topic out with --topic"
        )
    if value_of(settings, REMOTE_STORAGE, "false") != "true":
        raise TieringOffError(
            f"{topic}: {REMOTE_STORAGE} is off: no broker reads remote segments of it",
            hint=f"kafka-configs --alter --topic {topic} --add-config {REMOTE_STORAGE}=true; where its copier is then "
            "stuck for want of a snapshot: tiersnap unblock",
        )
    finite = {}
    for name in RETENTION:
        value = value_of(settings, name, UNLIMITED)
        if value not in {UNLIMITED, MARK}:
            finite[name] = value
    if is_copying_off(settings) and finite:
        listed = ", ".join(f"{name}={value}" for name, value in finite.items())
        raise CopyingOffError(
            f"{topic}: {COPY_DISABLE}=true with {listed}: the broker would apply it to the local log alone and delete "
            "local and remote segments",
            hint=f"switch copying on (kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=false), or "
            "give the topic endless retention (-1) until it is",
        )


def check_copier_rests(topic: str, settings: Mapping[str, TopicConfig]) -> None:
    """Refuse to publish while copying is enabled. Raises CopyingOnError."""
    if not is_copying_off(settings):
        endless = ",".join(f"{name}={UNLIMITED}" for name in RETENTION)
        raise CopyingOnError(
            f"{topic}: copying is on: the copier of a partition does not see what is published, and copies the same "
            "segments again",
            hint=f"kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=true,{endless} until it is "
            "published; where the copier is stuck for want of a snapshot: tiersnap unblock",
        )
