"""What is published, what a broker makes of records, and when a copier is stuck: decided on records alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reference.remote_segments import PARTITION, cache_of, remote_segment
from tiersnap.remote_storage.cluster.copy_progress import (
    CopyProgress,
    Watched,
    attempts,
    blind_attempts,
    progress_of,
    suspected,
)
from tiersnap.remote_storage.errors import LeaderEpochLineageError, SegmentHoleError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.remote_storage.publish.segments_to_publish import (
    PublishAction,
    PublishPlan,
    SegmentToPublish,
    by_partition,
    plan_segments,
)

pytestmark = pytest.mark.unit

STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
DELETING, DELETED = SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED


def segment(start: int, end: int, state: SegmentState = FINISHED) -> RemoteLogSegmentMetadata:
    """A new segment with offsets `start` to `end`, both inclusive."""
    return remote_segment(start, end, [(0, start)], state)


def plan(segments, known=(), *, log_start=0, outside=()) -> list[PublishAction]:
    planned = plan_segments(
        PARTITION,
        segments,
        cache_of(*known),
        log_start_offset=log_start,
        why_outside=lambda each: "another log" if each in outside else "",
    )
    assert [each.metadata for each in planned] == list(segments)
    return [each.action for each in planned]


A, B, C = segment(0, 99), segment(100, 199), segment(200, 299)


def test_by_partition_gives_segments_in_ascending_order() -> None:
    assert by_partition([B, C, A]) == {PARTITION: [A, B, C]}


def test_plan_tells_where_remote_storage_ends_once_it_is_carried_out() -> None:
    actions = ((A, PublishAction.KNOWN), (B, PublishAction.PUBLISH), (C, PublishAction.HELD_BACK))
    planned = tuple(SegmentToPublish(*each) for each in actions)
    ends = [PublishPlan(PARTITION, planned[:count]).next_offset for count in range(4)]
    assert ends == [0, 100, 200, 200]


def test_each_segment_is_published_once():
    assert plan([A, B, C]) == [PublishAction.PUBLISH] * 3
    assert plan([A, B, C], [A]) == [PublishAction.KNOWN, PublishAction.PUBLISH, PublishAction.PUBLISH]
    assert plan([A, B, C], [A, replace(B, state=STARTED)]) == [
        PublishAction.KNOWN,
        PublishAction.FINISH,
        PublishAction.PUBLISH,
    ]
    assert plan([A, B, C], [A, B, C]) == [PublishAction.KNOWN] * 3


@pytest.mark.parametrize("state", [DELETING, DELETED])
def test_what_a_broker_has_deleted_is_not_brought_back(state):
    assert plan([A, B], [replace(A, state=state)], log_start=100) == [PublishAction.DELETED, PublishAction.PUBLISH]


def test_what_lies_below_the_log_start_is_not_brought_back():
    assert plan([A, B, C], log_start=100) == [
        PublishAction.BELOW_LOG_START,
        PublishAction.PUBLISH,
        PublishAction.PUBLISH,
    ]
    for log_start in (50, 99):
        both = [PublishAction.PUBLISH, PublishAction.PUBLISH]
        assert plan([A, B], log_start=log_start) == both, "the log start lies inside it"
    assert plan([B], [A], log_start=99) == [PublishAction.PUBLISH]


def test_what_the_brokers_have_copied_is_not_published_as_another_segment():
    theirs = [segment(0, 99), segment(100, 149)]
    assert plan([A, B, C], theirs) == [PublishAction.COVERED, PublishAction.PUBLISH, PublishAction.PUBLISH]
    assert plan([A, segment(100, 100)], [A]) == [PublishAction.KNOWN, PublishAction.PUBLISH]
    assert plan([B], [A, C]) == [PublishAction.COVERED], "nobody asked whether theirs are complete"
    assert plan([A], [segment(0, 99, STARTED)]) == [PublishAction.PUBLISH], "an attempt that failed covers nothing"


def test_segments_of_another_log_cover_nothing():
    theirs = remote_segment(0, 99, [(7, 0)])
    assert plan([A, B], [theirs], outside=[theirs]) == [PublishAction.PUBLISH, PublishAction.PUBLISH]


@pytest.mark.parametrize(
    ("segments", "known", "log_start"),
    [
        *[([B], [], 0), ([A, C], [], 0), ([C], [A], 0), ([C], [A, replace(B, state=STARTED)], 0), ([C], [], 100)],
        *[([segment(1, 99)], [], 0), ([A, segment(101, 199)], [], 0), ([segment(101, 199)], [A], 0)],
    ],
)
def test_no_segment_is_published_behind_a_hole(segments, known, log_start):
    with pytest.raises(SegmentHoleError, match="would never upload"):
        plan(segments, known, log_start=log_start)


def test_no_segment_is_published_that_brokers_would_not_find():
    with pytest.raises(LeaderEpochLineageError, match="another log: the broker would upload the segment again"):
        plan([A, B], outside=[B])
    one = segment(100, 100)
    with pytest.raises(LeaderEpochLineageError, match="another log"):
        plan([A, one], outside=[one])


def test_what_a_leader_copied_that_lost_an_unclean_election_is_left_out_where_this_log_has_the_offsets():
    theirs, ours = segment(100, 249), [segment(100, 159), segment(160, 299)]
    planned = [PublishAction.PUBLISH, PublishAction.OTHER_LINEAGE, PublishAction.PUBLISH, PublishAction.PUBLISH]
    assert plan([A, theirs, *ours], outside=[theirs]) == planned
    with pytest.raises(LeaderEpochLineageError, match="would upload the segment again"):
        plan([A, theirs, ours[0]], outside=[theirs])


def test_segment_of_another_log_over_a_gap_is_left_out_when_remote_storage_is_not_asked():
    theirs, ours = segment(120, 310), segment(300, 399)
    assert plan([theirs, ours], [A, C], outside=[theirs]) == [PublishAction.OTHER_LINEAGE, PublishAction.PUBLISH]


def test_records_come_in_the_order_in_which_brokers_must_see_them():
    known = cache_of(replace(A, state=STARTED))
    planned = plan_segments(PARTITION, [A, B], known, log_start_offset=0, why_outside=lambda _: "")
    records = list(PublishPlan(PARTITION, planned, leader=5).records(broker_id=None, now=11))
    assert records == [
        SegmentUpdate(A.id, 5, 11, FINISHED),
        SegmentRecord(replace(B, state=STARTED, broker_id=5, event_timestamp=11)),
        SegmentUpdate(B.id, 5, 11, FINISHED),
    ]
    refused = PublishPlan(PARTITION, planned, leader=5, refusal=SegmentHoleError("no"))
    assert list(refused.records(broker_id=9, now=11)) == []


def cache_after(*steps: tuple[RemoteLogSegmentMetadata, SegmentState]) -> MetadataCache:
    cache = MetadataCache()
    apply(cache, *steps)
    return cache


def apply(cache: MetadataCache, *steps: tuple[RemoteLogSegmentMetadata, SegmentState]) -> list[bool]:
    return [
        cache.apply(
            SegmentRecord(replace(each, state=STARTED)) if state is STARTED else SegmentUpdate(each.id, 2, 9, state)
        )
        for each, state in steps
    ]


def test_records_are_taken_as_a_broker_takes_them():
    cache = MetadataCache()
    assert apply(cache, (A, FINISHED), (A, STARTED), (A, FINISHED), (A, STARTED)) == [False, True, True, False]
    assert not cache.apply(SegmentRecord(B)), "a whole record is COPY_SEGMENT_STARTED"
    assert cache.dropped == 3
    assert cache.segments(PARTITION) == {A.id.segment_id: replace(A, broker_id=2, event_timestamp=9)}
    assert apply(cache, (A, DELETING), (A, FINISHED), (A, DELETED), (A, DELETING)) == [True, False, True, False]
    assert list(cache.in_state(PARTITION, DELETED)) == [replace(A, state=DELETED, broker_id=2, event_timestamp=9)]
    assert cache.segments(replace(PARTITION, partition=4)) == {}


def test_attempts_are_those_at_what_remote_storage_lacks():
    failed = [segment(100, 199), segment(100, 199)]
    cache = cache_after((A, STARTED), (A, FINISHED), *((each, STARTED) for each in failed))
    assert [each.id for each in attempts(cache, PARTITION, 100)] == [each.id for each in failed]
    apply(cache, (B, STARTED), (B, FINISHED))
    assert attempts(cache, PARTITION, 200) == []
    assert blind_attempts(cache, PARTITION) == [], "they came before it was finished"

    unaware = segment(100, 199)
    apply(cache, (unaware, STARTED))
    assert [each.id for each in blind_attempts(cache, PARTITION)] == [unaware.id]


def test_uploads_that_timed_out_beside_one_that_is_under_way_are_no_stuck_copier():
    under_way = segment(100, 199)
    cache = cache_after((A, STARTED), (A, FINISHED), (segment(100, 199), STARTED))
    assert suspected(cache, PARTITION, 100) is None
    apply(cache, (segment(100, 199), STARTED), (under_way, STARTED))
    watched = suspected(cache, PARTITION, 100)
    assert watched is not None
    assert progress_of(cache, watched) is None, "what was begun before may be under way"
    apply(cache, (under_way, FINISHED), (segment(200, 299), STARTED))
    assert progress_of(cache, watched) is None
    apply(cache, (segment(200, 299), STARTED))
    assert progress_of(cache, watched) is CopyProgress.STUCK_AHEAD, "it is seen to begin again what it began"


def test_a_copier_is_failing_moving_on_or_stuck_ahead():
    cache = cache_after((A, STARTED), (A, FINISHED))
    watched = Watched(PARTITION, 100, frozenset(cache.segments(PARTITION)))
    assert progress_of(cache, watched) is None
    first, second = segment(100, 199), segment(100, 199)
    apply(cache, (first, STARTED))
    assert progress_of(cache, watched) is None, "under way"
    apply(cache, (second, STARTED))
    assert progress_of(cache, watched) is CopyProgress.STUCK_AHEAD
    apply(cache, (second, FINISHED))
    assert progress_of(cache, watched) is CopyProgress.MOVED_ON
    apply(cache, (segment(0, 99), STARTED))
    assert progress_of(cache, watched) is CopyProgress.FAILING


@pytest.mark.parametrize("ends", [(DELETING,), (DELETING, DELETED)], ids=["deletion failed", "deleted"])
def test_attempts_that_brokers_delete_are_attempts_and_copies_that_expired_are_none(ends) -> None:
    cache = cache_after((A, STARTED), (A, FINISHED), (B, STARTED), (B, FINISHED), (B, DELETING), (B, DELETED))
    assert attempts(cache, PARTITION, 100) == []
    failed = [segment(100, 199), segment(100, 199)]
    apply(cache, *((each, state) for each in failed for state in (STARTED, *ends)))
    watched = suspected(cache, PARTITION, 100)
    assert watched is not None
    new = [segment(100, 199), segment(100, 199)]
    apply(cache, *((each, state) for each in new for state in (STARTED, *ends)))
    assert progress_of(cache, watched) is CopyProgress.STUCK_AHEAD
