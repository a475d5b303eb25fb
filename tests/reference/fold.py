"""The replay rules in plain Python, one batch at a time: slow, readable, and sharing no code with `snapshot`.

Follows org.apache.kafka.storage.internals.log.ProducerAppendInfo (origin REPLICATION) as a live broker merges it. The
batches come from `record_batch.read_segment`, the readable decoder beside this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.reference.log_builder import CONTROL, TRANSACTIONAL
from tests.reference.record_batch import Batch

LARGEST_SEQUENCE = 2**31 - 1


@dataclass(frozen=True)
class Entry:
    """One producer's line of a snapshot."""

    epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp: int = -1
    coordinator_epoch: int = -1
    txn_first_offset: int = -1


State = dict[int, Entry]


class InvalidTxnStateError(Exception):
    """What a broker throws at a non-transactional batch inside a transaction; `args[0]` is its base offset."""


def apply(entry: Entry, batch: Batch) -> Entry:
    """The entry after one batch of its producer."""
    if batch.attributes & CONTROL:
        if batch.record_count == 0:
            return entry
        if entry.epoch != batch.producer_epoch:
            entry = replace(entry, last_sequence=-1, last_offset=-1, offset_delta=0)
        return replace(
            entry,
            epoch=batch.producer_epoch,
            timestamp=batch.control_timestamp,
            coordinator_epoch=batch.coordinator_epoch,
            txn_first_offset=-1,
        )
    if entry.txn_first_offset >= 0 and not batch.attributes & TRANSACTIONAL:
        raise InvalidTxnStateError(batch.base_offset)
    opens = bool(batch.attributes & TRANSACTIONAL) and entry.txn_first_offset < 0
    return replace(
        entry,
        epoch=batch.producer_epoch,
        last_sequence=last_sequence(batch.base_sequence, batch.last_offset_delta),
        last_offset=batch.base_offset + batch.last_offset_delta,
        offset_delta=batch.last_offset_delta,
        timestamp=batch.max_timestamp,
        txn_first_offset=batch.base_offset if opens else entry.txn_first_offset,
    )


def last_sequence(base: int, delta: int) -> int:
    """31-bit numbers that go on at 0 after the largest."""
    if base == -1:
        return -1
    return base + delta if base + delta <= LARGEST_SEQUENCE else base + delta - LARGEST_SEQUENCE - 1


def fold(batches: Iterable[Batch], state: State | None = None) -> State:
    """The state after the batches.

    Raises:
        InvalidTxnStateError: at the first batch that a broker could not replay.
    """
    after = dict(state or {})
    for batch in batches:
        if batch.magic == 2 and batch.producer_id >= 0:
            after[batch.producer_id] = apply(after.get(batch.producer_id, Entry()), batch)
    return after


def live(state: State, *, as_of: int, expiration: int) -> State:
    """What a broker would not have dropped."""
    return {
        producer_id: entry
        for producer_id, entry in state.items()
        if entry.txn_first_offset >= 0 or as_of - entry.timestamp < expiration
    }
