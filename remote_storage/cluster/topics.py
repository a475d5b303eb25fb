"""Topics of a cluster: partitions with topic ids, leaders, and configs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.formats.checkpoints import TopicPartition


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster describes it. `leaders` maps a partition to a broker id, or to -1 if it has no leader."""

    name: str
    topic_id: str
    leaders: Mapping[int, int]


def is_there(topics: Mapping[str, Topic], partition: TopicIdPartition) -> bool:
    """Return whether the cluster has a topic with the partition's topic name and topic id."""
    known = topics.get(partition.topic)
    return known is not None and known.topic_id == partition.topic_id


def leaders_of(topics: Mapping[str, Topic], partitions: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, int]:
    """Return the leaders of the partitions whose topic id the cluster has; -1 for a partition without a leader."""
    found = {}
    for each in partitions:
        if is_there(topics, each) and each.partition in topics[each.topic].leaders:
            found[each] = topics[each.topic].leaders[each.partition]
    return found


def with_ids_of(topics: Mapping[str, Topic], partitions: Iterable[TopicPartition]) -> list[TopicIdPartition]:
    """Return the partitions whose topic is in `topics`, with their topic ids."""
    return [TopicIdPartition(topic, topics[topic].topic_id, number) for topic, number in partitions if topic in topics]


def led_partitions(topics: Mapping[str, Topic], partitions: Iterable[TopicPartition]) -> dict[TopicIdPartition, int]:
    """Return the leaders of the partitions that are in `topics` and have a leader."""
    leaders = leaders_of(topics, with_ids_of(topics, partitions))
    return {each: leader for each, leader in leaders.items() if leader >= 0}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective value of a topic config or broker config. `is_own` is True if a topic sets the value itself."""

    value: str | None
    is_own: bool
