"""Whatever a healthy broker writes is trusted; whatever is wrong is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.reference.examples import examples
from tests.reference.fold import Entry, State, apply, fold, live
from tests.reference.log_builder import TIMESTAMP, data_batch, marker
from tests.reference.logs import DAY
from tests.reference.record_batch import Batch, read_segment
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.replay import snapshot_comparison
from tiersnap.snapshot.replay.comparison import NEVER, Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry

pytestmark = pytest.mark.unit

HOUR = DAY // 24
AT_TIMESTAMP = BrokerExpiry(TIMESTAMP, DAY)
few = settings(
    max_examples=examples(40),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def rows(state: State) -> np.ndarray:
    """Entries as the comparison takes them."""
    columns = [
        (
            producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
        for producer_id, entry in sorted(state.items())
    ]
    return np.array(columns, ENTRY_DTYPE)


@dataclass(frozen=True)
class History:
    """A log whose records were appended as time went by, and where its segments begin."""

    batches: tuple[Batch, ...]
    bounds: tuple[int, ...]

    def below(self, offset: int, start: int = 0) -> list[Batch]:
        return [batch for batch in self.batches if start <= batch.base_offset < offset]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Transactional and idempotent producers that come, fall silent and return."""
    offset, time = 0, TIMESTAMP
    entries, bounds = [], []
    open_since: dict[int, int] = {}
    for _ in range(draw(st.integers(3, 30))):
        time += draw(st.sampled_from([0, 1000, HOUR, 5 * HOUR, 2 * DAY]))
        producer = draw(st.integers(1, 4))
        transactional = producer > 2
        if draw(st.integers(0, 3)) == 0:
            bounds.append(offset)
        if producer in open_since and draw(st.booleans()):
            coordinator, commit = draw(st.integers(0, 2)), draw(st.booleans())
            entries.append(marker(offset, producer, 0, coordinator, commit, time))
            del open_since[producer]
            offset += 1
            continue
        count = draw(st.integers(1, 3))
        entries.append(data_batch(offset, count, producer, 0, offset, transactional=transactional, timestamp=time))
        if transactional:
            open_since.setdefault(producer, offset)
        offset += count
    batches = read_segment(b"".join(entries), -1).batches
    return History(tuple(batches), tuple(dict.fromkeys(bound for bound in bounds if 0 < bound < offset)))


def brokers_state(history: History, offset: int) -> State:
    """What a broker holds when it rolls at `offset`: silent producers were dropped as the clock went on."""
    state: State = {}
    for batch in history.below(offset):
        now = batch_time(batch)
        state = live(state, as_of=now, expiration=DAY)
        state = {**state, batch.producer_id: apply(state.get(batch.producer_id, Entry()), batch)}
    return live(state, as_of=roll_time(history, offset), expiration=DAY)


def batch_time(batch: Batch) -> int:
    return batch.max_timestamp if batch.control_type < 0 else batch.control_timestamp


def roll_time(history: History, offset: int) -> int:
    return batch_time(next(batch for batch in history.batches if batch.base_offset >= offset))


def compared(found: State, history: History, offset: int, start: int = 0) -> Comparison:
    return snapshot_comparison.compare(rows(found), rows(fold(history.below(offset, start))), history_from=start)


def judge(found: State, history: History, offset: int, start: int = 0, *, later: int = 0) -> SnapshotVerdict:
    """What a broker's file is worth `later` ms after the roll that wrote it."""
    return compared(found, history, offset, start).verdict(BrokerExpiry(roll_time(history, offset) + later, DAY))


later = st.sampled_from([0, HOUR, DAY, 400 * DAY])


@few
@given(histories(), later)
def test_what_a_broker_wrote_at_a_roll_matches_then_and_ever_after(history: History, later: int) -> None:
    for offset in history.bounds:
        found = judge(brokers_state(history, offset), history, offset, later=later)
        assert found is SnapshotVerdict.MATCHES, (offset, found)


@few
@given(histories(), st.data())
def test_what_a_broker_wrote_is_trusted_after_the_log_start_moved(history: History, data: st.DataObject) -> None:
    assume(len(history.bounds) >= 2)
    start = data.draw(st.sampled_from(history.bounds[:-1]))
    for offset in history.bounds:
        if offset > start:
            found = judge(brokers_state(history, offset), history, offset, start)
            assert found.is_trusted, (start, offset, found)


@few
@given(histories())
def test_an_empty_file_is_suspect_where_a_producer_was_alive(history: History) -> None:
    for offset in history.bounds:
        expected = SnapshotVerdict.SUSPECT if brokers_state(history, offset) else SnapshotVerdict.MATCHES
        assert judge({}, history, offset) is expected


@few
@given(histories())
def test_the_file_of_another_offset_is_suspect_unless_it_says_the_same(history: History) -> None:
    for offset in history.bounds:
        right = brokers_state(history, offset)
        for other in history.bounds:
            stale = brokers_state(history, other)
            if live(stale, as_of=roll_time(history, offset), expiration=DAY) != right:
                assert judge(stale, history, offset) is SnapshotVerdict.SUSPECT, (offset, other)


def wrongs(right: State, producer: int) -> dict[str, State]:
    """Files that differ from the right one in one thing."""
    entry = right[producer]
    return {
        "one less": {key: value for key, value in right.items() if key != producer},
        "one more": {**right, 99: entry},
        "epoch": {**right, producer: replace(entry, epoch=entry.epoch + 1)},
        "sequence": {**right, producer: replace(entry, last_sequence=entry.last_sequence + 1)},
        "offset": {**right, producer: replace(entry, last_offset=entry.last_offset - 1)},
        "delta": {**right, producer: replace(entry, offset_delta=entry.offset_delta + 1)},
        "timestamp": {**right, producer: replace(entry, timestamp=entry.timestamp + 1)},
        "coordinator": {**right, producer: replace(entry, coordinator_epoch=entry.coordinator_epoch + 7)},
        "transaction": {**right, producer: replace(entry, txn_first_offset=entry.txn_first_offset + 1)},
    }


@few
@given(histories(), st.data())
def test_one_producer_less_one_more_or_one_wrong_field_is_suspect(history: History, data: st.DataObject) -> None:
    assume(history.bounds)
    offset = data.draw(st.sampled_from(history.bounds))
    right = brokers_state(history, offset)
    assume(right)
    producer = data.draw(st.sampled_from(sorted(right)))
    for name, found in wrongs(right, producer).items():
        assert judge(found, history, offset) is SnapshotVerdict.SUSPECT, name


@few
@given(histories(), st.data(), later)
def test_a_wrong_file_may_go_up_only_once_a_broker_would_drop_all_that_is_wrong_and_never_starts_a_replay(
    history: History, data: st.DataObject, later: int
) -> None:
    """Said again producer by producer: what a broker keeps when it loads the file, against what it ought to."""
    assume(history.bounds)
    offset = data.draw(st.sampled_from(history.bounds))
    right = fold(history.below(offset))
    now = roll_time(history, offset) + later
    for name, found in wrongs(right, data.draw(st.sampled_from(sorted(right)))).items():
        comparison = compared(found, history, offset)
        assert not comparison.is_start, name
        assert comparison.compared is SnapshotVerdict.SUSPECT
        differs = [each for each in right.keys() | found.keys() if right.get(each) != found.get(each)]
        sides = [side[each] for side in (right, found) for each in differs if each in side]
        is_kept = any(entry.txn_first_offset >= 0 or now - entry.timestamp < DAY for entry in sides)
        assert comparison.verdict(BrokerExpiry(now, DAY)).is_trusted is not is_kept, name
        assert comparison.verdict(BrokerExpiry(now, None)) is SnapshotVerdict.SUSPECT
        assert ("harmless" in comparison.reason(BrokerExpiry(now, DAY))) is not is_kept


ENTRY = Entry(epoch=0, last_sequence=4, last_offset=4, offset_delta=4, timestamp=TIMESTAMP)


def of(found: State, computed: State) -> Comparison:
    return snapshot_comparison.compare(rows(found), rows(computed), history_from=0)


def test_one_batch_stamped_2033_excuses_nobody() -> None:
    """Its time was once taken for the time the file was written at, when everybody else was idle."""
    in_2033 = replace(ENTRY, timestamp=2_000_000_000_000)
    found = of({}, {1: ENTRY, 2: in_2033})
    assert found.verdict(BrokerExpiry(TIMESTAMP + HOUR, DAY)) is SnapshotVerdict.SUSPECT
    assert found.verdict(BrokerExpiry(TIMESTAMP + 30 * DAY, DAY)) is SnapshotVerdict.SUSPECT, (
        "a time in the future is young"
    )
    assert (
        of({2: in_2033}, {1: ENTRY, 2: in_2033}).verdict(BrokerExpiry(TIMESTAMP + HOUR, DAY)) is SnapshotVerdict.SUSPECT
    )


def test_event_time_in_the_past_and_topics_that_fell_idle_are_honest() -> None:
    for timestamp in (-1, 0, TIMESTAMP - 1000 * DAY, TIMESTAMP - DAY):
        found = of({}, {1: replace(ENTRY, timestamp=timestamp)})
        assert found.verdict(AT_TIMESTAMP) is SnapshotVerdict.MATCHES
        assert "drops such idle producers" in found.reason(AT_TIMESTAMP)
    assert of({}, {1: replace(ENTRY, timestamp=TIMESTAMP - DAY + 1)}).verdict(AT_TIMESTAMP) is SnapshotVerdict.SUSPECT


def test_an_open_transaction_is_never_too_old_to_count() -> None:
    opened = replace(ENTRY, timestamp=0, txn_first_offset=3)
    ended = replace(opened, txn_first_offset=-1)
    for found, computed in (({}, {1: opened}), ({1: opened}, {}), ({1: opened}, {1: ended}), ({1: ended}, {1: opened})):
        comparison = of(found, computed)
        assert comparison.harmful_until == NEVER
        assert comparison.verdict(BrokerExpiry(TIMESTAMP + 1000 * DAY, DAY)) is SnapshotVerdict.SUSPECT


def test_a_producer_that_was_dropped_and_came_back_has_forgotten_its_coordinator_and_that_is_no_harm() -> None:
    fenced = replace(ENTRY, coordinator_epoch=3)
    found = of({1: ENTRY}, {1: fenced})
    assert (found.without_coordinator_epoch, found.differing, found.is_start) == (1, 0, False)
    assert found.verdict(AT_TIMESTAMP) is SnapshotVerdict.MATCHES
    assert found.verdict(BrokerExpiry(TIMESTAMP, None)) is SnapshotVerdict.SUSPECT, (
        "a broker that drops nobody forgets nothing"
    )
    other = of({1: replace(ENTRY, coordinator_epoch=2)}, {1: fenced})
    assert (other.differing, other.verdict(AT_TIMESTAMP)) == (1, SnapshotVerdict.SUSPECT)


def test_a_file_that_knows_more_and_lacks_the_idle_may_go_up_as_one_that_extends() -> None:
    computed = {1: replace(ENTRY, timestamp=0, last_offset=14)}
    found = snapshot_comparison.compare(rows({7: ENTRY}), rows(computed), history_from=10)
    assert (found.compared, found.extending, found.is_start) == (SnapshotVerdict.SUSPECT, 1, False)
    assert found.verdict(AT_TIMESTAMP) is SnapshotVerdict.EXTENDS
