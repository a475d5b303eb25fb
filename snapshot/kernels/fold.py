"""Compiled loops of the fold: add a batch to a delta, combine two deltas, find a producer's delta in a hash table.

The module snapshot.producer_fold explains the fields. `deltas` is an array of DELTA_DTYPE; `d` and `e` are records of
it. `rows` is an array of RECORD_BATCH_DTYPE; `b` is a record of it, or a FoldedBatch. `slots` is an int32 hash table of
indexes into `deltas`, with open addressing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiersnap.snapshot.formats.record_batch import COMMIT, CONTROL_MASK, RECORD_BATCH_DTYPE, TRANSACTIONAL_MASK
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.kernels.native import inlined, kernel

DELTA_DTYPE = np.dtype(
    [
        ("producer_id", "<i8"),
        ("last_offset", "<i8"),
        ("timestamp", "<i8"),  # ms
        ("txn_first_offset", "<i8"),
        ("plain_offset", "<i8"),
        ("error_offset", "<i8"),
        ("last_sequence", "<i4"),
        ("offset_delta", "<i4"),
        ("coordinator_epoch", "<i4"),
        ("producer_epoch", "<i2"),
        ("batch_action", "u1"),
        ("has_marker", "u1"),
    ]
)

KEEP, KEEP_IF_EPOCH, CLEAR, SET = range(4)
NONE = -1
EMPTY_SLOT = -1
_SEQUENCE_RANGE = 2147483648


class FoldedBatch(NamedTuple):
    """The fields of a record batch that the fold reads."""

    base_offset: int
    attributes: int
    last_offset_delta: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    control_type: int
    coordinator_epoch: int
    control_timestamp: int


@inlined
def _clear(d, producer_id):
    d.producer_id = producer_id
    d.last_offset = NONE
    d.timestamp = NONE
    d.txn_first_offset = NONE
    d.plain_offset = NONE
    d.error_offset = NONE
    d.last_sequence = NONE
    d.offset_delta = 0
    d.coordinator_epoch = NONE
    d.producer_epoch = NONE
    d.batch_action = KEEP
    d.has_marker = 0


@inlined
def _forget_batch(d):
    d.last_sequence = NONE
    d.last_offset = NONE
    d.offset_delta = 0


@inlined
def append_batch(d, b):
    """Extend delta `d` by batch `b`, which has a producer id."""
    if b.attributes & CONTROL_MASK:
        if b.record_count <= 0 or b.control_type > COMMIT:
            return
        if d.batch_action == KEEP:
            d.batch_action = KEEP_IF_EPOCH
        elif d.producer_epoch != b.producer_epoch:
            d.batch_action = CLEAR
            _forget_batch(d)
        d.producer_epoch = b.producer_epoch
        d.timestamp = b.control_timestamp
        d.coordinator_epoch = b.coordinator_epoch
        d.has_marker = 1
        d.txn_first_offset = NONE
        return
    if b.attributes & TRANSACTIONAL_MASK:
        if d.txn_first_offset < 0:
            d.txn_first_offset = b.base_offset
    elif d.txn_first_offset >= 0:
        if d.error_offset < 0:
            d.error_offset = b.base_offset
    elif not d.has_marker and d.plain_offset < 0:
        d.plain_offset = b.base_offset
    last_sequence = np.int64(NONE)
    if b.base_sequence != NONE:
        last_sequence = np.int64(b.base_sequence) + np.int64(b.last_offset_delta)
        if last_sequence >= _SEQUENCE_RANGE:
            last_sequence -= _SEQUENCE_RANGE
    d.batch_action = SET
    d.last_sequence = last_sequence
    d.last_offset = b.base_offset + b.last_offset_delta
    d.offset_delta = b.last_offset_delta
    d.producer_epoch = b.producer_epoch
    d.timestamp = b.max_timestamp


@inlined
def _combine(d, e):
    """Combine delta `d` with delta `e` of the same producer and the next range of batches. `d` becomes the result."""
    if d.error_offset < 0:
        is_open = d.txn_first_offset >= 0
        d.error_offset = e.plain_offset if is_open and e.plain_offset >= 0 else e.error_offset
    if d.txn_first_offset < 0 and not d.has_marker and d.plain_offset < 0:
        d.plain_offset = e.plain_offset
    if e.has_marker:
        d.has_marker = 1
        d.coordinator_epoch = e.coordinator_epoch
        d.txn_first_offset = e.txn_first_offset
    elif d.txn_first_offset < 0:
        d.txn_first_offset = e.txn_first_offset
    if e.batch_action == KEEP:
        return
    if e.batch_action == KEEP_IF_EPOCH:
        if d.batch_action == KEEP:
            d.batch_action = KEEP_IF_EPOCH
        elif d.producer_epoch != e.producer_epoch:
            d.batch_action = CLEAR
            _forget_batch(d)
    else:
        d.batch_action = e.batch_action
        d.last_sequence = e.last_sequence
        d.last_offset = e.last_offset
        d.offset_delta = e.offset_delta
    d.producer_epoch = e.producer_epoch
    d.timestamp = e.timestamp


@inlined
def _hash(producer_id, mask):
    # Fibonacci hashing: brokers allocate producer ids in consecutive blocks, which collide under a plain mask.
    return np.int64((np.uint64(producer_id) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask


@inlined
def find_delta(slots, deltas, count, producer_id):
    """Return (index, new count) of the producer's delta; create it if it is absent."""
    mask = slots.size - 1
    slot = _hash(producer_id, mask)
    while True:
        index = slots[slot]
        if index == EMPTY_SLOT:
            slots[slot] = count
            _clear(deltas[count], producer_id)
            return count, count + 1
        if deltas[index].producer_id == producer_id:
            return np.int64(index), count
        slot = (slot + 1) & mask


@kernel(np.int32, DELTA_DTYPE, int, RECORD_BATCH_DTYPE, int, returns=2)
def add_batches(slots: np.ndarray, deltas: np.ndarray, count: int, rows: np.ndarray, start: int) -> tuple[int, int]:
    """Fold rows[start:] until the end or a full table. Return (next row, producers in the table)."""
    limit = deltas.size
    for i in range(start, rows.size):
        b = rows[i]
        if b.producer_id < 0:
            continue
        if count == limit:
            return i, count
        index, count = find_delta(slots, deltas, count, b.producer_id)
        append_batch(deltas[index], b)
    return rows.size, count


@kernel(np.int32, DELTA_DTYPE, int, DELTA_DTYPE, int, returns=3)
def add_deltas(
    slots: np.ndarray, deltas: np.ndarray, count: int, right: np.ndarray, start: int
) -> tuple[int, int, int]:
    """Combine right[start:] into the table until the end or a full table.

    Returns:
        next row, producers in the table, and the least `error_offset` of the combined deltas, or -1 without an error.
    """
    limit = deltas.size
    error = np.int64(NONE)
    for i in range(start, right.size):
        if count == limit:
            return i, count, error
        index, count = find_delta(slots, deltas, count, right[i].producer_id)
        _combine(deltas[index], right[i])
        found = deltas[index].error_offset
        if found >= 0 and (error < 0 or found < error):
            error = found
    return right.size, count, error


@kernel(DELTA_DTYPE, np.int64, ENTRY_DTYPE)
def write_entries(deltas: np.ndarray, order: np.ndarray, out: np.ndarray) -> None:
    """Apply deltas[order] to an empty state, and write the resulting producer entries into `out` (ENTRY_DTYPE)."""
    for i in range(order.size):
        d = deltas[order[i]]
        entry = out[i]
        is_set = d.batch_action == SET
        entry.producer_id = d.producer_id
        entry.producer_epoch = d.producer_epoch
        entry.last_sequence = d.last_sequence if is_set else NONE
        entry.last_offset = d.last_offset if is_set else NONE
        entry.offset_delta = d.offset_delta if is_set else 0
        entry.timestamp = d.timestamp
        entry.coordinator_epoch = d.coordinator_epoch
        entry.current_txn_first_offset = d.txn_first_offset


@kernel(np.int32, DELTA_DTYPE, int)
def rehash(slots: np.ndarray, deltas: np.ndarray, count: int) -> None:
    """Insert the first `count` deltas into a new, larger table of slots."""
    slots[:] = EMPTY_SLOT
    mask = slots.size - 1
    for i in range(count):
        slot = _hash(deltas[i].producer_id, mask)
        while slots[slot] != EMPTY_SLOT:
            slot = (slot + 1) & mask
        slots[slot] = i
