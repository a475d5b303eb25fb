"""What a file may know from before the log start, and what it may not: each condition by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.fold import Entry
from tests.reference.log_builder import TIMESTAMP
from tests.unit.test_snapshot_comparison import rows
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.replay.comparison import NEVER, Comparison
from tiersnap.snapshot.replay.snapshot_comparison import compare

pytestmark = pytest.mark.unit

START = 100  # batches below are gone
OLD = Entry(epoch=0, last_sequence=9, last_offset=99, offset_delta=4, timestamp=TIMESTAMP, coordinator_epoch=5)
MARKER_ONLY = replace(OLD, last_sequence=-1, last_offset=-1, offset_delta=0)
DATA = Entry(epoch=0, last_sequence=3, last_offset=150, offset_delta=2, timestamp=TIMESTAMP, coordinator_epoch=5)
UNMARKED = replace(DATA, coordinator_epoch=-1)
OPEN = replace(DATA, txn_first_offset=120)
EMPTIED = Entry()  # nothing but emptied control batches


def against(found: Entry | None, computed: Entry | None, start: int = START, **more: bool) -> Comparison:
    sides = ({} if entry is None else {7: entry} for entry in (found, computed))
    theirs, ours = (rows(side) for side in sides)
    return compare(theirs, ours, history_from=start, **more)


@pytest.mark.parametrize(
    ("found", "computed"),
    [
        (OLD, None),
        (replace(OLD, txn_first_offset=99), None),
        (replace(OLD, txn_first_offset=0), None),
        (OLD, MARKER_ONLY),
        (DATA, UNMARKED),
        (replace(DATA, coordinator_epoch=0), UNMARKED),
        (replace(DATA, txn_first_offset=99), OPEN),
        (replace(DATA, txn_first_offset=0), OPEN),
        (OLD, EMPTIED),
        (replace(OLD, epoch=3, timestamp=1), EMPTIED),
    ],
)
def test_a_file_extends_the_log_by_what_lies_before_it_and_only_where_something_is_gone(
    found: Entry, computed: Entry | None
) -> None:
    observed = against(found, computed)
    assert (observed.compared, observed.extending, observed.is_start) == (SnapshotVerdict.EXTENDS, 1, True)
    assert observed.harmful_until == -1
    assert against(found, computed, start=0).compared is SnapshotVerdict.SUSPECT


@pytest.mark.parametrize(
    ("found", "computed"),
    [
        (replace(OLD, last_offset=100), None),
        (replace(OLD, txn_first_offset=100), None),
        (replace(OLD, last_offset=100), MARKER_ONLY),
        (replace(OLD, timestamp=TIMESTAMP + 1), MARKER_ONLY),
        (replace(OLD, epoch=1), MARKER_ONLY),
        (replace(OLD, epoch=1), replace(MARKER_ONLY, epoch=0, timestamp=-1)),
        (replace(OLD, coordinator_epoch=6), MARKER_ONLY),
        (replace(OLD, coordinator_epoch=-1), MARKER_ONLY),
        (replace(OLD, coordinator_epoch=1), replace(MARKER_ONLY, coordinator_epoch=0)),
        (replace(DATA, last_offset=99), DATA),
        (replace(DATA, last_offset=99), UNMARKED),
        (replace(DATA, last_sequence=4), DATA),
        (replace(DATA, offset_delta=3), DATA),
        (replace(UNMARKED, last_sequence=4), UNMARKED),
        (replace(DATA, timestamp=0), replace(DATA, timestamp=-1)),
        (replace(UNMARKED, timestamp=1), replace(UNMARKED, timestamp=0)),
        (replace(DATA, txn_first_offset=100), OPEN),
        (replace(DATA, txn_first_offset=119), OPEN),
        (DATA, OPEN),
        (replace(DATA, txn_first_offset=120), DATA),
    ],
)
def test_what_contradicts_batches_that_the_log_holds_is_suspect(found: Entry, computed: Entry | None) -> None:
    observed = against(found, computed)
    assert (observed.compared, observed.is_start) == (SnapshotVerdict.SUSPECT, False)
    assert observed.differing + observed.unexplained == 1


def test_the_offset_where_the_log_begins_is_in_the_log() -> None:
    assert against(replace(OLD, last_offset=0), None, start=1).compared is SnapshotVerdict.EXTENDS
    assert against(replace(OLD, last_offset=1), None, start=1).compared is SnapshotVerdict.SUSPECT


def test_a_producer_that_the_file_lacks_is_never_explained() -> None:
    observed = against(None, DATA)
    assert (observed.compared, observed.lacking, observed.harmful_until) == (SnapshotVerdict.SUSPECT, 1, TIMESTAMP)


def test_a_transaction_open_since_offset_0_is_open() -> None:
    opened = replace(DATA, txn_first_offset=0)
    for found, computed in ((None, opened), (opened, None), (DATA, opened), (opened, DATA)):
        assert against(found, computed, start=0).harmful_until == NEVER


def test_harm_ends_with_the_youngest_of_all_that_differs() -> None:
    theirs = rows({1: replace(DATA, timestamp=5), 2: DATA, 9: replace(DATA, timestamp=7)})
    ours = rows({1: replace(DATA, timestamp=6), 2: DATA, 3: replace(DATA, timestamp=4)})
    observed = compare(theirs, ours, history_from=0)
    assert (observed.lacking, observed.differing, observed.unexplained, observed.harmful_until) == (1, 1, 1, 7)
    for changed in (1, 3):
        later = ours.copy()
        later["timestamp"][np.flatnonzero(later["producer_id"] == changed)] = 9
        assert compare(theirs, later, history_from=0).harmful_until == 9


def test_what_the_cleaner_removed_may_be_known_whatever_it_says() -> None:
    for found, computed in ((OLD, None), (replace(OLD, last_offset=400), None), (DATA, OPEN)):
        observed = against(found, computed, start=0, is_cleaned=True)
        assert (observed.compared, observed.extending) == (SnapshotVerdict.EXTENDS, 1)
        assert "that the log cleaner removed" in observed.explanation
    assert against(None, DATA, start=0, is_cleaned=True).compared is SnapshotVerdict.SUSPECT
