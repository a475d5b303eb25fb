"""Which segments retention has passed: a prefix of the log, as RLMExpirationTask chooses it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.planned import PARTITION
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    new_segment_id,
)
from tiersnap.remote_storage.retire.retention import Breach, Retention, expired

pytestmark = pytest.mark.unit

NOW = 1_000_000


def segment(start: int, end: int, *, at: int = 0, size: int = 100, epochs=None) -> RemoteLogSegmentMetadata:
    """Offsets [start, end), whose largest timestamp is `at`."""
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId(PARTITION.topic, PARTITION.topic_id, PARTITION.partition, new_segment_id()),
        start_offset=start,
        end_offset=end - 1,
        broker_id=-1,
        max_timestamp=at,
        event_timestamp=0,
        segment_leader_epochs=epochs or ((0, start),),
        segment_size=size,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )


def gone(segments, retention: Retention, lineage=((0, 0),)) -> list[tuple[int, Breach]]:
    return [(each.metadata.start_offset, each.breach) for each in expired(segments, lineage, retention)]


limits = st.none() | st.integers(0, 60)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=8),
    limits,
    limits,
    limits,
)
def test_what_goes_is_the_longest_prefix_of_which_each_segment_breaches_something(log, age, size, log_start):
    segments, start = [], 0
    for count, at, bytes_of_it in log:
        segments.append(segment(start, start + count, at=at, size=bytes_of_it))
        start += count
    found = expired(segments, ((0, 0),), Retention(50, age, size, log_start))

    def breaches(number: int) -> bool:
        each, behind = segments[number], sum(other.segment_size for other in segments[number + 1 :])
        return (
            (log_start is not None and each.end_offset + 1 <= log_start)
            or (age is not None and 50 - each.max_timestamp >= age)
            or (size is not None and behind >= size)
        )

    staying = next((number for number in range(len(segments)) if not breaches(number)), len(segments))
    assert [each.metadata for each in found] == segments[:staying]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12),
    st.integers(0, 60),
)
def test_of_copies_that_overlap_so_many_bytes_of_different_offsets_stay_as_were_asked_for(copies, size):
    """Each offset has some bytes; copies of it have the same, whoever made them."""
    bytes_at = [copies[offset % len(copies)][2] for offset in range(30)]
    segments = [segment(start, start + count, size=sum(bytes_at[start : start + count])) for start, count, _ in copies]
    found = expired(segments, ((0, 0),), Retention(NOW, size=size))

    def held(some) -> int:
        return sum(
            bytes_at[offset] for offset in {at for each in some for at in range(each.start_offset, each.end_offset + 1)}
        )

    went = {each.metadata.id for each in found}
    left = [each for each in segments if each.id not in went]
    assert held(left) >= min(size, held(segments))


def test_a_second_copy_of_the_whole_log_makes_nothing_go_and_goes_with_the_first():
    log = [segment(start, start + 10) for _ in range(2) for start in (0, 10, 20)]
    assert gone(log, Retention(NOW, size=300)) == []
    assert gone(log, Retention(NOW, size=200)) == [(0, Breach.SIZE)] * 2


def test_copies_that_overlap_by_one_offset_count_once_and_those_that_only_meet_count_both():
    overlapping, meeting = ([segment(0, 10), segment(10, end), segment(19, 30)] for end in (20, 19))
    assert gone(overlapping, Retention(NOW, size=101)) == []
    assert gone(meeting, Retention(NOW, size=150)) == [(0, Breach.SIZE)]


def test_a_young_segment_protects_older_times_behind_it():
    log = [segment(0, 10, at=0), segment(10, 20, at=NOW), segment(20, 30, at=0)]
    assert gone(log, Retention(NOW, 500)) == [(0, Breach.TIME)]


def test_a_timestamp_that_is_exactly_as_old_goes_and_one_millisecond_younger_stays():
    assert gone([segment(0, 10, at=NOW - 500)], Retention(NOW, 500)) == [(0, Breach.TIME)]
    assert gone([segment(0, 10, at=NOW - 499)], Retention(NOW, 500)) == []


def test_a_store_that_tells_no_time_lets_nothing_look_old():
    assert gone([segment(0, 10, at=1_600_000_000_000)], Retention(0, 1)) == []


def test_what_goes_for_another_reason_counts_against_the_size():
    log = [segment(0, 10, at=0), segment(10, 20, at=NOW), segment(20, 30, at=NOW)]
    assert gone(log, Retention(NOW, 500, 200)) == [(0, Breach.TIME)]
    assert gone(log, Retention(NOW, 500, 100)) == [(0, Breach.TIME), (10, Breach.SIZE)]


def test_a_copy_that_lost_an_election_is_judged_by_the_log_start_alone_and_counts_for_no_size():
    lineage = ((0, 0), (2, 10))
    kept = segment(10, 30, at=NOW, epochs=((2, 10),))
    lost = segment(10, 20, at=0, epochs=((1, 10),))
    first = segment(0, 10, at=0)
    assert gone([first, lost, kept], Retention(NOW, 500), lineage) == [(0, Breach.TIME)]
    assert gone([first, lost, kept], Retention(NOW, None, 150), lineage) == []
    passed = gone([first, lost, kept], Retention(NOW, None, None, 30), lineage)
    assert passed == [(0, Breach.LOG_START), (10, Breach.OUTSIDE_LINEAGE), (10, Breach.LOG_START)]


def test_segments_below_the_first_leader_epoch_of_the_lineage_are_the_oldest_of_the_log():
    log = [segment(0, 10, at=NOW), segment(10, 20, at=NOW, epochs=((3, 10),))]
    assert gone(log, Retention(NOW, 500), ((3, 10),)) == [], "a broker would delete the first unasked"
    assert gone(log, Retention(NOW, None, 100), ((3, 10),)) == [(0, Breach.SIZE)]


def test_a_copy_that_is_not_of_the_log_goes_where_it_ends_with_what_goes_and_stays_where_it_ends_behind():
    lineage = ((0, 0), (2, 10), (3, 30))
    log = [segment(0, 10), segment(10, 30, epochs=((2, 10),)), segment(30, 40, at=NOW, epochs=((3, 30),))]
    lost = {end: segment(10, end, epochs=((1, 10),)) for end in (29, 30, 31)}
    for end, goes in {29: True, 30: True, 31: False}.items():
        found = gone([*log, lost[end]], Retention(NOW, 500), lineage)
        assert ((10, Breach.OUTSIDE_LINEAGE) in found) is goes, end


def test_where_nothing_goes_a_copy_that_is_not_of_the_log_stays_though_it_has_the_first_offset_alone():
    log = [segment(0, 1, epochs=((1, 0),)), segment(0, 10, at=NOW, epochs=((0, 0), (2, 1)))]
    assert gone(log, Retention(NOW, 500), ((0, 0), (2, 1))) == []


def test_a_copy_that_is_not_of_the_log_stays_where_its_leader_epoch_is_newer_than_that_of_the_log_start():
    lineage = ((0, 0), (2, 10), (3, 20))
    log = [segment(0, 10), segment(10, 30, at=NOW, epochs=((2, 10), (3, 20)))]
    for epoch, goes in {1: True, 2: True, 3: False}.items():
        found = gone([*log, segment(5, 10, epochs=((0, 5), (epoch, 8)))], Retention(NOW, 500), lineage)
        assert ((5, Breach.OUTSIDE_LINEAGE) in found) is goes, epoch
