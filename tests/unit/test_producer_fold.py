"""The fold against the readable reference, and the laws of the monoid."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import fold as reference
from tests.reference.examples import examples
from tests.reference.folded import fold as fold_deltas
from tests.reference.log_builder import TIMESTAMP, data_batch, marker
from tests.reference.logs import DAY, Log, logs, replayable_entries
from tests.reference.record_batch import Batch, read_segment
from tests.reference.recovered import rows_of
from tiersnap.snapshot import producer_fold as ps

pytestmark = pytest.mark.unit

cuts = st.lists(st.integers(0, 40), max_size=6)


def as_state(entries: np.ndarray) -> reference.State:
    return {int(row[0]): reference.Entry(*(int(value) for value in row.tolist()[1:])) for row in entries}


def batches(data: bytes, base: int) -> list[Batch]:
    return read_segment(data, base - 1).batches


def pieces(log: Log, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(log.entries), *(min(cut, len(log.entries)) for cut in at)})
    return [log.segment(start, stop) for start, stop in pairwise(edges)]


def deltas_of(data: bytes) -> np.ndarray:
    return fold_deltas(rows_of(data))


def combined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Deltas of two neighbouring runs, `first` at the lower offsets."""
    producers = ps.ProducerFold()
    for deltas in (first, second):
        producers.combine(deltas)
    return producers.deltas()


@given(logs(replayable_entries))
def test_folding_batch_by_batch_gives_what_the_reference_gives(log: Log) -> None:
    assert as_state(ps.to_entries(deltas_of(log.bytes))) == reference.fold(batches(log.bytes, log.base))


@settings(max_examples=examples(300))
@given(logs(replayable_entries), cuts)
def test_deltas_of_random_splits_combine_to_the_fold_of_the_whole(log: Log, at: list[int]) -> None:
    replayed = ps.ProducerFold(capacity=1)
    for piece in pieces(log, at):
        replayed.combine(deltas_of(piece))
    assert as_state(replayed.entries()) == reference.fold(batches(log.bytes, log.base))


@settings(max_examples=examples(300))
@given(logs(), cuts)
def test_combining_is_associative_errors_and_all(log: Log, at: list[int]) -> None:
    deltas = [deltas_of(piece) for piece in pieces(log, at)]
    from_left = deltas[0]
    for delta in deltas[1:]:
        from_left = combined(from_left, delta)
    from_right = deltas[-1]
    for delta in reversed(deltas[:-1]):
        from_right = combined(delta, from_right)
    assert first_errors(from_left) == first_errors(from_right)
    sound_left, sound_right = (side[side["error_offset"] < 0] for side in (from_left, from_right))
    assert sound_left.tolist() == sound_right.tolist()


def first_errors(deltas: np.ndarray) -> dict[int, int]:
    return dict(zip(deltas["producer_id"].tolist(), deltas["error_offset"].tolist(), strict=True))


@settings(max_examples=examples(300))
@given(logs(), cuts)
def test_the_first_batch_a_broker_cannot_replay_is_found_whatever_the_splits(log: Log, at: list[int]) -> None:
    replayed = ps.ProducerFold()
    errors = [replayed.combine(deltas_of(piece)) for piece in pieces(log, at)]
    assert min((error for error in errors if error >= 0), default=-1) == first_refused(batches(log.bytes, log.base))


def first_refused(found: list[Batch]) -> int:
    """Each producer fails alone; a broker stops at the first of all."""
    refused = []
    for producer_id in {batch.producer_id for batch in found if batch.producer_id >= 0}:
        try:
            reference.fold(batch for batch in found if batch.producer_id == producer_id)
        except reference.InvalidTxnStateError as error:
            refused.append(error.args[0])
    return min(refused, default=-1)


@given(logs(replayable_entries), st.integers(0, 40))
def test_a_snapshot_is_a_place_to_start_from(log: Log, at: int) -> None:
    at = min(at, len(log.entries))
    entries = ps.to_entries(deltas_of(log.segment(0, at)))
    replayed = ps.ProducerFold()
    replayed.combine(ps.from_entries(entries))
    replayed.add_batches(rows_of(log.segment(at, len(log.entries))))
    assert as_state(replayed.entries()) == reference.fold(batches(log.bytes, log.base))


@settings(max_examples=examples(300))
@given(logs(replayable_entries), cuts, st.sampled_from([DAY // 2, DAY, 2 * DAY]), st.integers(0, DAY))
def test_replayed_pieces_are_full_replay_then_expiry(log: Log, at: list[int], expiration: int, later: int) -> None:
    as_of = TIMESTAMP + later
    replayed = ps.ProducerFold()
    for piece in pieces(log, at):
        replayed.combine(deltas_of(piece))
    observed = as_state(ps.live_entries(replayed.entries(), as_of=as_of, expiration=expiration))
    full = reference.fold(batches(log.bytes, log.base))
    assert observed == reference.live(full, as_of=as_of, expiration=expiration)
    opened = [entry.txn_first_offset for entry in full.values() if entry.txn_first_offset >= 0]
    assert replayed.first_open_offset() == min(opened, default=-1)


def test_the_published_example_folds_to_what_kafka_4_1_1_wrote() -> None:
    data = b"".join(
        [
            data_batch(0, 2, 1000, 0, 0, transactional=True),
            data_batch(2, 1, 17, 3, 5, transactional=True),
            marker(3, 1000, 0, 4, commit=True),
            marker(4, 17, 4, 6, commit=False),
            data_batch(5, 1, 1, 2, 7),
            data_batch(6, 4, 33, 0, 2147483646, transactional=True),
            marker(10, 555, 9, 2, commit=False),
        ]
    )
    observed = as_state(ps.to_entries(deltas_of(data)))
    assert {producer: (e.epoch, e.last_sequence, e.last_offset, e.offset_delta, e.coordinator_epoch, e.txn_first_offset)
            for producer, e in observed.items()} == {
        1000: (0, 1, 1, 1, 4, -1),
        17: (4, -1, -1, 0, 6, -1),
        1: (2, 7, 5, 0, -1, -1),
        33: (0, 1, 9, 3, -1, 6),
        555: (9, -1, -1, 0, 2, -1),
    }  # fmt: skip


def test_an_epoch_that_leaves_and_comes_back_by_markers_alone_drops_the_cached_batch_as_a_live_broker_does() -> None:
    first = data_batch(0, 1, 5, 1, 0, transactional=True)
    second = marker(1, 5, 2, 0, commit=True) + marker(2, 5, 1, 0, commit=True)
    observed = as_state(ps.to_entries(combined(deltas_of(first), deltas_of(second))))
    assert (observed[5].epoch, observed[5].last_sequence) == (1, -1)


def test_a_batch_and_a_transaction_at_offset_0_are_some() -> None:
    producers = ps.ProducerFold()
    producers.add_batches(rows_of(data_batch(0, 1, 7, 0, 0, transactional=True)))
    assert producers.open_transactions() == ((7, 0),)
    assert producers.first_open_offset() == 0
    again = ps.ProducerFold()
    again.combine(ps.from_entries(producers.entries()))
    assert again.entries().tolist() == producers.entries().tolist()
    assert again.entries()["last_offset"].tolist() == [0]


def test_a_table_of_many_producers_grows_and_keeps_them_all() -> None:
    count = 100_000
    rows = np.zeros(count, rows_of(data_batch(0, 1)).dtype)
    rows["producer_id"] = np.random.default_rng(7).permutation(count) * 3
    rows["base_offset"] = np.arange(count)
    rows["record_count"] = 1
    fold = ps.ProducerFold(capacity=1)
    for part in np.array_split(rows, 7):
        fold.add_batches(part)
    entries = fold.entries()
    assert len(fold) == entries.size == count
    assert (np.diff(entries["producer_id"]) > 0).all()
    by_id = rows[np.argsort(rows["producer_id"])]
    assert (entries["last_offset"] == by_id["base_offset"]).all()


@pytest.mark.parametrize(("idle", "has_open_transaction", "expired"), [
    (DAY - 1, False, False), (DAY, False, True), (DAY, True, False), (-5, False, False),
])  # fmt: skip
def test_a_producer_expires_when_idle_for_the_expiration_and_nothing_is_open(
    idle: int, has_open_transaction: bool, expired: bool
) -> None:
    data = data_batch(0, 1, 1, 0, 0, transactional=has_open_transaction, timestamp=TIMESTAMP)
    entries = ps.to_entries(deltas_of(data))
    assert ps.is_expired(entries, as_of=TIMESTAMP + idle, expiration=DAY).tolist() == [expired]
    assert ps.is_expired(entries, as_of=TIMESTAMP + idle, expiration=None).tolist() == [False]


def test_producers_whose_places_in_the_table_collide_are_kept_apart() -> None:
    """Ids that Fibonacci hashing sends to a quarter of the table: more of them than it has slots there."""
    chosen = [each for each in range(2000) if (each * 0x9E3779B97F4A7C15 % 2**64 >> 20) & 0x30 == 0][:100]
    data = b"".join(data_batch(offset, 1, each, 0, offset % 7) for offset, each in enumerate(chosen))
    replayed = ps.ProducerFold(capacity=1)
    replayed.add_batches(rows_of(data))
    assert as_state(replayed.entries()) == reference.fold(batches(data, 0))
    assert len(replayed) == 100
