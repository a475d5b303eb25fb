"""What is said of a compared file, and each condition of its worth by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reference.fold import Entry
from tests.reference.log_builder import TIMESTAMP
from tests.unit.test_snapshot_comparison import rows
from tests.unit.test_trust_moved_start import DATA, OLD, against
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.snapshot_comparison import compare, found_at

pytestmark = pytest.mark.unit

DAY = 86_400_000
LATER = TIMESTAMP + 400 * DAY
AT_LATER = BrokerExpiry(LATER, DAY)
PLAIN = Entry(epoch=0, last_sequence=3, last_offset=150, offset_delta=2, timestamp=TIMESTAMP)


def said(theirs: dict[int, Entry], ours: dict[int, Entry], start: int = 0) -> str:
    return compare(rows(theirs), rows(ours), history_from=start).explanation


@pytest.mark.parametrize("verdict", [SnapshotVerdict.CORRUPT, SnapshotVerdict.MISSING, SnapshotVerdict.UNVERIFIED])
def test_what_was_not_compared_stays_what_it_is_however_late(verdict: SnapshotVerdict) -> None:
    found = Comparison(verdict, "the words", extending=1)
    assert found.verdict(AT_LATER) is verdict
    assert found.reason(AT_LATER) == "the words"


@pytest.mark.parametrize("kind", ["lacking", "differing", "unexplained"])
def test_each_kind_of_difference_is_harmless_once_its_producers_are_dropped(kind: str) -> None:
    found = Comparison(SnapshotVerdict.SUSPECT, "one", harmful_until=TIMESTAMP, **{kind: 1})
    assert found.does_harm(BrokerExpiry(TIMESTAMP + DAY - 1, DAY))
    assert not found.does_harm(BrokerExpiry(TIMESTAMP + DAY, DAY))
    assert found.does_harm(BrokerExpiry(LATER, None))
    assert found.reason(AT_LATER) == (
        "one: harmless, because a broker that loads the file drops such idle producers anyway"
    )


def test_a_forgotten_marker_is_harmless_while_producers_are_dropped_at_all() -> None:
    found = Comparison(SnapshotVerdict.SUSPECT, "one", without_coordinator_epoch=1)
    assert found.reason(AT_LATER) == (
        "one: harmless, because the next marker of each producer sets the coordinator epoch again"
    )
    assert found.does_harm(BrokerExpiry(LATER, None))


def test_producers_without_transactions_match_although_no_coordinator_is_set() -> None:
    assert against(PLAIN, PLAIN, 0) == Comparison(SnapshotVerdict.MATCHES, "the snapshot equals the log: 1 producer")


def test_a_marker_is_forgotten_only_where_the_file_has_none_and_the_log_has_a_batch() -> None:
    first = replace(DATA, last_offset=0, offset_delta=0)
    assert against(replace(first, coordinator_epoch=-1), first, 0).without_coordinator_epoch == 1
    assert against(replace(DATA, coordinator_epoch=0), DATA, 0).differing == 1
    unbatched = replace(DATA, last_offset=-1, last_sequence=-1, offset_delta=0)
    assert against(replace(unbatched, coordinator_epoch=-1), unbatched, 0).differing == 1


def test_from_offset_0_on_nothing_is_from_before_the_log_and_from_1_on_one_offset_is() -> None:
    marked = Entry(epoch=0, timestamp=TIMESTAMP, coordinator_epoch=1)
    assert against(marked, None, 0).unexplained == 1
    older = replace(OLD, last_offset=0)
    assert against(older, replace(older, last_sequence=-1, last_offset=-1, offset_delta=0), 1).extending == 1


def test_the_words_count_what_was_compared() -> None:
    other = replace(PLAIN, last_sequence=9)
    assert said({}, {}) == "the snapshot equals the log: 0 producers"
    assert said({}, {1: PLAIN, 2: PLAIN}) == "the snapshot is empty, but the log has 2 producers"
    assert said({1: PLAIN}, {1: PLAIN, 2: PLAIN, 3: PLAIN}) == "the snapshot lacks 2 of 3 producers in the log"
    assert said({1: other, 2: PLAIN}, {1: PLAIN}) == (
        "1 producer differs from the log; the snapshot has 1 producer that the log does not have"
    )
    assert said({1: replace(DATA, coordinator_epoch=-1)}, {1: DATA}) == (
        "1 producer has no coordinator epoch in the snapshot, although the log has one"
    )
    assert said({1: OLD, 2: PLAIN}, {2: PLAIN}, 100) == (
        "the snapshot also has 1 producer of batches below offset 100, where this log begins"
    )


@pytest.mark.parametrize(
    ("error", "verdict", "words", "kept"),
    [
        (FileNotFoundError(2, "No such file"), "MISSING", " was deleted after the listing", "No such file"),
        (PermissionError(13, "Permission denied"), "UNVERIFIED", ": Permission denied", "Permission denied"),
        (OSError("the store hung up"), "UNVERIFIED", ": the store hung up", "the store hung up"),
    ],
)
def test_a_file_that_cannot_be_read_is_unverified_and_one_that_went_is_missing(
    error: OSError, verdict: str, words: str, kept: str
) -> None:
    def read(_: int) -> bytes:
        raise error

    found = found_at(10, read)
    assert (found.comparison.compared, found.comparison.explanation) == (verdict, f"{10:020d}.snapshot{words}")
    assert (found.file.not_read, found.file.file_crc32c, found.entries) == (kept, None, None)


def test_only_a_state_that_begins_where_local_files_begin_lacks_its_start() -> None:
    assert [each for each in Provenance if each.lacks_start] == [Provenance.COMPUTED_FROM_LOCAL_START]
