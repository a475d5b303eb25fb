"""Copies that never end: a copy task whose storage manager does not return (Aiven plugin issue 820).

A broker says nothing of one: no error, no metric that tells it from a copy that is slow. Its records do. The copy task
of a leader copies one segment after the other and begins a segment with COPY_SEGMENT_STARTED. So a copy hangs if its
leader began it at the next offset to copy, long ago, and has begun or finished nothing since. Attempts of a leader that
died, and those that timed out, are followed by others.

Its age is by this host's clock, or by the newest record of its broker if that is later: a host whose clock is behind
hides no copy that hangs while its broker copies other partitions. A host's clock must not be ahead by minutes: copies
look as much older than they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import Lineage, can_speak, open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.topic_checks import is_copied
from tiersnap.remote_storage.cluster.topics import leaders_of
from tiersnap.remote_storage.errors import LeaderEpochLineageError, MetadataTopicAbsentError, UnknownTopicError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    first_offset_missing,
    outside_lineage,
)
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.units import human_bytes, human_duration

HUNG_AFTER_MS = 1_800_000
_TIMES_USUAL = 10
_FINISHED, _STARTED = SegmentState.COPY_SEGMENT_FINISHED, SegmentState.COPY_SEGMENT_STARTED


@dataclass(frozen=True, slots=True)
class HungLimit:
    """A copy hangs if it takes longer than `after`, and ten times as long as copies of its partition take; both ms."""

    now: int
    after: int = HUNG_AFTER_MS

    def is_passed(self, age: int, usual: int | None) -> bool:
        """Return whether a copy of this age hangs; `usual` is None if none was finished."""
        return age > max(self.after, _TIMES_USUAL * (usual or 0))


@dataclass(frozen=True, slots=True)
class HungCopy:
    """One of them.

    Attributes:
        attempt: as its leader began it.
        age: ms since then.
        usual: ms that a copy of the partition takes, the median of the finished ones; None if there is none.
    """

    attempt: RemoteLogSegmentMetadata
    age: int
    usual: int | None

    @property
    def partition(self) -> TopicIdPartition:
        """Return the partition of the segment."""
        return self.attempt.id.topic_id_partition

    def says(self) -> str:
        """Return it in words."""
        at = self.attempt
        usual = "" if self.usual is None else f", and copies of it take {human_duration(self.usual)}"
        return (
            f"{self.partition}: broker {at.broker_id} has copied the segment at {at.start_offset} "
            f"({human_bytes(at.segment_size)}) for {human_duration(self.age)}{usual}: nothing behind it is tiered"
        )


def hung_copy(
    cache: MetadataCache, partition: TopicIdPartition, leader: int, next_offset: int | None, limit: HungLimit
) -> HungCopy | None:
    """Return the copy of a partition that hangs, by its records alone.

    Args:
        leader: id of the broker that leads the partition now.
        next_offset: first offset of the log that remote storage lacks, by its leader epochs. None means unknown, and
            then any begun copy counts as the next one.
    """
    known = _of_brokers(cache, partition)
    begun = [each for each in known if each.state is _STARTED and each.broker_id == leader]
    if not begun:
        return None
    newest = max(begun, key=lambda each: cache.order(each)[0])
    is_next = next_offset is None or newest.start_offset <= next_offset <= newest.end_offset
    if not is_next or _has_later(cache, partition, cache.order(newest)[0]):
        return None
    usual = _usual_duration(cache, known)
    age = limit.now - newest.event_timestamp
    return HungCopy(newest, age, usual) if limit.is_passed(age, usual) else None


def _of_brokers(cache: MetadataCache, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
    return [each for each in cache.segments(partition).values() if each.id.segment_id not in cache.ours]


def _usual_duration(cache: MetadataCache, known: Iterable[RemoteLogSegmentMetadata]) -> int | None:
    """Return how many ms the finished copies took, the median; None if none is finished."""
    took = [each.event_timestamp - cache.begun[each.id.segment_id] for each in known if each.state is _FINISHED]
    return int(median(took)) if took else None


def _has_later(cache: MetadataCache, partition: TopicIdPartition, place: int) -> bool:
    """Return whether a copy of a partition began or finished after a `place` in the order of its records."""
    orders = ((each.state, *cache.order(each)) for each in cache.segments(partition).values())
    return any(began > place or (state is _FINISHED and latest > place) for state, began, latest in orders)


def copied_twice(cache: MetadataCache, partition: TopicIdPartition) -> Iterator[tuple[str, str]]:
    """Return segment ids of finished segments with the same records: one that brokers do not read, and its winner.

    An attempt that hung, and was finished after another one had copied the segment, leaves such a pair. Segments of the
    same offsets and other leader epochs are of two leaders, after an unclean election; both are read by their epochs.
    """
    by_records: dict[tuple[int, int, LeaderEpochs], list[RemoteLogSegmentMetadata]] = {}
    for each in cache.in_state(partition, _FINISHED):
        records = each.start_offset, each.end_offset, each.segment_leader_epochs
        by_records.setdefault(records, []).append(each)
    for same in by_records.values():
        *losers, winner = sorted(same, key=lambda each: cache.order(each)[1])
        yield from ((loser.id.segment_id, winner.id.segment_id) for loser in losers)


def find_all_hung(
    cluster: Cluster, cache: MetadataCache, log_dirs: Iterable[str], limit: HungLimit
) -> tuple[HungCopy, ...]:
    """Return the copies that hang among all partitions that brokers copy.

    Args:
        cache: all records of the cluster.
        log_dirs: have the leader epochs of partitions whose leaders cannot be asked for them.

    Raises:
        BrokerUnavailableError, ClusterRefusedError: the cluster does not say.
    """
    doubtful = [each for each in cache.partitions() if any(cache.in_state(each, _STARTED))]
    if not doubtful:
        return ()
    leaders = _leaders_if_copied(cluster, doubtful)
    with open_lineage(cluster, () if can_speak(cluster.properties) else log_dirs) as lineage:
        return tuple(find_hung(cluster, cache, lineage, leaders, limit))


def _leaders_if_copied(cluster: Cluster, partitions: Collection[TopicIdPartition]) -> dict[TopicIdPartition, int]:
    """Return the leaders of the partitions that brokers copy; a request per topic."""
    leaders = leaders_of(cluster.topics({each.topic for each in partitions}), partitions)
    copied = {name: is_copied(cluster.settings(name)) for name in {each.topic for each in leaders}}
    return {each: leader for each, leader in leaders.items() if copied[each.topic]}


def read_all_records(cluster: Cluster) -> MetadataCache:
    """Return the records of all partitions; none if the cluster has no topic of them."""
    try:
        metadata_topic = MetadataTopic.of(cluster)
    except MetadataTopicAbsentError:
        return MetadataCache()
    with metadata_topic.read_all() as reader:
        return reader.read_to_end()


def find_hung(
    cluster: Cluster,
    cache: MetadataCache,
    lineage: Lineage,
    leaders: Mapping[TopicIdPartition, int],
    limit: HungLimit,
) -> Iterator[HungCopy]:
    """Return the copies that hang of some partitions, given with their leaders; see `hung_copy`.

    Where remote storage ends is asked only of partitions with an attempt that is old enough.
    """
    of_leader = _by_its_clock(cache, limit)
    old = {each: leader for each, leader in leaders.items() if hung_copy(cache, each, leader, None, of_leader(leader))}
    starts = cluster.log_starts(old)
    for each, leader in old.items():
        end = remote_end(cache, lineage, each, leader, starts[each])
        if (found := hung_copy(cache, each, leader, end, of_leader(leader))) is not None:
            yield found


def _by_its_clock(cache: MetadataCache, limit: HungLimit) -> Callable[[int], HungLimit]:
    """Return the limit for a broker's copies: it is at least as late as the broker's newest record says."""
    newest: dict[int, int] = {}
    for each in (one for of in cache.partitions() for one in cache.segments(of).values()):
        newest[each.broker_id] = max(newest.get(each.broker_id, 0), each.event_timestamp)
    return lambda broker: replace(limit, now=max(limit.now, newest.get(broker, 0)))


def remote_end(
    cache: MetadataCache, lineage: Lineage, partition: TopicIdPartition, leader: int, log_start_offset: int
) -> int:
    """Return where the copy task is to go on, by the records and the leader's epochs; see `first_offset_missing`.

    If nobody can be asked for the epochs, all that is finished is taken to be of this log.
    """
    known, start = cache.segments(partition).values(), log_start_offset
    try:
        why_outside = partial(outside_lineage, end_offset_for=lineage(partition, leader), log_start_offset=start)
        return first_offset_missing(known, start, why_outside)
    except (UnknownTopicError, LeaderEpochLineageError):
        return first_offset_missing(known, start, lambda _: "")
