"""The leader epochs of a segment that is made again."""

from __future__ import annotations

import pytest

from tests.reference.remote_segments import remote_segment
from tiersnap.remote_storage.errors import NotRebuiltError
from tiersnap.remote_storage.mend.record_lineage import lineage_of_record
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("own", "lineage", "log_start", "expected"),
    [
        (((0, 10),), ((0, 0),), 0, ((0, 0),)),
        (((2, 10), (5, 15)), ((0, 0), (2, 4)), 0, ((0, 0), (2, 4), (5, 15))),
        (((2, 10),), ((0, 0), (2, 10)), 0, ((0, 0), (2, 10))),
        (((2, 10),), ((0, 0), (1, 3)), 0, ((0, 0), (1, 3), (2, 10))),
        (((2, 10),), ((2, 10),), 0, ((2, 10),)),
        (((2, 10), (3, 19)), ((0, 0),), 0, ((0, 0), (2, 10), (3, 19))),
        # Later epochs are those of the record alone.
        (((2, 10),), ((0, 0), (2, 4), (3, 12), (7, 30)), 0, ((0, 0), (2, 4))),
        # The log begins with the segment.
        (((2, 10), (3, 12)), (), 10, ((2, 10), (3, 12))),
        # A later leader cut the log below the segment.
        (((7, 10),), ((0, 0), (9, 2)), 0, ((0, 0), (7, 10))),
        (((7, 10),), ((0, 0), (9, 10)), 0, ((0, 0), (7, 10))),
        (((7, 10),), ((0, 0), (3, 12)), 0, ((0, 0), (7, 10))),
    ],
)
def test_lineage_of_record_is_what_it_was_when_the_record_was_written(
    own: LeaderEpochs, lineage: LeaderEpochs, log_start: int, expected: LeaderEpochs
) -> None:
    assert lineage_of_record(remote_segment(10, 19, own), lineage, log_start) == expected


@pytest.mark.parametrize(
    ("own", "lineage", "log_start", "why"),
    [
        (((2, 10),), (), 9, "no other segment has the leader epochs of the offsets below"),
        (((2, 10),), ((3, 0),), 0, "no other segment has"),
        (
            ((2, 12),),
            ((0, 0),),
            0,
            r"the segment has the leader epochs \(\(2, 12\),\), but the log has \(\(0, 0\),\)",
        ),
        (((2, 10), (3, 20)), ((2, 0),), 0, "the segment has the leader epochs .*, but the log has"),
    ],
)
def test_lineage_of_record_refuses_epochs_that_are_unknown_or_contradict_it(
    own: LeaderEpochs, lineage: LeaderEpochs, log_start: int, why: str
) -> None:
    with pytest.raises(NotRebuiltError, match=why):
        lineage_of_record(remote_segment(10, 19, own), lineage, log_start)
