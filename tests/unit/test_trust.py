"""Whatever a healthy broker writes is trusted; whatever is wrong is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.reference.fold import Entry, State, apply, fold, live
from tests.reference.log_builder import TIMESTAMP, data_batch, marker
from tests.reference.logs import DAY
from tests.reference.record_batch import Batch, read_segment
from tiersnap.snapshot.state import trust
from tiersnap.snapshot.state.producer_state import ENTRY_DTYPE
from tiersnap.snapshot.state.trust import SnapshotVerdict

pytestmark = pytest.mark.unit

HOUR = DAY // 24
few = settings(
    max_examples=40, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.reuse, Phase.generate]
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


def judge(found: State, history: History, offset: int, start: int = 0) -> trust.Comparison:
    return trust.compare(
        rows(found),
        rows(fold(history.below(offset, start))),
        history_from=start,
        written_at=roll_time(history, offset),
        producer_expiration=DAY,
    )


@few
@given(histories())
def test_what_a_broker_wrote_at_a_roll_matches(history: History) -> None:
    for offset in history.bounds:
        found = judge(brokers_state(history, offset), history, offset)
        assert found.verdict is SnapshotVerdict.MATCHES, (offset, found)


@few
@given(histories(), st.data())
def test_what_a_broker_wrote_is_trusted_after_the_log_start_moved(history: History, data: st.DataObject) -> None:
    assume(len(history.bounds) >= 2)
    start = data.draw(st.sampled_from(history.bounds[:-1]))
    for offset in history.bounds:
        if offset > start:
            found = judge(brokers_state(history, offset), history, offset, start)
            assert found.verdict.is_trusted, (start, offset, found)


@few
@given(histories())
def test_an_empty_file_is_suspect_where_a_producer_was_alive(history: History) -> None:
    for offset in history.bounds:
        expected = SnapshotVerdict.SUSPECT if brokers_state(history, offset) else SnapshotVerdict.MATCHES
        assert judge({}, history, offset).verdict is expected


@few
@given(histories())
def test_the_file_of_another_offset_is_suspect_unless_it_says_the_same(history: History) -> None:
    for offset in history.bounds:
        right = brokers_state(history, offset)
        for other in history.bounds:
            stale = brokers_state(history, other)
            if live(stale, as_of=roll_time(history, offset), expiration=DAY) != right:
                assert judge(stale, history, offset).verdict is SnapshotVerdict.SUSPECT, (offset, other)


@few
@given(histories(), st.data())
def test_one_producer_less_one_more_or_one_wrong_field_is_suspect(history: History, data: st.DataObject) -> None:
    assume(history.bounds)
    offset = data.draw(st.sampled_from(history.bounds))
    right = brokers_state(history, offset)
    assume(right)
    producer = data.draw(st.sampled_from(sorted(right)))
    entry = right[producer]
    wrong = {
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
    for name, found in wrong.items():
        assert judge(found, history, offset).verdict is SnapshotVerdict.SUSPECT, name
