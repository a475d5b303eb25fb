"""Follow a partition's copy task by the records of `__remote_log_metadata`.

Each copy attempt begins with a COPY_SEGMENT_STARTED of a new id. If a snapshot is missing, the attempt ends there, and
the next one follows after the task interval. If the storage manager throws, brokers since 3.9 also delete the leftovers
of the attempt, so its newest record is a deletion.

No record shows that an attempt has failed, and records of attempts stay in the topic. An upload that timed out before
Kafka 3.9 leaves the same records, and so does the upload of a leader that died; the newest attempt may be under way. So
two attempts at one segment are only a suspicion, and watching decides. A copy task is stuck if it twice begins a
segment that remote storage lacks, and finishes none. If it keeps beginning segments that others have finished, it has
not read the records since.
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
    """The progress of a copy task since it was enabled again."""

    FAILING = "FAILING"  # at a segment that is in remote storage already: it has not read the new records
    MOVED_ON = "MOVED_ON"  # it has copied the next segment
    QUIET = "QUIET"  # no segment is left to copy, and no attempt fails
    STUCK_AHEAD = "STUCK_AHEAD"  # it fails at the next segment


@dataclass(frozen=True, slots=True)
class Watched:
    """A partition whose copy task should continue at `next_offset`; `seen` are the ids of earlier attempts."""

    partition: TopicIdPartition
    next_offset: int
    seen: frozenset[str]


def attempts(cache: MetadataCache, partition: TopicIdPartition, next_offset: int) -> list[RemoteLogSegmentMetadata]:
    """Return the unfinished attempts at segments that end at or above `next_offset`, the remote log's end."""
    return [segment for segment in cache.attempts(partition) if segment.end_offset >= next_offset]


def blind_attempts(cache: MetadataCache, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
    """Return the unfinished attempts at segments that had been finished: the copy task had not read the records."""
    finished = list(cache.in_state(partition, SegmentState.COPY_SEGMENT_FINISHED))
    started = list(cache.attempts(partition))
    starts = {each.start_offset for each in started}
    since = {start: _finished_since(cache, finished, start) for start in starts}
    return [each for each in started if cache.order(each)[0] > since[each.start_offset]]


def has_unended(cache: MetadataCache, partition: TopicIdPartition) -> bool:
    """Return whether the number of unended copy attempts shows that the copy task may be stuck."""
    return sum(1 for _ in cache.attempts(partition)) >= STUCK_AFTER


def suspected(cache: MetadataCache, partition: TopicIdPartition, next_offset: int) -> Watched | None:
    """Return a partition to watch if its records show that the copy task may be stuck; else None."""
    begun = attempts(cache, partition, next_offset), blind_attempts(cache, partition)
    if max(map(len, begun)) < STUCK_AFTER:
        return None
    return Watched(partition, next_offset, frozenset(cache.segments(partition)))


def quiet_seconds(cluster: Cluster, leaders: Iterable[int], intervals: int = 2) -> float:
    """Return the seconds without an attempt after which a copy task is quiet: intervals of the slowest leader."""
    longest = 0
    for leader in sorted(set(leaders)):
        try:
            value = value_of(cluster.broker_settings(leader), _INTERVAL, _DEFAULT_INTERVAL_MS)
        except ClusterRefusedError:  # no right to describe brokers
            value = _DEFAULT_INTERVAL_MS
        longest = max(longest, int(value))
    return intervals * longest / 1000 + _MARGIN_SECONDS


def watch(reader: MetadataReader, watched: Iterable[Watched], quiet: float) -> Mapping[TopicIdPartition, CopyProgress]:
    """Poll until the progress of each partition's copy task is clear; at most `quiet` seconds."""
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
    """Return the place of the first record that finished a segment with this offset; infinite without one."""
    copies = (each for each in finished if each.start_offset <= offset <= each.end_offset)
    return min((cache.order(each)[1] for each in copies), default=math.inf)


def progress_of(cache: MetadataCache, watched: Watched) -> CopyProgress | None:
    """Return the progress of a copy task by its new records; None while they show too little."""
    new = [segment for name, segment in cache.segments(watched.partition).items() if name not in watched.seen]
    has_finished = False
    for segment in new:
        if segment.end_offset < watched.next_offset:
            return CopyProgress.FAILING
        has_finished |= segment.id.segment_id in cache.copied
    if has_finished:
        return CopyProgress.MOVED_ON
    if len(new) >= STUCK_AFTER:
        return CopyProgress.STUCK_AHEAD
    return None
