"""Find stuck partitions: their copy task begins the same segment again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copy_progress import (
    CopyProgress,
    Watched,
    attempts,
    blind_attempts,
    has_unended,
    quiet_seconds,
    suspected,
    watch,
)
from tiersnap.remote_storage.cluster.hung_copies import HungCopy, HungLimit, find_hung, remote_end
from tiersnap.remote_storage.cluster.leader_epochs import Lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader
from tiersnap.remote_storage.cluster.topic_checks import check_settings, is_copying_off, is_marked
from tiersnap.remote_storage.cluster.topics import Topic
from tiersnap.remote_storage.errors import CopyingOffError, TieringOffError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE, MARK, RETENTION_MS


@dataclass(frozen=True, slots=True)
class StuckPartition:
    """A partition whose copy task is stuck.

    Attributes:
        next_offset: end of the remote log, exclusive.
        attempts: number of unfinished copy attempts, at `next_offset` or at segments that another attempt has finished.
        ignores_published: whether the copy task may have missed published records. If so, copying must be paused again,
            or the broker restarted.
        fails_at: start offsets of the unfinished attempts; empty if tiersnap did not see the copy task fail.
        seen: ids of all segments in the records when the partition was found stuck.
        hung: the hung copy, or None. A partition with a hung copy needs no upload, because its copy task continues
            after a restart of the broker.
    """

    partition: TopicIdPartition
    leader: int
    next_offset: int
    attempts: int
    ignores_published: bool = False
    fails_at: frozenset[int] = frozenset()
    seen: frozenset[str] = frozenset()
    hung: HungCopy | None = None

    def is_at_work(self, cache: MetadataCache) -> bool:
        """Return whether a broker copies this partition now. If so, no segment of the partition may be published.

        A stuck copy task begins the same segment again, and finishes none. If the copy task continues, for example
        after a restart or with a new leader, it begins or finishes another segment.
        """
        if not self.fails_at:
            return True
        for name, each in cache.segments(self.partition).items():
            if name in self.seen:
                continue
            is_another = each.start_offset not in self.fails_at
            if is_another or name in cache.copied:
                return True
        return False


def tiered_topics(cluster: Cluster, names: Iterable[str], talk: Callable[[str], None]) -> dict[str, Topic]:
    """Return the topics of `names` with enabled copying. Report each tiered topic with disabled copying to `talk`."""
    topics: dict[str, Topic] = {}
    for name, topic in cluster.topics(names).items():
        settings = cluster.settings(name)
        try:
            check_settings(name, settings)
        except TieringOffError:
            continue
        except CopyingOffError:
            pass
        if not is_copying_off(settings):
            topics[name] = topic
            continue
        by_us = ""
        if is_marked(settings):
            by_us = f" and {RETENTION_MS}={MARK}, both set by tiersnap"
        talk(f"{name}: skipped: copying is disabled ({COPY_DISABLE}=true{by_us})")
    return topics


def find_stuck(
    cluster: Cluster,
    reader: MetadataReader,
    lineage: Lineage,
    candidates: Mapping[TopicIdPartition, int],
    resumed: Iterable[TopicIdPartition],
    talk: Callable[[str], None],
    hung: HungLimit | None = None,
) -> list[StuckPartition]:
    """Return the stuck partitions among `candidates`, and all `resumed` partitions.

    If a copy task may be stuck, watch its records for up to three task intervals.

    Args:
        candidates: the leaders of the partitions to examine.
        resumed: partitions whose copying an earlier run enabled again; they need not be stuck.
        hung: if given, partitions with a hung copy are returned, too.
    """
    cache = reader.read_to_end()
    starts = cluster.log_starts(candidates)

    def end_of(partition: TopicIdPartition) -> int:
        return remote_end(cache, lineage, partition, candidates[partition], starts[partition])

    suspects = list(_suspects(cache, candidates, end_of))
    failing = _failing(cluster, reader, candidates, suspects, talk)
    ignoring = {each for each, progress in failing.items() if progress is CopyProgress.FAILING}.union(resumed)
    wanted = failing.keys() | ignoring

    def stuck(partition: TopicIdPartition) -> StuckPartition:
        end = end_of(partition)
        begun = cache.attempts(partition) if partition in failing else ()
        return StuckPartition(
            partition,
            candidates[partition],
            end,
            len(attempts(cache, partition, end)) + len(blind_attempts(cache, partition)),
            partition in ignoring,
            frozenset(segment.start_offset for segment in begun),
            frozenset(cache.segments(partition)),
        )

    found = [stuck(each) for each in candidates if each in wanted]
    if hung is None:
        return found
    others = dict(candidates)
    for each in found:
        del others[each.partition]
    for copy in find_hung(cluster, cache, lineage, others, hung):
        name, seen = copy.partition, frozenset(cache.segments(copy.partition))
        found.append(StuckPartition(name, others[name], end_of(name), 1, ignores_published=True, seen=seen, hung=copy))
    return found


def _suspects(
    cache: MetadataCache, candidates: Iterable[TopicIdPartition], end_of: Callable[[TopicIdPartition], int]
) -> Iterator[Watched]:
    """Yield the partitions whose unfinished copy attempts show that the copy task may be stuck.

    `end_of` is called only for partitions with attempts.
    """
    for each in candidates:
        if not has_unended(cache, each):
            continue
        suspect = suspected(cache, each, end_of(each))
        if suspect is not None:
            yield suspect


def _failing(
    cluster: Cluster,
    reader: MetadataReader,
    leaders: Mapping[TopicIdPartition, int],
    suspects: Sequence[Watched],
    talk: Callable[[str], None],
) -> dict[TopicIdPartition, CopyProgress]:
    """Watch `suspects`. Return the partitions whose copy task fails, with the progress (FAILING or STUCK_AHEAD)."""
    if not suspects:
        return {}
    # The copy task must begin two attempts, and one may have begun just now.
    seconds = quiet_seconds(cluster, [leaders[each.partition] for each in suspects], intervals=3)
    talk(f"waiting up to {seconds:.0f} s, to see which copy tasks fail")
    found = watch(reader, suspects, seconds)
    return {each: how for each, how in found.items() if how in (CopyProgress.FAILING, CopyProgress.STUCK_AHEAD)}
