"""Which partitions of a log directory are stuck: their copier begins a segment again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from jobs.kafka_admin.client import Cluster, Setting, Topic
from jobs.kafka_admin.copier import STUCK_AFTER, attempts
from jobs.kafka_admin.errors import CopyingOffError, TieringOffError
from jobs.kafka_admin.lineage import Lineage
from jobs.kafka_admin.publish_plan import first_offset_missing
from jobs.kafka_admin.topic_checks import check_settings, is_copying_off
from remote_storage.lineage import outside_lineage
from remote_storage.metadata_cache import MetadataCache
from remote_storage.segment_metadata import TopicIdPartition


@dataclass(frozen=True, slots=True)
class StuckPartition:
    """One of them.

    Attributes:
        next_offset: where remote storage ends.
        attempts: at the segment there, neither finished nor deleted.
        is_resumed: a run was cut short while freeing it.
    """

    partition: TopicIdPartition
    leader: int
    next_offset: int
    attempts: int
    is_resumed: bool = False


def tiered_topics(cluster: Cluster, names: Iterable[str]) -> tuple[dict[str, Topic], dict[str, Mapping[str, Setting]]]:
    """Those of `names` whose copier is on, and their settings."""
    topics: dict[str, Topic] = {}
    settings: dict[str, Mapping[str, Setting]] = {}
    for name, topic in cluster.topics(names).items():
        found = cluster.settings(name)
        try:
            check_settings(name, found)
        except (TieringOffError, CopyingOffError):
            continue
        if not is_copying_off(found):
            topics[name], settings[name] = topic, found
    return topics, settings


def find_stuck(
    cluster: Cluster,
    cache: MetadataCache,
    lineage: Lineage,
    candidates: Mapping[TopicIdPartition, int],
    resumed: Iterable[TopicIdPartition],
) -> list[StuckPartition]:
    """Of `candidates`, whose values are leaders, those that are stuck or `resumed`."""
    again = set(resumed)
    offsets = cluster.log_offsets((each.topic, each.partition) for each in candidates)
    found = []
    for each, leader in candidates.items():
        start, _ = offsets[each.topic, each.partition]
        why_outside = partial(outside_lineage, end_offset_for=lineage.of(each, leader), log_start_offset=start)
        next_offset = first_offset_missing(cache.segments(each).values(), start, why_outside)
        failed = len(attempts(cache, each, next_offset))
        if failed >= STUCK_AFTER or each in again:
            found.append(StuckPartition(each, leader, next_offset, failed, each in again))
    return found
