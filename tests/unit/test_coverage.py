"""What remote storage holds of a lineage, against the same said offset by offset."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.snapshot.log.coverage import NOTHING_REMOTE, CopyFacts, RemoteCoverage, coverage_of
from tiersnap.snapshot.log.leader_epochs import agreed_intervals, joined

pytestmark = pytest.mark.unit
ENDLESS = 1000


@st.composite
def epochs(draw: st.DrawFn, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Leader epochs of [start, end): the first begins at the start."""
    starts = [start, *sorted(draw(st.sets(st.integers(start + 1, max(start + 1, end - 1)), max_size=3)))]
    numbers = sorted(draw(st.sets(st.integers(0, 7), min_size=len(starts), max_size=len(starts))))
    return tuple((number, at) for number, at in zip(numbers, starts, strict=True) if at < end)


@st.composite
def copies(draw: st.DrawFn) -> CopyFacts:
    start = draw(st.integers(0, 50))
    end = start + draw(st.integers(1, 20))
    begin = draw(st.sampled_from([start, start, (start + end) // 2]))  # the log start had moved into the segment
    return CopyFacts(start, end, draw(epochs(begin, end)), draw(st.sampled_from([True, True, True, False])))


def epoch_at(entries: tuple[tuple[int, int], ...], offset: int) -> int | None:
    return next((epoch for epoch, start in reversed(entries) if start <= offset), None)


def counts(copy: CopyFacts, lineage: tuple[tuple[int, int], ...], offset: int) -> bool:
    """Whether the copy's record at the offset is the lineage's; what lies before its epochs goes with the first one."""
    if not copy.start_offset <= offset < copy.end_offset:
        return False
    offset = max(offset, copy.leader_epochs[0][1])
    epoch = epoch_at(copy.leader_epochs, offset)
    assert epoch is not None
    if offset < lineage[0][1]:
        return epoch <= lineage[0][0]
    return epoch == epoch_at(lineage, offset)


@given(st.lists(copies(), max_size=5), st.integers(0, 60).flatmap(lambda start: epochs(start, 71)))
def test_an_offset_is_covered_iff_a_complete_copy_wrote_it_under_the_epoch_of_the_lineage(
    copies: list[CopyFacts], lineage: tuple[tuple[int, int], ...]
) -> None:
    coverage = coverage_of(copies, lineage, 71)
    for offset in range(75):
        expected = any(counts(copy, lineage, offset) for copy in copies if copy.is_complete)
        assert coverage.covers(offset, offset + 1) is expected, offset
    for first, second in pairwise(coverage.covered):
        assert first[1] < second[0]


@given(st.lists(copies(), max_size=5), st.integers(0, 60).flatmap(lambda start: epochs(start, 71)))
def test_the_highest_remote_offset_is_found_as_the_broker_does(
    copies: list[CopyFacts], lineage: tuple[tuple[int, int], ...]
) -> None:
    """RemoteLogManager.findHighestRemoteOffset, with inclusive offsets and one record a time."""
    highest = -1
    for i in reversed(range(len(lineage))):
        epoch = lineage[i][0]
        known = [
            offset
            for copy in copies
            if copy.is_complete
            for offset in range(copy.start_offset, copy.end_offset)
            if epoch_at(copy.leader_epochs, offset) == epoch
        ]
        if known:
            end_of_epoch = lineage[i + 1][1] if i + 1 < len(lineage) else 71
            highest = end_of_epoch - 1 if end_of_epoch <= max(known) else max(known)
            break
    assert coverage_of(copies, lineage, 71).highest == highest + 1


def test_after_an_unclean_election_the_lost_leaders_offsets_do_not_count() -> None:
    """[100, 200) was tiered under epoch 0; epoch 1 began at 150 and wrote 150 to 179."""
    copy = CopyFacts(100, 200, ((0, 100),))
    assert coverage_of([copy], ((0, 0), (1, 150)), 180) == RemoteCoverage(((100, 150),), 150, unread=((100, 150),))
    assert coverage_of([copy], ((0, 0),), 300) == RemoteCoverage(((100, 200),), 200, unread=((100, 200),))


def test_a_log_that_was_made_anew_under_the_same_epoch_is_cut_at_its_end() -> None:
    assert coverage_of([CopyFacts(0, 200, ((0, 0),))], ((0, 0),), 50).highest == 50


@given(st.data())
def test_coverage_of_tells_apart_the_offsets_that_are_published_ours_unread_and_lost(data: st.DataObject) -> None:
    marks = st.builds(replace, copies(), is_ours=st.booleans(), is_published=st.sampled_from([True, False, None]))
    found, lineage = data.draw(st.lists(marks, max_size=5)), data.draw(epochs(0, 71))
    coverage = coverage_of(found, lineage, 71)
    whole = [copy for copy in found if copy.is_complete]
    wanted = {
        "published": [copy for copy in whole if copy.is_published],
        "ours": [copy for copy in whole if copy.is_ours],
        "unread": [copy for copy in whole if copy.is_published is None],
        "lost": [copy for copy in found if copy.is_published and not copy.is_complete],
    }
    for name, among in wanted.items():
        told = {offset for start, end in getattr(coverage, name) for offset in range(start, end)}
        assert told == {offset for offset in range(75) if any(counts(copy, lineage, offset) for copy in among)}, name


def test_without_leader_epochs_nothing_is_known() -> None:
    assert coverage_of([CopyFacts(0, 200, ((0, 0),))], (), 50) == RemoteCoverage()
    assert coverage_of([CopyFacts(0, 200, ())], ((0, 0),), 50) == RemoteCoverage()


def test_a_copy_that_is_not_complete_covers_nothing() -> None:
    assert coverage_of([CopyFacts(0, 10, ((0, 0),), is_complete=False)], ((0, 0),), 50) == RemoteCoverage()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))))
def test_joined_intervals_hold_the_same_offsets(intervals: list[tuple[int, int]]) -> None:
    offsets = {offset for start, end in intervals for offset in range(start, end)}
    found = joined(intervals)
    assert {offset for start, end in found for offset in range(start, end)} == offsets
    assert all(first[1] < second[0] for first, second in pairwise(found))


def test_what_a_copy_knows_from_below_the_cut_lineage_counts_if_its_epoch_is_not_newer() -> None:
    assert agreed_intervals(((1, 0), (2, 40)), 60, ((2, 50),)) == [(0, 60)]
    assert agreed_intervals(((3, 0),), 60, ((2, 50),)) == []


def test_segment_that_the_log_start_is_in_is_held_whole_by_its_copy() -> None:
    copy = CopyFacts(0, 10, ((4, 6),))
    for lineage in (((4, 6),), ((4, 8),), ((4, 6), (5, 10))):
        assert (copy.held(lineage), copy.is_of(lineage)) == ([(0, 10)], True)
    assert (copy.held(((4, 6), (5, 8))), copy.is_of(((4, 6), (5, 8)))) == ([(0, 8)], False)
    assert (copy.held(((3, 0),)), copy.held(())) == ([], [])


def test_no_offset_is_covered_by_anything_and_empty_intervals_cover_none() -> None:
    assert NOTHING_REMOTE.covers(5, 5)
    assert not NOTHING_REMOTE.covers(5, 6)
    assert joined([(7, 9), (5, 5), (6, 2)]) == [(7, 9)]
