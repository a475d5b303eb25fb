"""Which gaps between segments hold lost batches, as all snapshot files behind each say, asked one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.log.log_dir import FileRef, Partition
from tiersnap.snapshot.replay.lost_offsets import LostOffsets, LostOffsetsSearch

pytestmark = pytest.mark.unit

Told = list[tuple[int, int]]
"""(last offset, first offset of the transaction or -1) of each producer."""


def encoded(told: Told) -> bytes:
    entries = np.zeros(len(told), ENTRY_DTYPE)
    for number, (last_offset, txn_first_offset) in enumerate(told):
        entries[number]["producer_id"] = number
        entries[number]["last_offset"] = last_offset
        entries[number]["current_txn_first_offset"] = txn_first_offset
    return snapshot_file.encode(entries)


def found(
    segments: list[tuple[int, int]],
    files: Mapping[int, bytes | None],
    cleaner_offset: int | None = None,
    orphan_indexes: tuple[int, ...] = (),
) -> tuple[list[LostOffsets], Counter[int]]:
    """What is lost behind segments of [base, end), and how often each file was read."""
    snapshots = {offset: FileRef("x", 0, 0) for offset in files}
    partition = Partition(
        "/", (), snapshots, topic="orders", partition=0, cleaner_offset=cleaner_offset, orphan_indexes=orphan_indexes
    )
    reads: Counter[int] = Counter()

    def read(offset: int) -> bytes | None:
        reads[offset] += 1
        return files[offset]

    search = LostOffsetsSearch(partition, read)
    nexts = [*(base for base, _ in segments[1:]), None]
    asked = [search.between(end, following) for (_, end), following in zip(segments, nexts, strict=True)]
    return [each for each in asked if each is not None], reads


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], dict[int, Told]]:
    """Segments with gaps, and files at any offset that tell of any offsets, right or wrong."""
    edges = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=12)))
    ends = [draw(st.integers(base + 1, following)) for base, following in pairwise(edges)]
    offset = st.integers(0, 70)
    told = st.lists(st.tuples(offset, st.one_of(st.just(-1), offset)), max_size=4)
    return list(zip(edges[:-1], ends, strict=True)), draw(st.dictionaries(offset, told, max_size=8))


@given(log=logs(), cleaner_offset=st.one_of(st.none(), st.integers(0, 60)))
def test_a_gap_is_lost_where_a_file_behind_it_knows_of_it_and_each_file_is_read_at_most_once(log, cleaner_offset):
    segments, files = log
    expected = [
        LostOffsets(end, following)
        for (_, end), (following, _) in pairwise(segments)
        if end < following
        and following > (cleaner_offset or 0)
        and any(
            at >= following and any(end <= each < following for pair in told for each in pair)
            for at, told in files.items()
        )
    ]
    lost, reads = found(segments, {at: encoded(told) for at, told in files.items()}, cleaner_offset)
    assert lost == expected
    assert set(reads.values()) <= {1}


@given(
    log=logs(),
    cleaner_offset=st.one_of(st.none(), st.integers(0, 60)),
    orphan_indexes=st.sets(st.integers(0, 70), max_size=6),
)
def test_a_gap_is_lost_where_a_segment_began_in_it_of_which_an_index_is_left(log, cleaner_offset, orphan_indexes):
    segments, _ = log
    left = {offset for offset in orphan_indexes if offset >= (cleaner_offset or 0)}
    expected = [
        LostOffsets(end, following, min(left & set(range(end, following))))
        for (_, end), (following, _) in pairwise(segments)
        if left & set(range(end, following))
    ]
    assert found(segments, {}, cleaner_offset, tuple(sorted(orphan_indexes)))[0] == expected


def test_no_file_is_read_for_a_gap_that_an_index_proves_and_each_is_for_the_next_gap():
    files = {20: encoded([(12, -1)]), 40: encoded([(33, -1)])}
    lost, reads = found([(0, 10), (20, 30), (40, 50)], files, orphan_indexes=(10,))
    assert lost == [LostOffsets(10, 20, 10), LostOffsets(30, 40)]
    assert reads == {40: 1}


def test_files_that_cannot_be_read_prove_nothing_and_hide_nothing():
    files = {20: None, 25: b"x", 30: encoded([(12, -1)])}
    lost, reads = found([(0, 10), (20, 30)], files)
    assert lost == [LostOffsets(10, 20)]
    assert set(reads) == {20, 25, 30}


def test_nothing_is_read_of_a_log_without_gaps_or_once_one_is_proven():
    told = encoded([(12, -1)])
    assert found([(0, 10), (10, 20)], {10: told, 20: told})[1] == {}
    assert found([(0, 10), (20, 30)], {10: told, 20: told, 30: told})[1] == {20: 1}


@pytest.mark.parametrize(("offset", "is_known"), [(9, False), (10, True), (19, True), (20, False)])
def test_a_file_knows_of_lost_offsets_by_a_last_batch_or_a_transaction_among_them(offset, is_known):
    lost = LostOffsets(10, 20)
    assert lost.is_known_to(snapshot_file.decode(encoded([(3, -1), (offset, -1)]))) is is_known
    assert lost.is_known_to(snapshot_file.decode(encoded([(25, offset)]))) is is_known


@pytest.mark.parametrize(("cleaner_offset", "is_lost"), [(19, True), (20, False), (21, False)])
def test_a_gap_that_the_cleaner_has_passed_is_no_loss(cleaner_offset, is_lost):
    lost, _ = found([(0, 10), (20, 30)], {20: encoded([(12, -1)])}, cleaner_offset)
    assert bool(lost) is is_lost


@pytest.mark.parametrize(("cleaner_offset", "is_lost"), [(11, True), (12, True), (13, False)])
def test_an_index_that_the_cleaner_left_below_its_offset_proves_nothing(cleaner_offset, is_lost):
    lost, _ = found([(0, 10), (20, 30)], {}, cleaner_offset, (12,))
    assert [each.proof for each in lost] == ["the index file of a segment at offset 12 still exists"] * is_lost
    assert found([(0, 10), (20, 30)], {20: encoded([(12, -1)])})[0][0].proof == (
        "a snapshot file names batches with these offsets"
    )
