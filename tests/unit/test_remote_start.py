"""Where a replay begins in remote storage: which copies lead there, and what is known of the log before."""

from __future__ import annotations

import numpy as np
import pytest

from tiersnap.snapshot.formats.checkpoints import LeaderEpoch
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment
from tiersnap.snapshot.replay.remote_listing import ClaimedStart, ListedCopy, RemoteSegmentState
from tiersnap.snapshot.replay.replay_start import copies_up_to, is_continued, start_state

pytestmark = pytest.mark.unit


def log(
    first: int, *, checkpoint: int | None = None, epochs: tuple[tuple[int, int], ...] | None = ((0, 0),)
) -> Partition:
    segment = Segment(first, None, FileRef("x", 0, 0))
    return Partition(
        "/", (segment,), {}, topic="orders", partition=0, leader_epochs=epochs, log_start_checkpoint=checkpoint
    )


STATES = (RemoteSegmentState.COPY_SEGMENT_STARTED, RemoteSegmentState.COPY_SEGMENT_FINISHED)


def copy(start: int, end: int, *, epoch: int = 0, is_finished: bool = True) -> ListedCopy:
    """A copy of [start, end)."""
    return ListedCopy("x", start, end, STATES[is_finished], leader_epochs=(LeaderEpoch(epoch, start),))


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        ([copy(0, 20), copy(20, 30), copy(30, 40)], [20, 30]),
        ([copy(0, 20, epoch=1)], []),
        ([copy(0, 20, is_finished=False)], []),
        ([copy(0, 19), copy(0, 21)], []),
    ],
    ids=["those that end there", "another lineage", "not finished", "that end beside it"],
)
def test_only_finished_copies_of_the_logs_own_lineage_lead_to_an_offset(
    rows: list[ListedCopy], ends: list[int]
) -> None:
    found = copies_up_to({20, 30}, rows, log(20))
    assert [each.next_base_offset for each in found] == ends


def test_a_copy_of_which_the_lineage_knows_only_the_beginning_is_none() -> None:
    lineage = ((0, 0), (2, 15))
    assert copies_up_to({20}, [copy(10, 20)], log(20, epochs=lineage)) == []
    assert copies_up_to({20}, [copy(19, 20)], log(20, epochs=((0, 0), (2, 19)))) == []
    assert copies_up_to({20}, [copy(10, 20)], log(20, epochs=None)) == []


@pytest.mark.parametrize(
    ("provenance", "is_complete"),
    [
        (Provenance.BROKER, True),
        (Provenance.COMPUTED, True),
        (Provenance.COMPUTED_FROM_LOG_START, False),
        (Provenance.COMPUTED_FROM_SNAPSHOT, False),
    ],
)
def test_a_start_tells_all_of_the_log_where_it_was_made_of_all_of_it(provenance: Provenance, is_complete: bool) -> None:
    start = ClaimedStart(30, "x", 20, 1, provenance)
    state = start_state(log(20), start, np.zeros(1, ENTRY_DTYPE))
    assert (state.offset, state.history_from, state.has_adopted, state.lacks_start) == (30, 20, is_complete, False)
    assert state.deltas.size == 1


@pytest.mark.parametrize(
    ("partition", "rows", "expected"),
    [
        (log(20, checkpoint=0), [], True),
        (log(20, checkpoint=20), [copy(10, 20)], False),
        (log(0), [copy(0, 10)], False),
        (log(20), [copy(0, 20)], True),
        (log(20), [copy(0, 10), copy(10, 30)], True),
        (log(20), [copy(0, 10)], None),
        (log(20), [copy(10, 20)], None),
        (log(20), [copy(20, 30)], None),
        (log(20), [copy(0, 20, epoch=3)], None),
        (log(20, epochs=None), [copy(0, 20)], None),
        (log(20, epochs=((0, 10),)), [copy(10, 20)], True),
        (log(20, epochs=((0, 20),)), [copy(10, 20)], True),
        (log(20, epochs=((0, 20),)), [], False),
        (log(1), [copy(0, 1)], True),
        (log(1), [], None),
    ],
)
def test_log_goes_on_from_remote_storage_by_its_checkpoint_or_by_copies(
    partition: Partition, rows: list[ListedCopy], expected: bool | None
) -> None:
    assert is_continued(partition, rows) is expected
