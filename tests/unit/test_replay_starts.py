"""The replay: what a start says, what adopting a broker's file changes, where a refused partition stops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.reference.fold import Entry, State
from tests.reference.folded import fold
from tests.reference.log_builder import TIMESTAMP, data_batch, marker, write_partition
from tests.reference.recovered import rows_of
from tests.unit.test_snapshot_comparison import rows
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.judge import judge
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.producer_fold import ProducerFold
from tiersnap.snapshot.replay.examine import Examination, examine
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.partition_state import Boundary, Refusal, ReplayState
from tiersnap.snapshot.replay.replay_start import StartState
from tiersnap.snapshot.replay.segment_runs import Run

pytestmark = pytest.mark.unit

OLD = Entry(epoch=3, last_sequence=4, last_offset=5, offset_delta=0, timestamp=TIMESTAMP, coordinator_epoch=1)


def run(offset: int, producer_id: int = 1) -> Run:
    return Run(offset, fold(rows_of(data_batch(offset, 10, producer_id, 0, offset))), TIMESTAMP)


def of_log(last_offset: int) -> Entry:
    return Entry(epoch=0, last_sequence=last_offset, last_offset=last_offset, offset_delta=9, timestamp=TIMESTAMP + 9)


def at(state: ReplayState, offset: int, found: State | None = None) -> Boundary:
    data = None if found is None else snapshot_file.encode(rows(found))
    return state.boundary(offset, read_snapshot=lambda _: data)


def ids(entries: np.ndarray) -> list[int]:
    return entries["producer_id"].tolist()


def test_a_file_that_knows_producers_from_before_the_log_start_is_the_state_from_there_on() -> None:
    state = ReplayState(log_start=10)
    state.advance(run(10))
    before = at(state, 20)
    assert (before.provenance, ids(before.entries)) == (Provenance.COMPUTED_FROM_LOG_START, [1])
    adopted = at(state, 20, {1: of_log(19), 7: OLD})
    assert adopted.found.compared is SnapshotVerdict.EXTENDS
    assert (adopted.provenance, ids(adopted.entries), adopted.folded_from) == (Provenance.COMPUTED, [1, 7], 10)
    state.advance(run(20))
    assert ids(at(state, 30).entries) == [1, 7]
    # Once a file told what was gone, a later one cannot know more, nor may it know less.
    more = at(state, 30, {1: of_log(29), 7: OLD, 8: OLD})
    less = at(state, 30, {1: of_log(29)})
    assert [each.found.compared for each in (more, less)] == [SnapshotVerdict.SUSPECT] * 2
    assert (more.found.unexplained, less.found.lacking) == (1, 1)
    assert at(state, 30, {1: of_log(29), 7: OLD}).found.compared is SnapshotVerdict.MATCHES


def test_a_file_that_is_not_strictly_right_changes_no_state() -> None:
    state = ReplayState(log_start=10)
    state.advance(run(10))
    for found in ({7: OLD}, {1: replace(of_log(19), last_sequence=3), 7: OLD}, {}):
        refused = at(state, 20, found)
        assert refused.found.compared is SnapshotVerdict.SUSPECT
        assert ids(refused.entries) == [1]
        assert not state.has_adopted


def test_once_a_file_was_adopted_a_producer_of_offset_0_is_one_too_many_like_any_other() -> None:
    state = ReplayState(log_start=10)
    state.advance(run(10))
    at(state, 20, {1: of_log(19), 7: OLD})
    more = at(state, 20, {1: of_log(19), 7: OLD, 8: replace(OLD, last_offset=0)})
    assert (more.found.compared, more.found.unexplained) == (SnapshotVerdict.SUSPECT, 1)


def test_a_log_that_is_continued_begins_with_an_empty_file_where_its_files_do() -> None:
    state = ReplayState(log_start=10, is_continued=True)
    assert state.lacks_start
    state.begin(read_snapshot=lambda _: snapshot_file.encode(rows({})))
    assert not state.lacks_start
    state.advance(run(10))
    found = at(state, 20, {1: of_log(19)})
    assert (found.found.compared, found.provenance) == (SnapshotVerdict.MATCHES, Provenance.COMPUTED_FROM_SNAPSHOT)


def test_where_the_cleaner_never_was_a_file_at_offset_1_must_be_right() -> None:
    state = ReplayState(log_start=0)
    state.advance(Run(0, fold(rows_of(data_batch(0, 1, 1, 0, 0))), TIMESTAMP))
    known = {1: replace(of_log(0), offset_delta=0, timestamp=TIMESTAMP)}
    assert at(state, 1, known).found.compared is SnapshotVerdict.MATCHES
    assert at(state, 1, {**known, 7: OLD}).found.compared is SnapshotVerdict.SUSPECT


def test_what_is_open_at_a_boundary_is_told_where_it_is_known() -> None:
    found = at(ReplayState(log_start=0), 0).found
    unknown = Boundary(0, tuple, Provenance.COMPUTED, found, 0, open_now=None)
    known = Boundary(0, tuple, Provenance.COMPUTED, found, 0, open_now=lambda: ((7, 0),))
    assert (unknown.open_transactions, known.open_transactions) == (None, ((7, 0),))


def test_what_was_adopted_is_remembered_in_the_state_to_continue_from() -> None:
    state = ReplayState(log_start=10)
    state.advance(run(10))
    assert not state.state(20).has_adopted
    at(state, 20, {1: of_log(19), 7: OLD})
    kept = state.state(20)
    assert (kept.offset, kept.history_from, kept.has_adopted) == (20, 10, True)
    again = ReplayState(log_start=10, start=kept)
    assert (again.provenance, ids(at(again, 20).entries)) == (Provenance.COMPUTED, [1, 7])
    assert at(again, 20, {1: of_log(19), 7: OLD, 8: OLD}).found.compared is SnapshotVerdict.SUSPECT


@pytest.mark.parametrize(
    ("log_start", "history_from", "has_adopted", "folded_from", "provenance"),
    [
        (0, 0, False, 0, Provenance.COMPUTED),
        (10, 10, False, 10, Provenance.COMPUTED_FROM_LOG_START),
        (10, 40, False, 40, Provenance.COMPUTED_WITHIN_WINDOW),
        (0, 40, False, 40, Provenance.COMPUTED_WITHIN_WINDOW),
        (10, 10, True, 10, Provenance.COMPUTED),
    ],
)
def test_a_start_says_how_far_back_its_history_goes(
    log_start: int, history_from: int, has_adopted: bool, folded_from: int, provenance: Provenance
) -> None:
    start = StartState(50, run(40).deltas, history_from, has_adopted)
    state = ReplayState(log_start=log_start, start=start)
    assert (state.folded_from, state.provenance, state.history_from) == (folded_from, provenance, history_from)
    observed = at(state, 50, {1: of_log(49), 7: OLD}).found.compared
    knows_all = history_from == 0 or has_adopted
    assert observed is (SnapshotVerdict.SUSPECT if knows_all else SnapshotVerdict.EXTENDS)


@pytest.mark.parametrize(("cleaned_below", "is_explained"), [(20, True), (21, True), (19, False), (None, False)])
def test_up_to_the_cleaners_offset_itself_a_file_may_know_what_was_removed(
    cleaned_below: int | None, is_explained: bool
) -> None:
    state = ReplayState(log_start=0, cleaned_below=cleaned_below)
    state.advance(run(0))
    observed = at(state, 20, {1: of_log(9), 7: OLD}).found.compared
    assert observed is (SnapshotVerdict.EXTENDS if is_explained else SnapshotVerdict.SUSPECT)


def test_of_two_producers_that_a_broker_refuses_in_one_run_the_first_is_named() -> None:
    opened = data_batch(0, 1, 1, 0, 0, transactional=True) + data_batch(1, 1, 2, 0, 0, transactional=True)
    for first, second in ((1, 2), (2, 1)):
        refused = data_batch(2, 1, first, 0, 1) + data_batch(3, 1, second, 0, 1)
        state = ReplayState(log_start=0)
        assert state.advance(Run(0, fold(rows_of(opened)), TIMESTAMP))
        assert not state.advance(Run(2, fold(rows_of(refused)), TIMESTAMP))
        assert state.refusal is not None
        assert state.refusal.offset == 2
        assert "the batch at offset 2 is not transactional" in state.refusal.message


def look(log_dir: Path, segments: dict[int, list[bytes]]) -> Examination:
    write_partition(log_dir, "orders", 0, segments, indexes=True, high_watermark=60)
    (partition,) = open_log_dir(str(log_dir)).partitions()
    return examine(LOCAL, partition)


@pytest.mark.parametrize("refused_at", [20, 29])
def test_the_gate_lets_nothing_pass_from_the_segment_on_that_a_broker_refuses(tmp_path: Path, refused_at: int) -> None:
    before = [] if refused_at == 20 else [data_batch(20, 9, 3, 0, 0)]
    found = look(
        tmp_path,
        {
            0: [data_batch(0, 10, 7, 0, 0), marker(10, 9, 0, 0, commit=True)],
            11: [data_batch(11, 9, 7, 0, 0, transactional=True)],
            20: [*before, data_batch(refused_at, 1, 7, 0, 1)],
            40: [data_batch(40, 10, 5, 0, 0)],
            50: [data_batch(50, 10, 5, 0, 10)],
        },
    )
    assert isinstance(found.stopped_by, Refusal)
    assert found.stopped_by.offset == refused_at
    facts = {each.base_offset: (each.damage_kind, bool(each.damage)) for each in found.segments}
    kind = FindingKind.NON_TRANSACTIONAL_IN_TRANSACTION
    assert facts == {0: (None, False), 11: (None, False), 20: (kind, True), 40: (None, False), 50: (None, False)}
    assert [each.finding_kind for each in found.findings] == [kind]
    assert {offset: each.compared for offset, each in found.snapshots.items()} == {
        11: SnapshotVerdict.MISSING,
        20: SnapshotVerdict.MISSING,
    }
    verdicts = [each.verdict for each in judge(found.facts, found.examined, BrokerExpiry(TIMESTAMP, None))]
    assert verdicts[2:] == [Verdict.CORRUPT_SEGMENT, Verdict.GAP_BEFORE, Verdict.ACTIVE_SEGMENT]
    assert "not comparable: the batch at offset" in found.ends[3].explanation


def test_the_first_refused_batch_is_named_also_when_the_table_grows_between_two() -> None:
    producers = ProducerFold(capacity=1)  # of 16
    opened = b"".join(data_batch(offset, 1, 100 + offset, 0, 0, transactional=True) for offset in range(10))
    producers.combine(fold(rows_of(opened)))
    others = [fold(rows_of(data_batch(20 + number, 1, number, 0, 0))) for number in range(12)]
    first, last = (fold(rows_of(data_batch(offset, 1, offset + 60, 0, 1))) for offset in (41, 40))
    assert producers.combine(np.concatenate([first, *others, last])) == 40
