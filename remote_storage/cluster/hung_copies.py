"""Find copies that never end, because the storage manager of a copy task does not return (Aiven plugin issue 820).

A broker reports no error for a hung copy, and no metric distinguishes it from a slow copy. Only the records in
`__remote_log_metadata` show it. A leader's copy task copies the segments of a partition one after the other, and begins
each with COPY_SEGMENT_STARTED. A copy hangs if the leader began to copy the next segment long ago, and has begun or
finished no other segment since then. If an attempt times out or its leader dies, other attempts follow, so that attempt
does not count as hung.

The age of a copy is the time since its COPY_SEGMENT_STARTED record, by this host's clock. If the newest record of the
copying broker is later than this clock, the time of that record counts as the present. So this module finds a hung copy
even if this host's clock is behind, provided that the broker still copies other partitions. If the clock is ahead,
copies look older by the difference, so the clock must not be ahead by minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import Lineage, dirs_for_epochs, open_lineage
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
    """The age above which a copy counts as hung: `after`, or ten times the usual duration of a copy if that is longer.

    Times are in ms.
    """

    now: int
    after: int = HUNG_AFTER_MS

    def is_passed(self, age: int, usual: int | None) -> bool:
        """Return whether a copy of this age (ms) counts as hung.

        `usual` is the usual duration in ms, None if no copy was finished.
        """
        return age > max(self.after, _TIMES_USUAL * (usual or 0))


@dataclass(frozen=True, slots=True)
class HungCopy:
    """A copy attempt that hangs.

    Attributes:
        attempt: metadata of the attempt, from its COPY_SEGMENT_STARTED record.
        age: ms since the attempt began.
        usual: median duration of the partition's finished copies in ms; None if there are none.
    """

    attempt: RemoteLogSegmentMetadata
    age: int
    usual: int | None

    @property
    def partition(self) -> TopicIdPartition:
        """Return the partition of the segment."""
        return self.attempt.id.topic_id_partition

    def says(self) -> str:
        """Return the finding as a sentence."""
        at = self.attempt
        usual = ""
        if self.usual is not None:
            usual = f"; uploads of this partition usually took {human_duration(self.usual)}"
        return (
            f"{self.partition}: broker {at.broker_id} has been uploading the segment at offset {at.start_offset} "
            f"({human_bytes(at.segment_size)}) for {human_duration(self.age)}{usual}; no later segment is tiered "
            "before this upload ends"
        )


def hung_copy(
    cache: MetadataCache, partition: TopicIdPartition, leader: int, next_offset: int | None, limit: HungLimit
) -> HungCopy | None:
    """Return the hung copy that the records of a partition show, or None.

    Args:
        leader: id of the broker that leads the partition now.
        next_offset: first offset that remote storage lacks, according to the leader's epochs. None if this offset is
            unknown; the function then assumes that the newest copy attempt contains the offset.
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
    if not limit.is_passed(age, usual):
        return None
    return HungCopy(newest, age, usual)


def _of_brokers(cache: MetadataCache, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
    return [each for each in cache.segments(partition).values() if each.id.segment_id not in cache.ours]


def _usual_duration(cache: MetadataCache, known: Iterable[RemoteLogSegmentMetadata]) -> int | None:
    """Return the median duration of the finished copies in ms, or None if there are none."""
    took = [each.event_timestamp - cache.begun[each.id.segment_id] for each in known if each.state is _FINISHED]
    if not took:
        return None
    return int(median(took))


def _has_later(cache: MetadataCache, partition: TopicIdPartition, place: int) -> bool:
    """Return whether a copy of a partition began or finished after the record at `place` (see MetadataCache.order)."""
    for each in cache.segments(partition).values():
        began, latest = cache.order(each)
        if began > place or (each.state is _FINISHED and latest > place):
            return True
    return False


def copied_twice(cache: MetadataCache, partition: TopicIdPartition) -> Iterator[tuple[str, str]]:
    """Yield id pairs of finished segments with the same offsets and leader epochs. Brokers read the second of a pair.

    Such a pair remains if another attempt copies the segment of a hung attempt, and then the hung attempt finishes,
    too. Segments with equal offsets and different leader epochs are not a pair. Two leaders wrote them around an
    unclean election, and brokers read both.
    """
    by_records: dict[tuple[int, int, LeaderEpochs], list[RemoteLogSegmentMetadata]] = {}
    for each in cache.in_state(partition, _FINISHED):
        records = each.start_offset, each.end_offset, each.segment_leader_epochs
        by_records.setdefault(records, []).append(each)
    for same in by_records.values():
        *losers, winner = sorted(same, key=lambda each: cache.order(each)[1])
        for loser in losers:
            yield loser.id.segment_id, winner.id.segment_id


def find_all_hung(
    cluster: Cluster, cache: MetadataCache, log_dirs: Iterable[str], limit: HungLimit
) -> tuple[HungCopy, ...]:
    """Return the hung copies of all partitions that brokers copy.

    Args:
        cache: all records of `__remote_log_metadata`.
        log_dirs: log directories of leaders. tiersnap reads leader epochs there if this client cannot ask leaders.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    doubtful = [each for each in cache.partitions() if any(cache.in_state(each, _STARTED))]
    if not doubtful:
        return ()
    leaders = _leaders_if_copied(cluster, doubtful)
    with open_lineage(cluster, dirs_for_epochs(cluster, log_dirs)) as lineage:
        return tuple(find_hung(cluster, cache, lineage, leaders, limit))


def _leaders_if_copied(cluster: Cluster, partitions: Collection[TopicIdPartition]) -> dict[TopicIdPartition, int]:
    """Return the leaders of the partitions that brokers copy. Needs one request per topic."""
    leaders = leaders_of(cluster.topics({each.topic for each in partitions}), partitions)
    copied = set(_copied(cluster, {each.topic for each in leaders}))
    return {each: leader for each, leader in leaders.items() if each.topic in copied}


def _copied(cluster: Cluster, topics: Iterable[str]) -> Iterator[str]:
    for each in topics:
        if is_copied(cluster.settings(each)):
            yield each


def read_all_records(cluster: Cluster) -> MetadataCache:
    """Return the records of all partitions. Empty if the cluster has no `__remote_log_metadata`."""
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
    """Yield the hung copies of the partitions in `leaders`. See `hung_copy`.

    The end of the remote log is computed only for partitions whose newest copy attempt is older than the limit.
    """
    of_leader = _by_its_clock(cache, limit)
    old = {each: leader for each, leader in leaders.items() if hung_copy(cache, each, leader, None, of_leader(leader))}
    starts = cluster.log_starts(old)
    for each, leader in old.items():
        end = remote_end(cache, lineage, each, leader, starts[each])
        if (found := hung_copy(cache, each, leader, end, of_leader(leader))) is not None:
            yield found


def _by_its_clock(cache: MetadataCache, limit: HungLimit) -> Callable[[int], HungLimit]:
    """Return a function that maps a broker id to `limit` with another `now`.

    This `now` is `limit.now`, or the time of the broker's newest record if that time is later.
    """
    newest: dict[int, int] = {}
    for partition in cache.partitions():
        for each in cache.segments(partition).values():
            newest[each.broker_id] = max(newest.get(each.broker_id, 0), each.event_timestamp)
    return lambda broker: replace(limit, now=max(limit.now, newest.get(broker, 0)))


def remote_end(
    cache: MetadataCache, lineage: Lineage, partition: TopicIdPartition, leader: int, log_start_offset: int
) -> int:
    """Use the records and the leader's epochs to return the next offset to copy. See `first_offset_missing`.

    If the leader's epochs are unknown, all finished segments count as segments of the leader's log.
    """
    known, start = cache.segments(partition).values(), log_start_offset
    try:
        why_outside = partial(outside_lineage, end_offset_for=lineage(partition, leader), log_start_offset=start)
        return first_offset_missing(known, start, why_outside)
    except (UnknownTopicError, LeaderEpochLineageError):
        return first_offset_missing(known, start, lambda _: "")
