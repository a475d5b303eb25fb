"""Follow a partition's copy task by the records of `__remote_log_metadata`.

Each copy attempt begins with a COPY_SEGMENT_STARTED record of a new segment id. If the producer snapshot of the segment
is missing, the attempt fails without a further record, and the next attempt follows after the task interval. If the
storage manager throws an exception, brokers since 3.9 delete the leftovers of the attempt. The newest record of such an
attempt is a deletion.

No record shows that an attempt has failed, and the records of old attempts stay in the topic. An upload that times out
(before Kafka 3.9) or a leader that dies leaves the same records as a failed attempt. The newest attempt may also still
be running. So two attempts at one segment do not prove that the copy task is stuck, and tiersnap watches the task. A
copy task is stuck if it begins two attempts at segments that remote storage lacks, and finishes neither. If a copy task
begins a segment that another attempt has already finished, the task has not read the records of the other attempt.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader
from tiersnap.remote_storage.cluster.topic_checks import value_of
from tiersnap.remote_storage.errors import ClusterRefusedError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition

STUCK_AFTER = 2
_INTERVAL = "remote.log.manager.task.interval.ms"
_DEFAULT_INTERVAL_MS = "30000"
_MARGIN_SECONDS = 1.0
_POLL_SECONDS = 0.5


class CopyProgress(StrEnum):
    """The progress of a copy task after copying was enabled again."""

    FAILING = "FAILING"  # the task begins a segment that is in remote storage: it has not read the new records
    MOVED_ON = "MOVED_ON"  # the task has copied the next segment
    QUIET = "QUIET"  # no segment is left to copy, and no attempt fails
    STUCK_AHEAD = "STUCK_AHEAD"  # the task fails at the next segment


@dataclass(frozen=True, slots=True)
class Watched:
    """A partition whose copy task should continue at `next_offset`.

    `seen` are the ids of the segments that had records when the watch began.
    """

    partition: TopicIdPartition
    next_offset: int
    seen: frozenset[str]


def attempts(cache: MetadataCache, partition: TopicIdPartition, next_offset: int) -> list[RemoteLogSegmentMetadata]:
    """Return the unfinished copy attempts whose segment ends at or above `next_offset`, the end of the remote log."""
    return [segment for segment in cache.attempts(partition) if segment.end_offset >= next_offset]


def blind_attempts(cache: MetadataCache, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
    """Return the unfinished copy attempts whose start offset was already in a finished segment when they began.

    So the copy task had not read the records of the finished segment.
    """
    finished = list(cache.in_state(partition, SegmentState.COPY_SEGMENT_FINISHED))
    started = list(cache.attempts(partition))
    since = {start: _finished_since(cache, finished, start) for start in {each.start_offset for each in started}}
    return [each for each in started if cache.order(each)[0] > since[each.start_offset]]


def has_unended(cache: MetadataCache, partition: TopicIdPartition) -> bool:
    """Return whether a partition has at least STUCK_AFTER unfinished copy attempts. Its copy task may then be stuck."""
    return len(list(cache.attempts(partition))) >= STUCK_AFTER


def suspected(cache: MetadataCache, partition: TopicIdPartition, next_offset: int) -> Watched | None:
    """Return the partition to watch if its records show that the copy task may be stuck, else None."""
    begun = attempts(cache, partition, next_offset), blind_attempts(cache, partition)
    if max(map(len, begun)) < STUCK_AFTER:
        return None
    return Watched(partition, next_offset, frozenset(cache.segments(partition)))


def quiet_seconds(cluster: Cluster, leaders: Iterable[int], intervals: int = 2) -> float:
    """Return the time (s) to wait for a new attempt. A copy task that begins none in this time counts as quiet.

    The result is `intervals` task intervals of the slowest leader, plus a margin.
    """
    longest = 0
    for leader in sorted(set(leaders)):
        try:
            value = value_of(cluster.broker_settings(leader), _INTERVAL, _DEFAULT_INTERVAL_MS)
        except ClusterRefusedError:  # no right to describe brokers
            value = _DEFAULT_INTERVAL_MS
        longest = max(longest, int(value))
    return intervals * longest / 1000 + _MARGIN_SECONDS


def watch(reader: MetadataReader, watched: Iterable[Watched], quiet: float) -> Mapping[TopicIdPartition, CopyProgress]:
    """Read records until the progress of each partition's copy task is clear, for at most `quiet` seconds."""
    began = time.monotonic()
    pending = {each.partition: each for each in watched}
    found: dict[TopicIdPartition, CopyProgress] = {}
    while pending:
        is_over = time.monotonic() - began >= quiet
        cache = reader.read_to_end()
        for partition, each in list(pending.items()):
            progress = progress_of(cache, each)
            if progress is None and is_over:
                progress = CopyProgress.QUIET
            if progress is not None:
                found[partition] = progress
                del pending[partition]
        if pending:
            time.sleep(_POLL_SECONDS)
    return found


def _finished_since(cache: MetadataCache, finished: Iterable[RemoteLogSegmentMetadata], offset: int) -> float:
    """Return the position (MetadataCache.order) of the first record that finished a segment that contains `offset`.

    Return infinity if there is no such record.
    """
    since = math.inf
    for each in finished:
        if each.start_offset <= offset <= each.end_offset:
            since = min(since, cache.order(each)[1])
    return since


def progress_of(cache: MetadataCache, watched: Watched) -> CopyProgress | None:
    """Return the progress of a copy task, or None if its new records do not show the progress yet."""
    begun, has_finished = 0, False
    for name, segment in cache.segments(watched.partition).items():
        if name in watched.seen:
            continue
        if segment.end_offset < watched.next_offset:
            return CopyProgress.FAILING
        begun += 1
        has_finished |= name in cache.copied
    if has_finished:
        return CopyProgress.MOVED_ON
    if begun >= STUCK_AFTER:
        return CopyProgress.STUCK_AHEAD
    return None
