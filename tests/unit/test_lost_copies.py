"""Offsets that brokers take for tiered and of which no copy of theirs is whole: when a copy of ours stands in."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from tests.reference.remote_segments import PARTITION, cache_of, remote_segment
from tiersnap.remote_storage.errors import HiddenOffsetsError, LostCopyError
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
)
from tiersnap.remote_storage.publish.publish import Published
from tiersnap.remote_storage.publish.segments_to_publish import (
    PublishAction,
    PublishPlan,
    SegmentToPublish,
    plan_segments,
)
from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.gate.exit_code import exit_code_of

pytestmark = pytest.mark.unit

PUBLISH, KNOWN, COVERED = PublishAction.PUBLISH, PublishAction.KNOWN, PublishAction.COVERED
LOST, HELD_BACK = PublishAction.LOST, PublishAction.HELD_BACK


def segment(start: int, end: int, epochs: Sequence[tuple[int, int]] = ((0, 0),)) -> RemoteLogSegmentMetadata:
    """A new segment with offsets `start` to `end`, both inclusive, of a log with these (epoch, start offset)."""
    inside = [(epoch, max(first, start)) for epoch, first in epochs if first <= end]
    reached = [entry for entry, after in zip(inside, [*inside[1:], (0, end + 1)], strict=True) if entry[1] < after[1]]
    return remote_segment(start, end, reached)


def plan(
    ours: Sequence[RemoteLogSegmentMetadata],
    known: Sequence[RemoteLogSegmentMetadata],
    *,
    lost: Collection[RemoteLogSegmentMetadata] = (),
    since: Collection[RemoteLogSegmentMetadata] = (),
    log_start: int = 0,
) -> list[SegmentToPublish]:
    """What becomes of what was listed: `ours`, and the known ones but what is `lost` or came `since`."""
    listed = sorted(
        [*ours, *(each for each in known if each not in [*lost, *since])], key=lambda each: each.start_offset
    )
    there = {each.id.segment_id for each in [*listed, *since]}
    return list(
        plan_segments(
            PARTITION,
            listed,
            cache_of(*known),
            log_start_offset=log_start,
            why_outside=lambda _: "",
            complete_segments=there.intersection,
        )
    )


def actions(planned: Sequence[SegmentToPublish]) -> list[PublishAction]:
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
    assert actions(plan([], [A, B, C], lost=[A], log_start=99)) == [KNOWN, KNOWN, LOST]


@pytest.mark.parametrize(
    ("ours", "why"),
    [
        (segment(100, 189), "the segment's record would hide the offsets 190 to 199 of leader epoch 0"),
        (segment(90, 199), "brokers would not read the segment"),
        (
            segment(100, 199, [(0, 0), (1, 150)]),
            "the segment's record would hide the offsets 150 to 199 of leader epoch 0",
        ),
    ],
    ids=["ends earlier", "begins earlier", "other epochs"],
)
def test_copy_that_does_not_fit_is_held_back_alone(ours, why):
    behind = segment(300, 399)
    planned = plan([ours, behind], [A, B, C], lost=[B])
    assert sorted(actions(planned)) == [HELD_BACK, KNOWN, KNOWN, LOST, PUBLISH]
    lost, held = PublishPlan(PARTITION, tuple(planned), leader=1).errors
    assert B.id.segment_id in lost.message
    assert (type(held), held.exit_code) == (LostCopyError, ExitCode.DATA_CORRUPT)
    assert f"segment {ours.id.segment_id} is not published: {why}" in held.message
    assert "local.retention.ms" in held.hint


@pytest.mark.parametrize(
    ("ours", "known", "lost", "left"),
    [
        (segment(90, 199), [A, C], None, []),
        (segment(50, 249), [A, C], None, []),
        (segment(50, 150), [A, segment(101, 199), C], None, []),
        (segment(110, 199), [A, B, C], B, [LOST]),
    ],
    ids=["a gap and more", "a gap and both sides", "a single offset", "what a lost copy has from 110 on"],
)
def test_copy_that_overlaps_others_is_published_where_it_hides_nothing(ours, known, lost, left):
    planned = plan([ours], known, lost=[lost] if lost else [])
    assert [each.action for each in planned if each.action is not KNOWN] == [PUBLISH, *left]


def test_segment_that_would_hide_the_end_of_another_is_held_back():
    """Two leader epochs: the stand-in ends first in the second, and what is complete there begins where it begins."""
    lineage = [(0, 0), (1, 400)]
    lost, complete = segment(0, 599, lineage), segment(100, 999, lineage)
    planned = plan([segment(0, 599, lineage)], [lost, complete], lost=[lost])
    assert actions(planned) == [HELD_BACK, KNOWN, LOST]
    _, held = PublishPlan(PARTITION, tuple(planned)).errors
    assert (
        "the segment's record would hide the offsets 600 to 999 of leader epoch 1, although brokers find these "
        "offsets now" in held.message
    )


def test_new_segment_that_would_hide_another_lineage_waits_with_those_behind_it():
    """Epoch 0 went on to 149 on a broker that lost an unclean election; its copy begins where ours does."""
    lineage = [(0, 0), (1, 100)]
    theirs, again = segment(50, 149), segment(50, 199, lineage)
    ours = [segment(50, 199, lineage), again, segment(200, 299, [(1, 100)])]
    first = segment(0, 49)
    planned = plan_segments(
        PARTITION,
        [first, *ours],
        cache_of(theirs),
        log_start_offset=0,
        why_outside=lambda each: "another log" if each == theirs else "",
        complete_segments=set,
    )
    assert actions(planned) == [PUBLISH, *[HELD_BACK] * 3]
    assert {type(each.error) for each in planned[1:]} == {HiddenOffsetsError}
    said = ["offsets 100 to 149", "offsets 100 to 149", "an earlier segment cannot be published"]
    assert all(why in each.error.message for why, each in zip(said, planned[1:], strict=True))
    (held,) = PublishPlan(PARTITION, tuple(planned)).errors
    assert (type(held), held.exit_code) == (HiddenOffsetsError, ExitCode.GATE_REFUSED)
    assert "the segment's record would hide the offsets 100 to 149 of leader epoch 0" in held.message
    assert "remote.log.copy.disable=false" in held.hint


def test_segment_that_ends_one_offset_behind_the_known_ones_blocks_what_follows():
    """What follows waits, and so does a segment of another log that ends there: no error of its own."""
    lineage = [(0, 0), (1, 100)]
    theirs, other = segment(50, 149), segment(20, 100)
    ours, behind = segment(50, 100, lineage), segment(101, 199, [(1, 101)])
    planned = plan_segments(
        PARTITION,
        [segment(0, 99), other, ours, behind],
        cache_of(theirs),
        log_start_offset=0,
        why_outside=lambda each: "another log" if each in (theirs, other) else "",
        complete_segments=set,
    )
    assert actions(planned) == [PUBLISH, *[HELD_BACK] * 3]
    assert {type(each.error) for each in planned[1:]} == {HiddenOffsetsError}
    said = [
        "another log",
        "the segment's record would hide the offsets 100 to 149",
        "an earlier segment cannot be published",
    ]
    assert all(why in each.error.message for why, each in zip(said, planned[1:], strict=True))


def test_copy_is_published_for_one_of_its_leader_epochs():
    lineage = [(0, 0), (1, 150)]
    known = [segment(0, 99, lineage), segment(150, 199, lineage)]
    assert actions(plan([segment(100, 199, lineage)], known)) == [KNOWN, PUBLISH, KNOWN]


def test_offsets_below_the_log_start_may_be_hidden():
    theirs, ours = segment(50, 99), segment(50, 149, [(0, 0), (1, 80)])
    assert actions(plan([ours], [theirs], log_start=100)) == [PUBLISH, KNOWN]
    assert actions(plan([ours], [theirs], log_start=99)) == [HELD_BACK, KNOWN]


def test_copy_of_another_log_is_covered_from_the_log_start_on():
    other = segment(50, 199)
    planned = plan_segments(
        PARTITION,
        [other],
        cache_of(B, C),
        log_start_offset=100,
        why_outside=lambda each: "another log" if each == other else "",
        complete_segments=set,
    )
    assert actions(planned) == [COVERED]


def test_a_lost_copy_that_begins_in_a_whole_one_hides_what_it_holds_itself():
    """Brokers look for the nearest start at or below an offset, and look no further."""
    whole, lost = segment(0, 199), segment(100, 249)
    planned = plan([segment(150, 199)], [whole, lost, segment(250, 299)], lost=[lost])
    assert sorted(actions(planned)) == [HELD_BACK, KNOWN, KNOWN, LOST], "with its objects back it has 200 to 249"
    planned = plan([segment(0, 99)], [whole, lost, segment(250, 299)], lost=[lost])
    assert sorted(actions(planned)) == [COVERED, KNOWN, KNOWN, LOST]


def test_behind_the_end_of_a_lost_copy_nothing_of_a_whole_one_is_found_and_ours_is():
    whole, lost = segment(0, 199), segment(100, 149)
    assert actions(plan([segment(150, 199)], [whole, lost], lost=[lost])) == [KNOWN, PUBLISH, LOST]
    assert actions(plan([segment(100, 149)], [whole, lost], lost=[lost])) == [KNOWN, PUBLISH]


def test_what_lies_in_several_whole_copies_is_covered():
    assert actions(plan([segment(0, 299)], [A, B, C])) == [COVERED, KNOWN, KNOWN, KNOWN]


def test_copy_is_said_to_be_read_in_part_where_another_hides_the_rest():
    """Behind the end of a whole copy that begins in it they find nothing."""
    ours = segment(100, 199)
    planned = plan([ours], [A, B, segment(150, 160), C], lost=[B])
    assert actions(planned) == [KNOWN, PUBLISH, KNOWN, KNOWN]
    (error,) = PublishPlan(PARTITION, tuple(planned)).errors
    assert isinstance(error, LostCopyError)
    assert f"offsets 100 to 199: segment {ours.id.segment_id}: brokers read only a part" in error.message


def test_a_lost_copy_that_is_all_that_brokers_know_has_its_place_taken_by_none():
    with pytest.raises(LostCopyError, match="has no other complete segment of the partition") as caught:
        plan([segment(0, 99)], [A], lost=[A])
    assert "--remote" in caught.value.hint


@pytest.mark.parametrize(("count", "said"), [(5, ")"), (6, ", 1 more)")])
def test_of_many_lost_copies_the_first_are_named_and_the_rest_counted(count, said):
    lost = [segment(100 * at, 100 * at + 99) for at in range(count)]
    planned = plan([], [*lost, segment(1000, 1099)], lost=lost)
    (error,) = PublishPlan(PARTITION, tuple(planned)).errors
    assert f"{lost[4].start_offset}-{lost[4].id.segment_id}{said}" in error.message


def test_of_two_with_the_same_start_the_one_that_was_finished_last_is_read():
    whole, lost = segment(100, 199), segment(100, 199)
    ours = segment(100, 199)
    assert sorted(actions(plan([ours], [A, whole, lost, C], lost=[lost]))) == [KNOWN, KNOWN, KNOWN, PUBLISH]
    assert sorted(actions(plan([ours], [A, lost, whole, C], lost=[lost]))) == [COVERED, KNOWN, KNOWN, KNOWN]


def test_what_a_later_copy_superseded_is_read_by_nobody_and_not_missed():
    lost, whole = segment(10, 89), segment(5, 99)
    assert actions(plan([segment(10, 89)], [segment(0, 9), lost, whole], lost=[lost])) == [KNOWN, KNOWN, COVERED]
    assert actions(plan([], [segment(0, 9), lost, whole], lost=[lost])) == [KNOWN, KNOWN]


@pytest.mark.parametrize("lost", [A, B, C], ids=["at the start", "in the middle", "at the end"])
def test_a_lost_copy_is_named_though_none_of_ours_is_near_and_the_rest_is_published(lost):
    ours = segment(300, 399)
    planned = plan([ours], [A, B, C], lost=[lost])
    assert actions(planned) == [KNOWN, KNOWN, PUBLISH, LOST]
    told = PublishPlan(lost.id.topic_id_partition, tuple(planned), leader=1)
    assert [record.id for record in list(told.records(broker_id=None, now=7))[1:]] == [ours.id]
    (error,) = told.errors
    assert isinstance(error, LostCopyError)
    assert lost.id.segment_id in error.message
    assert "local.retention.ms" in error.hint
    assert exit_code_of(Published([told, PublishPlan(PARTITION)]).errors) is ExitCode.DATA_CORRUPT


def test_what_is_lost_in_part_below_the_log_start_is_named_and_what_is_wholly_is_not():
    assert actions(plan([], [A, B, C], lost=[A, B], log_start=150)) == [KNOWN, LOST]
    assert actions(plan([], [A, B, C], lost=[A, B], log_start=200)) == [KNOWN]


def test_a_copy_of_another_log_that_is_lost_is_not_named():
    other = segment(100, 249, [(7, 0)])
    planned = plan_segments(
        PARTITION,
        [A, B],
        cache_of(A, other, B),
        log_start_offset=0,
        why_outside=lambda each: "another log" if each == other else "",
        complete_segments=lambda _: set(),
    )
    assert actions(planned) == [KNOWN, KNOWN]


def test_remote_storage_and_leaders_are_asked_only_of_copies_that_were_not_listed():
    asked: list[object] = []

    def ask(of: object) -> str:
        asked.append(of)
        return ""

    def complete_segments(ids: Collection[str]) -> Collection[str]:
        asked.append(ids)
        return ids

    def planned(listed: Sequence[RemoteLogSegmentMetadata], *, log_start: int) -> list[PublishAction]:
        known = cache_of(A, B)
        return actions(
            plan_segments(
                PARTITION,
                listed,
                known,
                log_start_offset=log_start,
                why_outside=ask,
                complete_segments=complete_segments,
            )
        )

    assert planned([A, B], log_start=0) == [KNOWN, KNOWN]
    assert planned([B], log_start=100) == [KNOWN]
    assert asked == []
    assert planned([B], log_start=0) == [KNOWN]
    assert asked == [{A.id.segment_id}], "it has become whole since: no leader is asked"
    asked.clear()
    new = segment(200, 299)
    assert planned([B, new], log_start=100) == [KNOWN, PUBLISH]
    assert asked == [B, new], "none is asked of what lies below the log start"


def test_where_nothing_is_whole_and_nothing_of_ours_is_there_it_may_be_another_place():
    with pytest.raises(LostCopyError, match="has no other complete segment of the partition") as caught:
        plan([segment(200, 299)], [A, B], lost=[A, B])
    assert "compare --remote" in caught.value.hint
    with pytest.raises(LostCopyError, match=B.id.segment_id):
        plan([], [A, B], lost=[A, B])


def test_where_no_copy_of_theirs_is_there_it_may_be_another_place():
    with pytest.raises(LostCopyError, match="has no other complete segment of the partition") as caught:
        plan([segment(0, 99)], [A, B], lost=[A, B])
    assert "compare --remote" in caught.value.hint


def test_copy_of_another_log_is_left_out_only_where_this_log_has_its_offsets():
    ours = segment(100, 199)
    known = cache_of(A, B, C)
    options = {"log_start_offset": 0, "why_outside": lambda each: "another log" if each == ours else ""}
    planned = plan_segments(PARTITION, [A, ours, C], known, **options, complete_segments=lambda _: set())
    assert actions(planned) == [KNOWN, HELD_BACK, KNOWN, LOST]
    assert "is not published: another log" in PublishPlan(PARTITION, planned).errors[1].message
    (_, planned, _) = plan_segments(PARTITION, [A, ours, C], known, **options, complete_segments=set)
    assert planned.action is COVERED
    # It ends where more of this log goes on, so that brokers are to read its offsets.
    theirs, first, last = segment(100, 249), segment(100, 159), segment(160, 299)
    options["why_outside"] = lambda each: "another log" if each == theirs else ""
    planned = plan_segments(PARTITION, [theirs, first, last], cache_of(A), **options, complete_segments=lambda ids: ids)
    assert actions(planned) == [PublishAction.OTHER_LINEAGE, PUBLISH, PUBLISH]


REFUSED, FIRST, SECOND = (TiersnapError(name) for name in ("refused", "first", "second"))


@pytest.mark.parametrize(
    ("plan_of", "errors", "blocked_by", "is_done", "is_open"),
    [
        ([], [], None, True, False),
        ([(KNOWN, None)], [], None, True, False),
        ([(PUBLISH, None), (KNOWN, None)], [], None, False, True),
        ([(PublishAction.FINISH, None)], [], None, False, True),
        ([(HELD_BACK, FIRST), (HELD_BACK, SECOND)], [FIRST], FIRST, True, False),
        ([(PUBLISH, FIRST), (HELD_BACK, SECOND)], [FIRST], None, False, True),
        ([(PUBLISH, None), (HELD_BACK, SECOND)], [SECOND], None, False, True),
    ],
)
def test_a_partition_says_its_first_error_and_is_blocked_by_it_where_nothing_else_is_published(
    plan_of, errors, blocked_by, is_done, is_open
):
    segments = tuple(SegmentToPublish(A, action, error) for action, error in plan_of)
    told = PublishPlan(PARTITION, segments)
    assert (told.errors, told.blocked_by, told.is_done, told.is_open) == (errors, blocked_by, is_done, is_open)
    refused = PublishPlan(PARTITION, segments, refusal=REFUSED)
    assert (refused.errors, refused.blocked_by) == ([REFUSED, *errors], REFUSED)
    assert (refused.is_done, refused.is_open, list(refused.records(broker_id=1, now=7))) == (is_done, False, [])
