"""Which partitions of a log directory are stuck: their copier begins a segment again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from tiersnap.remote_storage.cluster.client import Cluster, Topic
from tiersnap.remote_storage.cluster.copier import (
    STUCK_AFTER,
    Progress,
    Watched,
    attempts,
    blind_attempts,
    quiet_seconds,
    watch,
)
from tiersnap.remote_storage.cluster.lineage import Lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader
from tiersnap.remote_storage.cluster.publish_plan import first_offset_missing
from tiersnap.remote_storage.cluster.topic_checks import (
    COPY_DISABLE,
    MARK,
    RETENTION_MS,
    check_settings,
    is_copying_off,
    is_marked,
)
from tiersnap.remote_storage.errors import CopyingOffError, TieringOffError
from tiersnap.remote_storage.metadata.lineage import outside_lineage
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition


@dataclass(frozen=True, slots=True)
class StuckPartition:
    """One of them.

    Attributes:
        next_offset: where remote storage ends.
        attempts: that failed, there or at what has been finished since.
        has_not_looked: all may be published already, and the copier does not know: a run was cut short, or nobody has
            switched it off and on.
        fails_at: start offsets of copies that were begun and not finished; empty where the copier may be well.
        seen: ids of all segments that were known when this was found.
    """

    partition: TopicIdPartition
    leader: int
    next_offset: int
    attempts: int
    has_not_looked: bool = False
    fails_at: frozenset[int] = frozenset()
    seen: frozenset[str] = frozenset()

    def is_at_work(self, cache: MetadataCache) -> bool:
        """Whether somebody copies this partition, by what is known now: then nothing more may be published of it.

        A copier that is stuck begins what it has begun before and finishes nothing. One that was freed meanwhile, by a
        restart, a new leader or another run, begins or finishes something else.
        """
        new = (each for name, each in cache.segments(self.partition).items() if name not in self.seen)
        is_moving = any(
            each.state is not SegmentState.COPY_SEGMENT_STARTED or each.start_offset not in self.fails_at
            for each in new
        )
        return not self.fails_at or is_moving


def tiered_topics(cluster: Cluster, names: Iterable[str], talk: Callable[[str], None]) -> dict[str, Topic]:
    """Those of `names` whose copier is on; `talk` is told of those whose copier was switched off."""
    topics: dict[str, Topic] = {}
    for name, topic in cluster.topics(names).items():
        settings = cluster.settings(name)
        try:
            check_settings(name, settings)
        except TieringOffError:
            continue
        except CopyingOffError:
            pass
        if is_copying_off(settings):
            by_us = f", and {RETENTION_MS}={MARK}: tiersnap unblock set both" if is_marked(settings) else ""
            talk(f"{name} is left out: copying is off ({COPY_DISABLE}=true{by_us})")
        else:
            topics[name] = topic
    return topics


def find_stuck(
    cluster: Cluster,
    reader: MetadataReader,
    lineage: Lineage,
    candidates: Mapping[TopicIdPartition, int],
    resumed: Iterable[TopicIdPartition],
) -> list[StuckPartition]:
    """Of `candidates`, whose values are leaders, those that are stuck or `resumed`.

    Takes two task intervals where a copier may, or may not, be beginning what is finished.
    """
    cache = reader.read_to_end()
    offsets = cluster.log_offsets((each.topic, each.partition) for each in candidates)
    ends: dict[TopicIdPartition, int] = {}
    for each, leader in candidates.items():
        start, _ = offsets[each.topic, each.partition]
        why_outside = partial(outside_lineage, end_offset_for=lineage.of(each, leader), log_start_offset=start)
        ends[each] = first_offset_missing(cache.segments(each).values(), start, why_outside)
    blind = {each: len(blind_attempts(cache, each)) for each in candidates}
    still_failing = _still_failing(cluster, reader, candidates, ends, blind)
    not_looked = still_failing.union(resumed)
    found = []
    for each, leader in candidates.items():
        failed = len(attempts(cache, each, ends[each]))
        if each in not_looked or failed >= STUCK_AFTER:
            is_failing = each in still_failing or failed >= STUCK_AFTER
            begun = cache.in_state(each, SegmentState.COPY_SEGMENT_STARTED) if is_failing else ()
            found.append(
                StuckPartition(
                    each,
                    leader,
                    ends[each],
                    failed + blind[each],
                    each in not_looked,
                    frozenset(segment.start_offset for segment in begun),
                    frozenset(cache.segments(each)),
                )
            )
    return found


def _still_failing(
    cluster: Cluster,
    reader: MetadataReader,
    leaders: Mapping[TopicIdPartition, int],
    ends: Mapping[TopicIdPartition, int],
    blind: Mapping[TopicIdPartition, int],
) -> set[TopicIdPartition]:
    suspected = [each for each, count in blind.items() if count >= STUCK_AFTER]
    if not suspected:
        return set()
    watched = [Watched(each, ends[each], frozenset(reader.cache.segments(each))) for each in suspected]
    found = watch(reader, watched, quiet_seconds(cluster, [leaders[each] for each in suspected]))
    return {each for each, progress in found.items() if progress is Progress.FAILING}
