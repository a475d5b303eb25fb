"""Of which copy each offset is read, held against Kafka's rule written down as plainly as can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.remote_index import RemoteIndex as Reference
from tests.reference.remote_segments import remote_segment
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata

pytestmark = pytest.mark.unit


@st.composite
def copies(draw: st.DrawFn) -> RemoteLogSegmentMetadata:
    start = draw(st.integers(0, 11))
    end = draw(st.integers(start, 12))
    later = draw(st.lists(st.integers(start + 1, 12), max_size=2, unique=True)) if start < 12 else []
    offsets = [start, *sorted(each for each in later if each <= end)]
    first_epoch = draw(st.integers(0, 2))
    return remote_segment(start, end, [(first_epoch + number, offset) for number, offset in enumerate(offsets)])


def epoch_of(segment: RemoteLogSegmentMetadata, offset: int) -> int:
    return max(epoch for epoch, start in segment.segment_leader_epochs if start <= offset)


@given(st.lists(copies(), max_size=6), copies())
def test_each_offset_is_read_where_a_broker_finds_it(
    finished: list[RemoteLogSegmentMetadata], asked: RemoteLogSegmentMetadata
) -> None:
    reference = Reference()
    for each in finished:
        reference.finish(each)

    ranges = list(RemoteIndex(finished).read(asked))

    offsets = [offset for first, last, _ in ranges for offset in range(first, last + 1)]
    assert offsets == list(range(asked.start_offset, asked.end_offset + 1)), "each once, ascending"
    for first, last, found in ranges:
        for offset in range(first, last + 1):
            assert found is reference.find(epoch_of(asked, offset), offset), offset
