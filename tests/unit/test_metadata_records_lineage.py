"""Which remote segments a broker takes for segments of its log: cases as in Kafka's tests, and a readable reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.remote_storage.metadata.segment_metadata import (
    UNDEFINED,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    end_offset_for,
    outside_lineage,
)

pytestmark = pytest.mark.unit

SEGMENT_ID = RemoteLogSegmentId("topic1", "lZ6vvmajTWKDBUTV6SQAtQ", 0, "adh9f8BMS4anaUnD8KWfWg")
LINEAGE = ((0, 10), (1, 15), (5, 20), (7, 25))
LEO = 100


def segment(start: int, end: int, epochs: dict[int, int]) -> RemoteLogSegmentMetadata:
    """Offsets `start` to `end`, both inclusive."""
    return RemoteLogSegmentMetadata(
        id=SEGMENT_ID,
        start_offset=start,
        end_offset=end,
        broker_id=1,
        max_timestamp=0,
        event_timestamp=0,
        segment_leader_epochs=tuple(epochs.items()),
        segment_size=1,
        state=SegmentState.COPY_SEGMENT_STARTED,
    )


def is_inside(of: RemoteLogSegmentMetadata, lineage=LINEAGE, leo=LEO, log_start=10) -> bool:
    return outside_lineage(of, end_offset_for(lineage, leo), log_start_offset=log_start) == ""


# Cases like those of RemoteLogManagerTest.testRemoteSegmentWithinLeaderEpochs, for a log that starts at 10.
@pytest.mark.parametrize(
    ("start", "end", "epochs", "inside"),
    [
        (15, 35, {1: 15, 5: 20, 7: 25}, True),
        (10, 35, {0: 10, 1: 15, 5: 20, 7: 25}, True),
        (10, 34, {0: 10, 1: 15, 5: 20, 7: 25}, True),
        (15, 19, {1: 15}, True),
        (15, 35, {1: 15, 2: 20, 7: 25}, False),  # an epoch of another log
        (15, 35, {1: 15, 5: 20}, False),  # epoch 5 ends earlier
        (15, 35, {1: 15, 5: 19, 7: 25}, False),  # begins elsewhere
        (10, 100, {0: 10, 1: 15, 5: 20, 7: 25}, False),  # beyond the log end
        (15, 35, {9: 15}, False),
        (14, 16, {1: 14}, False),  # epoch 1 begins at 15
    ],
)
def test_cases_of_kafkas_own_kind(start, end, epochs, inside):
    assert is_inside(segment(start, end, epochs)) == inside


def test_epochs_below_the_log_start_are_no_longer_asked_for():
    assert is_inside(segment(0, 899, {0: 0, 3: 500}), ((3, 600), (6, 900)), 1000, log_start=600)
    assert is_inside(segment(0, 899, {0: 0, 3: 500, 4: 700}), ((3, 600), (4, 700), (6, 900)), 1000, log_start=600)
    assert not is_inside(segment(0, 899, {0: 0, 2: 500}), ((3, 600), (6, 900)), 1000, log_start=600)


def test_after_a_restore_into_another_cluster_the_old_epochs_are_outside():
    lineage = ((0, 0), (2, 1248))
    assert is_inside(segment(0, 311, {0: 0}), lineage, 1300, log_start=0)
    for epochs in ({2: 312}, {4: 624}, {6: 936}):
        start = next(iter(epochs.values()))
        assert not is_inside(segment(start, start + 300, epochs), lineage, 1300, log_start=0)


def test_epochs_without_offsets_say_nothing():
    assert is_inside(segment(10, 24, {0: 10, 1: 15, 4: 20, 5: 20}))


epoch_caches = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9)), min_size=1, max_size=6).map(
    lambda steps: tuple(
        (sum(step for step, _ in steps[: at + 1]) + at, sum(length for _, length in steps[:at]))
        for at in range(len(steps))
    )
)


@given(epoch_caches, st.integers(1, 9), st.data())
def test_a_segment_cut_from_the_log_is_inside_and_none_that_names_another_leader_is(lineage, last, data):
    leo = lineage[-1][1] + last
    leaders = [max(epoch for epoch, first in lineage if first <= offset) for offset in range(leo)]
    start, end = sorted(data.draw(st.tuples(st.integers(0, leo - 1), st.integers(0, leo - 1))))
    log_start = data.draw(st.integers(0, end))
    cache = tuple((epoch, max(first, log_start)) for epoch, first in lineage)
    cache = tuple(entry for entry, after in zip(cache, [*cache[1:], (99, leo)], strict=True) if entry[1] < after[1])

    def cut(of: list[int]) -> RemoteLogSegmentMetadata:
        epochs: dict[int, int] = {}
        for offset in range(start, end + 1):
            epochs.setdefault(of[offset], offset)
        return segment(start, end, epochs)

    assert is_inside(cut(leaders), cache, leo, log_start)

    # Another leader for the offsets from somewhere on: no longer this log, where the broker still knows it.
    changed = data.draw(st.integers(start, end))
    other = data.draw(st.integers(leaders[changed] + 1, 99))
    forged = [other if offset >= changed else leader for offset, leader in enumerate(leaders)]
    expected = all(leaders[offset] == forged[offset] for offset in range(max(start, log_start), end + 1))
    assert is_inside(cut(forged), cache, leo, log_start) == expected


def test_answers_are_those_of_the_broker():
    answer = end_offset_for(LINEAGE, LEO)
    assert [answer(epoch) for epoch in (7, 6, 5, 3, 1, 0)] == [(7, 100), (5, 25), (5, 25), (1, 20), (1, 20), (0, 15)]
    assert answer(8) == UNDEFINED
    assert end_offset_for(LINEAGE[1:], LEO)(0) == (0, 15)
    assert end_offset_for((), 0)(0) == UNDEFINED
