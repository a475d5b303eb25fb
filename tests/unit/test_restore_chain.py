"""Which copies become the log: planned over generated tiers, against offsets counted one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.s3.segments import TOPIC_ID
from tiersnap.remote_storage.errors import MissingHeadError, MissingTailError, ObjectNotFoundError, RemoteGapError
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    epochs_in_range,
    new_segment_id,
)
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment, newest
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.restore.segment_chain import Chain, plan_chain

pytestmark = pytest.mark.unit


def copy_of(
    start: int, end: int, *, epochs=((0, 0),), at: int = 0, segment_id: str | None = None, size: int = 100
) -> RemoteSegment:
    """A copy of [start, end) made at time `at`, of a log with this lineage."""
    written = RemoteLogSegmentId("t", TOPIC_ID, 0, segment_id or new_segment_id())
    return RemoteSegment(
        SegmentObjects(written.topic_id_partition, start, written.segment_id, {}),
        RemoteLogSegmentMetadata(
            id=written,
            start_offset=start,
            end_offset=end - 1,
            broker_id=1,
            max_timestamp=0,
            event_timestamp=at,
            segment_leader_epochs=epochs_in_range(epochs, start, end),
            segment_size=size,
            state=SegmentState.COPY_SEGMENT_FINISHED,
        ),
        None,
    )


def bounds(chain: Chain) -> list[tuple[int, int]]:
    return [(piece.start_offset, piece.end_offset) for piece in chain.pieces]


def test_segments_are_laid_end_to_end():
    copies = [copy_of(start, start + 10) for start in (20, 0, 10)]
    chain = plan_chain(copies, ((0, 0),))
    assert bounds(chain) == [(0, 10), (10, 20), (20, 30)]
    assert all(piece.is_whole for piece in chain.pieces)
    assert (chain.log_start_offset, chain.end_offset, chain.missing_below) == (0, 30, None)
    assert chain.leader_epochs == ((0, 0),)
    assert chain.left_out == ()
    assert chain.size == 300


def test_of_several_copies_of_a_base_the_longest_then_the_latest_is_taken_and_the_others_named():
    short, long = copy_of(0, 8, at=9), copy_of(0, 10, at=1)
    early, late = copy_of(10, 20, at=1), copy_of(10, 20, at=2)
    same_time = sorted((copy_of(20, 30, at=5), copy_of(20, 30, at=5)), key=lambda copy: copy.segment_id)
    copies = [short, long, early, late, *same_time]
    for order in (copies, copies[::-1]):
        chain = plan_chain(order, ((0, 0),))
        assert [piece.copy for piece in chain.pieces] == [long, late, same_time[1]]
        left = {each.segment_id: each.reason for each in chain.left_out}
        assert left.keys() == {short.segment_id, early.segment_id, same_time[0].segment_id}
        assert long.segment_id in left[short.segment_id]


def test_a_gap_is_refused_with_its_offsets_and_the_copy_that_would_fill_it():
    copies = [copy_of(0, 10), copy_of(25, 30), copy_of(42, 50)]
    broken = IncompleteSegment("brokenbrokenbrokenbrok", 10, "no .rsm-manifest")
    with pytest.raises(RemoteGapError, match=r"10 to 24, 30 to 41; .*brokenbroken.*no \.rsm-manifest") as raised:
        plan_chain(copies, ((0, 0),), unusable=[broken])
    assert raised.value.exit_code == 4
    assert raised.value.attrs["gaps"] == [[10, 25], [30, 42]]
    assert "--log-start 42" in raised.value.hint
    assert bounds(plan_chain(copies, ((0, 0),), log_start_offset=42)) == [(42, 50)]


def test_what_retention_took_from_the_beginning_is_no_gap_unless_it_was_asked_for():
    copies = [copy_of(100, 110), copy_of(110, 120)]
    chain = plan_chain(copies, ((0, 0),))
    assert (chain.log_start_offset, chain.missing_below) == (100, 100)
    assert chain.leader_epochs == ((0, 100),)
    with pytest.raises(RemoteGapError, match="50 to 99"):
        plan_chain(copies, ((0, 0),), log_start_offset=50)


def test_a_head_that_is_not_usable_is_no_retention():
    copies = [copy_of(100, 110), copy_of(110, 120)]
    broken = [IncompleteSegment("brokenbrokenbrokenbrok", 40, "no .log")]
    said = (
        r"t-0: the log would begin at offset 100, because 1 older segment cannot be used: .*brokenbroken.* 40: no \.log"
    )
    with pytest.raises(MissingHeadError, match=said) as raised:
        plan_chain(copies, ((0, 0),), unusable=broken)
    assert raised.value.exit_code == 4
    assert "--log-start 100 --partition t-0" in raised.value.hint
    assert bounds(plan_chain(copies, ((0, 0),), unusable=broken, log_start_offset=100))[0] == (100, 110)
    assert plan_chain(copies, ((0, 100),), unusable=broken).missing_below is None, "the log began behind it"


def test_plan_chain_refuses_a_lost_tail_that_begins_below_the_end():
    """A new leader that rolled at 18 copies [18, 30) behind [10, 20)."""
    copies, broken = [copy_of(0, 10), copy_of(10, 20)], "brokenbrokenbrokenbrok"
    for lost in (IncompleteSegment(broken, 18, "no .log"), IncompleteSegment(broken, 10, "lost", end_offset=30)):
        with pytest.raises(
            MissingTailError, match=r"end at offset 20, because 1 newer segment cannot be used: .*broken"
        ) as raised:
            plan_chain(copies, ((0, 0),), unusable=[lost])
        assert "--until 20 --partition t-0" in raised.value.hint
    for there in (IncompleteSegment(broken, 10, "no .log"), IncompleteSegment(broken, 18, "lost", end_offset=20)):
        assert plan_chain(copies, ((0, 0),), unusable=[there]).end_offset == 20


def test_the_log_starts_where_the_lineage_does_inside_a_segment():
    """DeleteRecords moved the log start to 14 before the newest segment was tiered."""
    copies = [copy_of(0, 10), copy_of(10, 20), copy_of(20, 30, epochs=((0, 14),))]
    chain = plan_chain(copies, ((0, 14),))
    assert bounds(chain) == [(10, 20), (20, 30)]
    assert (chain.start_offset, chain.log_start_offset, chain.missing_below) == (10, 14, None)
    assert [each.reason for each in chain.left_out] == ["the segment is below the log start offset"]
    everything = plan_chain(copies, ((0, 14),), log_start_offset=0)
    assert (bounds(everything)[0], everything.leader_epochs) == ((0, 10), ((0, 0),))


def test_a_segment_that_overlaps_is_cut_where_the_one_before_ends():
    """The new leader rolled at other offsets and copied the segment that contains the next offset."""
    chain = plan_chain([copy_of(0, 100), copy_of(100, 200), copy_of(150, 260), copy_of(260, 300)], ((0, 0),))
    assert bounds(chain) == [(0, 100), (100, 200), (200, 260), (260, 300)]
    assert [piece.is_whole for piece in chain.pieces] == [True, True, False, True]


def test_what_an_unclean_election_dropped_is_not_restored():
    """Epoch 0 went on to 200 on a leader that was lost; epoch 1 began at 150 on another."""
    lineage = ((0, 0), (1, 150))
    dropped, kept = copy_of(100, 200), copy_of(150, 260, epochs=lineage)
    chain = plan_chain([copy_of(0, 100), dropped, kept], lineage)
    assert bounds(chain) == [(0, 100), (100, 150), (150, 260)]
    assert [piece.is_whole for piece in chain.pieces] == [True, False, True]
    assert chain.leader_epochs == lineage
    lost = copy_of(180, 240, epochs=((0, 0), (7, 200)))
    assert newest([dropped, kept, copy_of(0, 100)]) is kept
    chain = plan_chain([copy_of(0, 100), dropped, kept, lost], lineage)
    assert [each.reason for each in chain.left_out] == [
        "the newest segment does not have the leader epochs of this segment"
    ]


def test_without_a_segment_of_the_lineage_there_is_nothing_to_restore():
    with pytest.raises(ObjectNotFoundError):
        plan_chain([copy_of(0, 10)], ((5, 10),), log_start_offset=10)


@st.composite
def tiers(draw):
    """Copies of one log by up to three replicas that roll at different offsets; some copies are lost."""
    end = draw(st.integers(2, 40))
    epoch_starts = draw(st.lists(st.integers(1, end - 1), max_size=3, unique=True))
    epochs = ((0, 0), *((number, start) for number, start in enumerate(sorted(epoch_starts), 1)))
    copies = []
    for replica in range(draw(st.integers(1, 3))):
        rolls = draw(st.lists(st.integers(1, end - 1), max_size=6, unique=True))
        for start, stop in pairwise([0, *sorted(rolls), end]):
            if draw(st.integers(0, 9)):
                copies.append(copy_of(start, stop, epochs=epochs, at=replica))
    return draw(st.permutations(copies)), epochs


@given(tiers())
def test_every_offset_that_some_copy_holds_is_restored_once_or_the_gap_is_named(tier):
    copies, epochs = tier
    if not copies:
        return
    held = {offset for copy in copies for offset in range(copy.start_offset, copy.end_offset)}
    lineage = tuple(entry for entry in epochs if entry[1] < newest(copies).end_offset)
    missing = sorted(set(range(min(held), max(held) + 1)) - held)
    if missing:
        with pytest.raises(RemoteGapError) as raised:
            plan_chain(copies, lineage)
        named = [offset for start, end in raised.value.attrs["gaps"] for offset in range(start, end)]
        assert named == missing
        return
    chain = plan_chain(copies, lineage)
    restored = [offset for start, end in bounds(chain) for offset in range(start, end)]
    assert restored == sorted(held)
    for piece in chain.pieces:
        assert piece.copy.start_offset <= piece.start_offset < piece.end_offset <= piece.copy.end_offset
    assert chain.leader_epochs == epochs_in_range(epochs, min(held), max(held) + 1)
    assert plan_chain(copies[::-1], lineage) == Chain(
        chain.pieces, chain.log_start_offset, chain.leader_epochs, chain.left_out[::-1], chain.missing_below
    )
