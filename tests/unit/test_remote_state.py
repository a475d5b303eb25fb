"""Which remote snapshot a log may be continued from, and what is computed where the newest one may not be."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.reference.fold import Entry, State
from tests.reference.log_builder import TIMESTAMP, data_batch, marker
from tests.reference.rebuilt_replica import DAY, TieredLog, living, random_tiered_log
from tiersnap.remote_storage.remote_log.remote_state import ClaimFacts, find_state
from tiersnap.snapshot.errors import UnknownStateError
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import RemoteState

pytestmark = pytest.mark.unit

NOBODY: State = {}


def found(
    log: TieredLog, *, now: int | None = None, expiration: int | None = DAY, start: int | None = 0
) -> RemoteState:
    at = log.now if now is None else now
    return find_state(log.end, log.remote, log, log_start_offset=start, expiry=BrokerExpiry(at, expiration))


def state_of(entries: np.ndarray) -> State:
    return {producer: Entry(*values) for producer, *values in entries.tolist()}


def poisoned(*known: State | None, first: int = 4) -> TieredLog:
    """Thirty producers that live write into the first segments, then nobody does; a snapshot each, or the right one."""
    log = TieredLog()
    for number, each in enumerate(known):
        at, per = log.end, 1 if number < first else 0
        batches = [data_batch(at + p, 1, p, 0, number) for p in range(30) if per]
        log.add(*batches, *([] if per else [data_batch(at, 30)]), length=30, known=each)
    return log


def test_state_starts_from_the_last_snapshot_before_a_replica_was_rebuilt() -> None:
    log = poisoned(None, None, None, None, NOBODY, NOBODY, NOBODY)
    state = found(log)
    assert state_of(state.entries) == log.truth
    assert len(state.entries) == 30
    assert state.refused == (
        "the snapshot of remote segment segment-180 at offset 210 lacks 30 active producers of the snapshot at "
        "offset 120",
    )


def test_a_snapshot_that_agrees_and_lost_nobody_is_taken_as_it_is() -> None:
    log = poisoned(None, None, None, None, None, None)
    extra = {**log.truth, 99: Entry(0, 1, 2, 0, TIMESTAMP)}
    log.snapshots[log.end] = extra
    log.lost = {0, 30, 60, 90, 120}
    state = found(log)
    assert (state_of(state.entries), state.refused, state.is_complete) == (extra, (), False)


@pytest.mark.parametrize(("days", "is_refused"), [(0.99, True), (1, False)])
def test_only_producers_that_live_now_are_missed(days: float, is_refused: bool) -> None:
    log = poisoned(None, NOBODY, NOBODY, first=1)
    state = found(log, now=TIMESTAMP + int(days * DAY))
    assert bool(state.refused) is is_refused
    assert len(state.entries) == (30 if is_refused else 0)
    assert found(log, now=TIMESTAMP + 100 * DAY, expiration=None).refused


def test_a_transaction_that_is_open_is_missed_whatever_its_age() -> None:
    log = TieredLog()
    log.add(data_batch(0, 5, 1, 0, 0, transactional=True), length=5)
    log.add(data_batch(5, 5), length=5, known=NOBODY)
    state = found(log, now=TIMESTAMP + 365 * DAY)
    assert state_of(state.entries) == log.truth
    assert "lacks 1 active producer of the snapshot at offset 5" in state.refused[0]


AFTER = {
    "the rest of its transaction": data_batch(5, 5, 1, 0, 5, transactional=True),
    "a marker of the same epoch": marker(5, 1, 0, 3, commit=True),
    "another batch, its coordinator forgotten": data_batch(5, 5, 2, 0, 5),
}


@pytest.mark.parametrize("behind", AFTER.values(), ids=AFTER)
def test_a_producer_that_came_back_must_have_what_it_had(behind: bytes) -> None:
    log = TieredLog()
    log.add(
        data_batch(0, 3, 1, 0, 0, transactional=True), data_batch(3, 1, 2, 0, 0), marker(4, 2, 0, 7, True), length=5
    )
    rebuilt = TieredLog(end=5)
    rebuilt.add(behind, length=5)
    log.add(behind, length=5, known={**{p: e for p, e in log.truth.items() if p not in rebuilt.truth}, **rebuilt.truth})
    state = found(log)
    assert state_of(state.entries) == log.truth
    assert "lacks 1 active producer" in state.refused[0]


def test_a_producer_that_came_back_whole_is_no_loss() -> None:
    log = TieredLog()
    log.add(data_batch(0, 3, 1, 0, 0, transactional=True), length=3)
    log.add(marker(3, 1, 1, 3, commit=True), data_batch(4, 1, 1, 1, 0, transactional=True), length=2)
    assert found(log).refused == ()


OLDER = Entry(2, 5, 4, 0, TIMESTAMP, 0, 0)  # a transaction is open since offset 0
CLOSED = replace(OLDER, txn_first_offset=-1)
IDLE = replace(CLOSED, coordinator_epoch=-1)
FOLLOWED = {
    "the same": (OLDER, OLDER, True),
    "its transaction ended": (OLDER, CLOSED, True),
    "ended, and another one begun at the first offset behind": (OLDER, replace(OLDER, txn_first_offset=5), True),
    "begun at the first offset behind": (CLOSED, replace(OLDER, txn_first_offset=5), True),
    "begun behind, by one without a coordinator": (IDLE, replace(IDLE, txn_first_offset=5), True),
    "begun before": (CLOSED, replace(OLDER, txn_first_offset=4), False),
    "begun at 0": (CLOSED, OLDER, False),
    "another one begun before": (replace(OLDER, txn_first_offset=2), OLDER, False),
    "ended without a marker": (replace(OLDER, coordinator_epoch=-1), IDLE, False),
    "its coordinator forgotten": (CLOSED, IDLE, False),
    "its coordinator unknown as before": (IDLE, IDLE, True),
    "its coordinator known since": (IDLE, CLOSED, True),
    "a batch at the first offset behind": (IDLE, replace(IDLE, last_offset=5, last_sequence=6), True),
    "a batch before": (IDLE, replace(IDLE, last_offset=3, last_sequence=4), False),
    "another sequence": (IDLE, replace(IDLE, last_sequence=6), False),
    "another sequence of offset 0": (
        replace(IDLE, last_offset=0),
        replace(IDLE, last_offset=0, last_sequence=6),
        False,
    ),
    "emptied by another epoch": (CLOSED, replace(CLOSED, epoch=3, last_offset=-1, last_sequence=-1), True),
    "emptied by the same epoch": (CLOSED, replace(CLOSED, last_offset=-1, last_sequence=-1), False),
    "another batch of another epoch": (CLOSED, replace(CLOSED, epoch=3, last_offset=0), False),
    "no batch, whatever the sequence says": (
        replace(CLOSED, last_offset=-1, last_sequence=9),
        replace(CLOSED, last_offset=-1, last_sequence=-1),
        True,
    ),
}


@pytest.mark.parametrize(("older", "later", "is_followed"), FOLLOWED.values(), ids=FOLLOWED)
def test_what_a_producer_had_is_there_later_or_a_batch_explains_why_not(
    older: Entry, later: Entry, is_followed: bool
) -> None:
    log = TieredLog()
    log.add(data_batch(0, 5), length=5, known={1: older})
    log.add(data_batch(5, 5), length=5, known={1: later})
    log.add(data_batch(10, 5), length=5, known={1: later})
    log.vouched = {5: ClaimFacts(True, Provenance.COMPUTED)}
    state = found(log)
    assert ("lacks 1 active producer of the snapshot at offset 5" in " ".join(state.refused)) is not is_followed
    assert state_of(state.entries)[1] == (later if is_followed else older)


def test_state_takes_no_twin_for_an_earlier_snapshot() -> None:
    log = poisoned(None, None)
    twice = [log.remote[0], replace(log.remote[0], segment_id="twin"), log.remote[1]]
    log.snapshots[60] = {**log.truth, 50: Entry(0, 1, 2, 0, TIMESTAMP)}
    state = find_state(60, twice, log, log_start_offset=0, expiry=BrokerExpiry(TIMESTAMP, DAY))
    assert state.refused == ()


def test_a_snapshot_that_no_broker_could_continue_starts_nothing() -> None:
    log = TieredLog()
    log.add(data_batch(0, 5, 1, 0, 0), length=5)
    log.add(data_batch(5, 5, 1, 0, 5), length=5)
    log.vouched = {5: ClaimFacts(True, Provenance.COMPUTED), 10: ClaimFacts(True)}
    log.snapshots[5] = {1: replace(log.snapshots[5][1], txn_first_offset=0)}
    state = found(log)
    assert state_of(state.entries) == log.truth
    assert "a broker would refuse the later batch at offset 5" in state.refused[1]


def test_state_has_what_a_broker_dropped_before_it_rolled() -> None:
    log = TieredLog()
    log.add(data_batch(0, 2, 1, 0, 0), data_batch(2, 2, 2, 0, 0, timestamp=TIMESTAMP + 2 * DAY), length=4)
    log.snapshots[4] = {2: log.truth[2]}
    state = found(log, now=TIMESTAMP + 2 * DAY)
    assert (state_of(state.entries), state.refused) == (log.truth, ())
    assert "contradicts its own segment: the snapshot lacks 1 of 2 producers" in found(log, now=TIMESTAMP).refused[0]


@pytest.mark.parametrize("now", [TIMESTAMP, TIMESTAMP + 30 * DAY])
def test_state_starts_from_no_snapshot_that_contradicts_its_segment(now: int) -> None:
    log = poisoned(None, None)
    for wrong in (replace(log.truth[3], last_sequence=7), replace(log.truth[3], epoch=2)):
        log.snapshots[60] = {**log.truth, 3: wrong}
        state = found(log, now=now)
        assert state_of(state.entries) == log.truth
        assert "contradicts its own segment: 1 producer differs" in state.refused[0]
    log.snapshots[60] = {**log.truth, 50: Entry(0, 1, 59, 0, TIMESTAMP)}
    assert "the snapshot has 1 producer that the log does not have" in found(log, now=now).refused[0]


def test_a_damaged_snapshot_is_computed_anew_from_the_one_before() -> None:
    log = poisoned(None, None, None)
    del log.snapshots[90]
    state = found(log)
    assert state_of(state.entries) == log.truth
    assert "at offset 90 cannot be read: not a snapshot" in state.refused[0]


def test_an_earlier_snapshot_that_is_damaged_says_nothing() -> None:
    log = poisoned(None, None, None)
    del log.snapshots[60]
    assert found(log).refused == ()


def test_where_no_snapshot_may_be_believed_the_fold_begins_with_the_log() -> None:
    log = poisoned(NOBODY, NOBODY, NOBODY)
    state = found(log)
    assert (state_of(state.entries), state.is_complete, len(state.refused)) == (log.truth, True, 3)


@pytest.mark.parametrize(("start", "lost"), [(0, {0}), (0, {60}), (30, set()), (10, set())])
def test_where_the_segments_do_not_lead_there_nothing_is_derived(start: int, lost: set[int]) -> None:
    log = poisoned(NOBODY, NOBODY, NOBODY)
    log.lost = lost
    with pytest.raises(UnknownStateError, match=r"segment-60 at offset 90|holds 60"):
        found(log, start=start)


def test_without_any_remote_segment_nothing_is_derived() -> None:
    log = TieredLog(end=30)
    with pytest.raises(UnknownStateError, match="no remote segment of this log ends at offset 30 or below"):
        find_state(30, [], log, log_start_offset=30, expiry=BrokerExpiry(TIMESTAMP, DAY))
    with pytest.raises(UnknownStateError) as caught:
        find_state(30, [], log, log_start_offset=0, expiry=BrokerExpiry(TIMESTAMP, DAY))
    assert "--layout" in caught.value.hint


@pytest.mark.parametrize("provenance", [Provenance.COMPUTED, Provenance.BROKER, Provenance.COMPUTED_FROM_SNAPSHOT])
def test_a_snapshot_that_a_claim_vouches_for_is_taken_without_a_segment(provenance: Provenance) -> None:
    log = poisoned(None, None, None)
    log.lost = {0, 30, 60}
    log.vouched = {90: ClaimFacts(True, provenance)}
    state = found(log)
    assert (state_of(state.entries), state.refused) == (log.truth, ())
    assert state.is_complete is (provenance is not Provenance.COMPUTED_FROM_SNAPSHOT)


def test_one_that_its_own_claim_does_not_vouch_for_starts_nothing() -> None:
    log = poisoned(None, None, None)
    log.vouched = {90: ClaimFacts(True)}
    state = found(log)
    assert state_of(state.entries) == log.truth
    assert "cannot start a replay, because the claim of its segment does not mark it as trusted" in state.refused[0]


def test_behind_a_snapshot_that_a_claim_vouches_for_no_earlier_one_is_read() -> None:
    log = poisoned(None, None, None)
    log.snapshots[30] = {**log.snapshots[30], 77: Entry(0, 0, 0, 0, TIMESTAMP)}
    assert found(log).refused
    log.vouched = {60: ClaimFacts(True, Provenance.COMPUTED)}
    assert found(log).refused == ()


@pytest.mark.parametrize("seed", range(100))
def test_whoever_was_rebuilt_what_all_batches_of_a_day_say_is_found(seed: int) -> None:
    log = random_tiered_log(seed, pauses=False)
    assert state_of(found(log).entries) == log.truth


@pytest.mark.parametrize("seed", range(100))
def test_whoever_was_rebuilt_no_producer_that_lives_is_lost(seed: int) -> None:
    log = random_tiered_log(seed, pauses=True)
    state = state_of(found(log).entries)
    for producer, kept in living(log).items():
        assert state[producer].txn_first_offset == kept.txn_first_offset
        assert state[producer].timestamp == kept.timestamp


@pytest.mark.parametrize("seed", range(100))
def test_where_segments_are_lost_the_state_is_right_or_unknown(seed: int) -> None:
    log, choose = random_tiered_log(seed, pauses=False), random.Random(seed)
    log.lost = {base for base in log.segments if choose.random() < 0.2}
    if choose.random() < 0.2:
        del log.snapshots[log.end]
    try:
        state = found(log)
    except UnknownStateError:
        return
    assert state_of(state.entries) == log.truth


@pytest.mark.parametrize(("is_ended", "is_refused"), [(True, False), (False, True)])
def test_a_transaction_that_ended_keeps_no_idle_producer_alive(is_ended: bool, is_refused: bool) -> None:
    """The broker dropped the producer after its marker, as it was idle; no batch behind keeps it."""
    log = TieredLog()
    log.add(data_batch(0, 5, 1, 0, 0, transactional=True), length=5)
    behind = [marker(5, 1, 0, 3, commit=False)] if is_ended else [data_batch(5, 1)]
    log.add(*behind, length=1, known=NOBODY)
    assert bool(found(log, now=TIMESTAMP + 2 * DAY).refused) is is_refused
