"""Complete segments of brokers' attempts without a COPY_SEGMENT_FINISHED record, read and compared with the local log.

A storage manager may throw after its objects exist (KAFKA-19981), or because they are damaged. Their sizes prove
nothing: an attempt is right if every batch, the indexes, the leader epochs and the snapshot agree with the local log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tiersnap.remote_storage.check.local_log import LocalLog
from tiersnap.remote_storage.check.whole_segment import Told, WholeSegmentCheck
from tiersnap.remote_storage.inventory.remote_inventory import list_remote_partition
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.readiness.remote_check import CheckDepth, CheckRequest, ComparedWith


@dataclass(frozen=True, slots=True)
class ComparedAttempts:
    """Segment ids of brokers' attempts: those that equal the local log, and why the others do not."""

    right: frozenset[str]
    wrong: dict[str, str]


def compare_attempts(
    location: RemoteLocation, partition: TopicIdPartition, begun: Collection[str], local: LocalLog | None, now: int
) -> ComparedAttempts:
    """Read every object of the complete segments among `begun`, and compare them with the local log.

    Of several with the same offsets only the newest is read; the others count as wrong.

    Args:
        local: the log of the partition on this host; None without one.
        now: ms.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses.
    """
    found = list_remote_partition(location, partition).segments if begun else ()
    wrong = {each.segment_id: "it was not read" for each in found if each.segment_id in begun}
    newest = {each.bounds: each for each in sorted(found, key=_age) if each.segment_id in wrong}
    right = set()
    if local is not None and newest:
        for segment_id, why in _differences(location, list(newest.values()), local, now):
            if why:
                wrong[segment_id] = why
            else:
                del wrong[segment_id]
                right.add(segment_id)
    return ComparedAttempts(frozenset(right), wrong)


def _age(segment: RemoteSegment) -> tuple[int, str]:
    return segment.attempt


def _differences(
    location: RemoteLocation, segments: list[RemoteSegment], local: LocalLog, now: int
) -> Iterator[tuple[str, str]]:
    """Yield each segment id with the difference from the local log, "" without one."""
    told = local.compare(location.store, segments)
    asked = CheckRequest(CheckDepth.FULL, now, None)
    check = WholeSegmentCheck(location.store, asked, (), {}, told, lambda segment: segment.segment_id in told.snapshots)
    for segment in sorted(segments, key=lambda each: each.bounds):
        found = check.told(segment)
        is_compared = segment.segment_id in told.digests and found.compared_with is ComparedWith.LOCAL_LOG
        yield segment.segment_id, _why(found, is_compared=is_compared)


def _why(found: Told, *, is_compared: bool) -> str:
    if not found.verdict.is_sound:
        return found.reason
    return "" if is_compared else "the local log has no such segment"
