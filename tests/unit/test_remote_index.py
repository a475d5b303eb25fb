"""The copy of which each offset is read, held against Kafka's rule written down as plainly as can be."""

from __future__ import annotations

import pytest

from tests.reference.random_publications import EPOCHS, OFFSETS, publication
from tests.reference.remote_index import RemoteIndex as Reference
from tests.reference.remote_segments import cache_of, remote_segment
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState

pytestmark = pytest.mark.unit


def test_model_reads_each_offset_where_a_broker_finds_it():
    """After each record: the reference is held against Kafka's own cache by tests/broker/test_remote_index.py."""
    for seed in range(2_000):
        reference, model = Reference(), RemoteIndex()
        for record in publication(seed).records:
            reference.apply(record)
            model.apply(record)
            for epoch in EPOCHS:
                ranges = list(model.epochs[epoch].read(OFFSETS.start, OFFSETS.stop - 1))
                found = [(offset, copy) for first, last, copy in ranges for offset in range(first, last + 1)]
                assert [offset for offset, _ in found] == list(OFFSETS), "each once, ascending"
                for offset, copy in found:
                    assert (copy and copy.id.segment_id) == reference.find(epoch, offset), (seed, epoch, offset)


def test_after_shows_what_take_would_leave_and_changes_nothing():
    for seed in range(2_000):
        model = RemoteIndex()
        for record in publication(seed).records:
            model.apply(record)
        before_epochs = {epoch: each for epoch, each in model.copy().epochs.items() if each.starts}
        for segment in publication(seed).ours:
            shown = model.after(segment)
            assert {epoch: each for epoch, each in model.epochs.items() if each.starts} == before_epochs
            taken = model.copy()
            taken.take(segment)
            assert shown == {epoch: taken.epochs[epoch] for epoch in shown}


def test_offsets_of_a_deleted_segment_are_not_found_but_count_for_what_was_finished():
    """A copy that ends before it supersedes nothing, as a broker remembers the highest offset that was finished."""
    outer = remote_segment(0, 199, [(0, 0)], SegmentState.DELETE_SEGMENT_STARTED)
    inner = remote_segment(50, 99, [(0, 50)])
    index = cache_of(outer, inner).index(inner.id.topic_id_partition)
    ours = remote_segment(0, 149, [(0, 0)])
    index.take(ours)
    assert list(index.read(ours)) == [(0, 49, ours), (50, 99, inner), (100, 149, None)]
