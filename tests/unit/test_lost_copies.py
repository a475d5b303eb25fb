"""Offsets that brokers take for tiered and of which no copy of theirs is whole: when a copy of ours stands in."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.reference.remote_index import RemoteIndex
from tiersnap.remote_storage.cluster.publish_plan import TO_BE_TOLD, PlannedSegment, PublishAction, plan_segments
from tiersnap.remote_storage.errors import LostCopyError, SegmentHoleError
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    new_segment_id,
)
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

PUBLISH, KNOWN, COVERED = PublishAction.PUBLISH, PublishAction.KNOWN, PublishAction.COVERED


def segment(start: int, end: int, epochs: Sequence[tuple[int, int]] = ((0, 0),)) -> RemoteLogSegmentMetadata:
    """A new segment with offsets `start` to `end`, both inclusive, of a log with these (epoch, start offset)."""
    inside = [(epoch, max(first, start)) for epoch, first in epochs if first <= end]
    reached = [entry for entry, after in zip(inside, [*inside[1:], (0, end + 1)], strict=True) if entry[1] < after[1]]
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId("orders", "lZ6vvmajTWKDBUTV6SQAtQ", 3, new_segment_id()),
        start_offset=start,
        end_offset=end,
        broker_id=1,
        max_timestamp=7,
        event_timestamp=8,
        segment_leader_epochs=tuple(reached),
        segment_size=9,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )


def plan(
    ours: Sequence[RemoteLogSegmentMetadata],
    known: Sequence[RemoteLogSegmentMetadata],
    *,
    lost: Collection[RemoteLogSegmentMetadata] = (),
    since: Collection[RemoteLogSegmentMetadata] = (),
    log_start: int = 0,
) -> list[PlannedSegment]:
    """What becomes of what was listed: `ours`, and the known ones but what is `lost` or came `since`."""
    listed = sorted(
        [*ours, *(each for each in known if each not in [*lost, *since])], key=lambda each: each.start_offset
    )
    there = {each.id.segment_id for each in [*listed, *since]}
    return list(
        plan_segments(
            listed,
            {each.id.segment_id: each for each in known},
            log_start_offset=log_start,
            why_outside=lambda _: "",
            whole_of=there.intersection,
        )
    )


def actions(planned: Sequence[PlannedSegment]) -> list[PublishAction]:
    return [each.action for each in planned]


A, B, C = segment(0, 99), segment(100, 199), segment(200, 299)


@pytest.mark.parametrize("lost", [B, C], ids=["in the middle", "at the end"])
def test_a_whole_copy_takes_the_place_of_a_lost_one_with_the_same_offsets(lost):
    ours = segment(lost.start_offset, lost.end_offset)
    assert sorted(actions(plan([ours], [A, B, C], lost=[lost]))) == [KNOWN, KNOWN, PUBLISH]
    assert sorted(actions(plan([ours], [A, B, C]))) == [COVERED, KNOWN, KNOWN, KNOWN]


def test_a_second_whole_copy_of_what_is_lost_is_not_told_of():
    assert actions(plan([segment(100, 199), segment(100, 199)], [A, B, C], lost=[B])) == [
        KNOWN,
        PUBLISH,
        COVERED,
        KNOWN,
    ]


def test_a_gap_between_known_copies_is_filled():
    assert actions(plan([segment(100, 199)], [A, C])) == [KNOWN, PUBLISH, KNOWN]
    assert actions(plan([segment(100, 149), segment(150, 199)], [A, C])) == [KNOWN, PUBLISH, PUBLISH, KNOWN]


def test_what_became_whole_since_the_listing_is_not_lost():
    assert actions(plan([segment(100, 199)], [A, B, C], since=[B])) == [KNOWN, COVERED, KNOWN]


def test_what_is_lost_below_the_log_start_is_not_missed():
    assert actions(plan([segment(0, 149)], [A, B, C], lost=[A], log_start=100)) == [COVERED, KNOWN, KNOWN]


@pytest.mark.parametrize(
    ("ours", "known", "lost"),
    [
        (segment(100, 189), [A, B, C], B),
        (segment(110, 199), [A, B, C], B),
        (segment(90, 199), [A, B, C], B),
        (segment(100, 199, [(0, 0), (1, 150)]), [A, B, C], B),
        (segment(90, 199), [A, C], None),
        (segment(50, 249), [A, C], None),
    ],
    ids=["ends earlier", "begins later", "begins earlier", "other epochs", "gap and more", "gap and both sides"],
)
def test_a_copy_that_brokers_might_not_read_there_is_refused_as_damage(ours, known, lost):
    with pytest.raises(LostCopyError, match="cannot take their place") as caught:
        plan([ours], known, lost=[lost] if lost else [])
    assert caught.value.exit_code is ExitCode.DATA_CORRUPT
    assert "local.retention.ms" in caught.value.hint
    assert lost is None or lost.id.segment_id in caught.value.message


def test_where_no_copy_of_theirs_is_there_it_may_be_another_place():
    with pytest.raises(LostCopyError, match="nor is any other of this partition") as caught:
        plan([segment(0, 99)], [A, B], lost=[A, B])
    assert "is --remote" in caught.value.hint


def test_a_copy_of_another_log_is_not_passed_over_where_none_of_this_one_is_whole():
    ours = segment(100, 199)
    known = {each.id.segment_id: each for each in (A, B, C)}
    options = {"log_start_offset": 0, "why_outside": lambda each: "another log" if each == ours else ""}
    with pytest.raises(LostCopyError):
        plan_segments([A, ours, C], known, **options, whole_of=lambda _: set())
    (_, planned, _) = plan_segments([A, ours, C], known, **options, whole_of=set)
    assert planned.action is COVERED


ENDS = st.tuples(st.integers(0, 11), st.integers(0, 11)).map(sorted)
LINEAGES = st.sets(st.integers(1, 11), max_size=2).map(lambda starts: list(enumerate([0, *sorted(starts)])))


@given(st.lists(st.tuples(ENDS, st.booleans()), max_size=5), st.lists(ENDS, min_size=1, max_size=3), LINEAGES)
def test_brokers_read_what_is_told_of_and_lose_nothing_that_they_could_read(theirs, ours, lineage):
    """By their look-up, whatever they know, whatever is lost, and whatever we have."""
    known = [segment(*ends, lineage) for ends, _ in theirs]
    lost = [each for each, (_, is_lost) in zip(known, theirs, strict=True) if is_lost]
    copies = [segment(*ends, lineage) for ends in ours]
    try:
        planned = plan(copies, known, lost=lost)
    except (LostCopyError, SegmentHoleError):
        assume(False)
    told = [each.metadata for each in planned if each.action in TO_BE_TOLD]
    index = RemoteIndex()
    for each in known:
        index.finish(each)
    before = {offset for offset in range(12) if is_read(index, offset, lineage, lost)}
    for each in told:
        index.finish(each)
    after = {offset for offset in range(12) if is_read(index, offset, lineage, lost)}
    assert after >= before | {offset for each in told for offset in range(each.start_offset, each.end_offset + 1)}


def is_read(index: RemoteIndex, offset: int, lineage: Sequence[tuple[int, int]], lost: Collection[object]) -> bool:
    """Whether a consumer that has no local file gets the record."""
    found = index.find(max(epoch for epoch, start in lineage if start <= offset), offset)
    return found is not None and found not in lost
