"""Which planned segments copies hold already, against offsets counted one by one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.s3.segments import TOPIC_ID
from tests.unit.test_restore_chain import copy_of
from tiersnap.remote_storage.locks.claim import Attempt, Claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, new_segment_id
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.upload.already_there import covered_of

pytestmark = pytest.mark.unit

LINEAGE = ((0, 0), (2, 8))
BOUNDS = st.tuples(st.integers(0, 15), st.integers(1, 8)).map(lambda each: (each[0], sum(each)))
COPIES = st.tuples(BOUNDS, st.sampled_from([LINEAGE, ((0, 0), (1, 8))]), st.booleans())


@given(st.lists(COPIES, max_size=8), st.lists(BOUNDS, min_size=1, max_size=6))
def test_covered_of_holds_each_offset_of_the_segments(drawn, wanted):
    made = []
    for (start, end), epochs, is_unfinished in drawn:
        copy = copy_of(start, end, epochs=epochs)
        claim = Claim.of(Attempt.of(new_segment_id(), "run")) if is_unfinished else None
        made.append(replace(copy, claim=claim))
    ordered = tuple(sorted(made, key=lambda copy: (copy.start_offset, copy.segment_id)))
    planned = [
        SimpleNamespace(base_offset=base, next_base_offset=end, leader_epochs=LINEAGE)
        for base, end in dict(sorted(wanted)).items()
    ]
    expected = set()
    for base, end in dict(sorted(wanted)).items():
        held = {
            offset
            for copy in made
            if copy.claim is None or copy.bounds == (base, end)
            for offset in range(*copy.bounds)
            if offset < 8 or copy.leader_epochs[-1][0] == 2
        }
        if held >= set(range(base, end)):
            expected.add(base)
    assert covered_of(planned, RemoteInventory(TopicIdPartition("t", TOPIC_ID, 0), ordered)) == expected
