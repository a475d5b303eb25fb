"""Compare segments that brokers uploaded completely, but did not publish, with the local log.

These segments have no COPY_SEGMENT_FINISHED record. The storage manager may have failed after it wrote correct objects
(KAFKA-19981), or it may have written damaged objects. So every batch, the indexes, the leader epochs and the snapshot
are compared with the local log.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.verify.compare_whole import ReadSegment, compare_whole
from tiersnap.remote_storage.verify.local_log import LocalLog
from tiersnap.snapshot.replay.expiry import BrokerExpiry


@dataclass(frozen=True, slots=True)
class ComparedAttempts:
    """The comparison of unpublished segments with the local log.

    Attributes:
        right: ids of brokers' segments that equal the local log.
        wrong: reasons why segments are wrong, by segment id. `unblock` uploads these segments again.
        differing: reasons why undamaged uploads of tiersnap differ from the local log, by segment id.
    """

    right: frozenset[str]
    wrong: dict[str, str]
    differing: dict[str, str] = field(default_factory=dict)


NOTHING_READ = ComparedAttempts(frozenset(), {})


def compare_attempts(
    location: RemoteLocation,
    partition: TopicIdPartition,
    begun: Collection[str],
    local: LocalLog | None,
    expiry: BrokerExpiry,
) -> ComparedAttempts:
    """Read every object of the complete segments among `begun`, and compare the objects with the local log.

    If several segments have the same bounds, only the newest is read, and the others count as wrong.

    Args:
        location: the remote location.
        partition: the partition.
        begun: ids of brokers' segments that have no COPY_SEGMENT_FINISHED record.
        local: the partition's log on this host; None without a local log.
        expiry: see `find_problems`.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
    """
    if not begun:
        return ComparedAttempts(frozenset(), {})
    found = list_remote_partition(location, partition).segments
    complete = [each for each in found if each.segment_id in begun]
    wrong = dict.fromkeys((each.segment_id for each in complete), "the segment was not compared with the local log")
    if local is None or not complete:
        return ComparedAttempts(frozenset(), wrong)
    newest = {each.bounds: each for each in sorted(complete, key=_age)}
    right = set()
    for each in compare_whole(location, list(newest.values()), local.compare, (), expiry):
        why = _why(each)
        if why:
            wrong[each.segment_id] = why
        else:
            del wrong[each.segment_id]
            right.add(each.segment_id)
    return ComparedAttempts(frozenset(right), wrong)


def _age(segment: RemoteSegment) -> tuple[int, str]:
    return segment.attempt


def _why(found: ReadSegment) -> str:
    if not found.result.verdict.is_sound:
        return found.result.reason
    if found.is_compared:
        return ""
    return "the local log has no segment with these offsets"
