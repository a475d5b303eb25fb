"""Topics of a cluster: their partitions with topic ids, leaders and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.formats.checkpoints import TopicPartition


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster describes it; `leaders` are broker ids by partition, -1 without a leader."""

    name: str
    topic_id: str
    leaders: Mapping[int, int]


def is_there(topics: Mapping[str, Topic], partition: TopicIdPartition) -> bool:
    """Return whether the cluster has a topic of the partition's name and topic id."""
    known = topics.get(partition.topic)
    return known is not None and known.topic_id == partition.topic_id


def leaders_of(topics: Mapping[str, Topic], partitions: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, int]:
    """Return the leaders of the partitions that the cluster has with the same topic id; -1 without a leader."""
    return {
        each: topics[each.topic].leaders[each.partition]
        for each in partitions
        if is_there(topics, each) and each.partition in topics[each.topic].leaders
    }


def with_ids_of(topics: Mapping[str, Topic], partitions: Iterable[TopicPartition]) -> list[TopicIdPartition]:
    """Return the partitions of `topics` with their topic ids."""
    return [TopicIdPartition(topic, topics[topic].topic_id, number) for topic, number in partitions if topic in topics]


def led_partitions(topics: Mapping[str, Topic], partitions: Iterable[TopicPartition]) -> dict[TopicIdPartition, int]:
    """Return the id of the leader of each partition of `topics` that has one."""
    leaders = leaders_of(topics, with_ids_of(topics, partitions))
    return {each: leader for each, leader in leaders.items() if leader >= 0}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's setting: the value in force, and whether the topic itself sets it."""

    value: str | None
    is_own: bool
