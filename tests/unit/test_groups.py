"""Sorted rows, however they are cut into batches, are the groups that a plain loop finds."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.snapshot.state.producer_state import DELTA_DTYPE
from tiersnap.snapshot.tables.deltas import from_lists, to_lists
from tiersnap.snapshot.tasks.groups import groups

pytestmark = pytest.mark.unit

ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=30).map(sorted)


def batches_of(rows: list[tuple[str, int]], cuts: list[int]) -> list[pa.RecordBatch]:
    names, numbers = [name for name, _ in rows], [number for _, number in rows]
    arrays = [pa.array(names, pa.string()), pa.array(numbers, pa.int32()), pa.array(range(len(rows)), pa.int64())]
    whole = pa.RecordBatch.from_arrays(arrays, names=["topic", "partition", "row"])
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {0, len(rows)})
    pieces = [whole.slice(start, end - start) for start, end in pairwise(ends)]
    return [whole.slice(0, 0), *pieces, whole.slice(0, 0)]


@given(ROWS, st.lists(st.integers(0, 30)))
def test_groups_are_those_of_a_plain_loop_wherever_batches_end(rows, cuts):
    expected = [
        (key, [number for number, _ in some]) for key, some in groupby(enumerate(rows), key=lambda each: each[1])
    ]
    found = [
        (tuple(value.as_py() for value in key), [row for batch in some for row in batch.column("row").to_pylist()])
        for key, some in groups(batches_of(rows, cuts), ["topic", "partition"])
    ]
    assert found == expected


@given(ROWS, st.lists(st.integers(0, 30)))
def test_a_group_that_nobody_reads_to_its_end_takes_nothing_from_the_next(rows, cuts):
    found = [
        (tuple(value.as_py() for value in key), next(some).column("row")[0].as_py())
        for key, some in groups(batches_of(rows, cuts), ["topic", "partition"])
    ]
    assert found == [(key, next(some)[0]) for key, some in groupby(enumerate(rows), key=lambda each: each[1])]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
def test_deltas_of_a_slice_are_those_of_its_rows(sizes, data):
    many = [np.zeros(size, DELTA_DTYPE) for size in sizes]
    for number, deltas in enumerate(many):
        deltas["producer_id"] = number
    start = data.draw(st.integers(0, len(sizes)))
    found = from_lists(to_lists(many).slice(start))
    assert [each.tobytes() for each in found] == [each.tobytes() for each in many[start:]]
