"""Fold record batches into producer deltas, and combine the deltas of adjacent ranges of batches.

A *run* is a range of consecutive batches. A *producer delta* describes how a run changes the snapshot entry of one
producer. The deltas of two adjacent runs combine into the delta of both runs together. So segments can be folded in any
order and in parallel, but deltas must be combined in offset order. `from_entries` also converts snapshot entries to
deltas, so that a fold can start from a snapshot. The fields of a delta:

    producer_id
    batch_action       effect on the cached last batch of the previous entry
                         KEEP           the run has only control batches without records: the entry exists, but no
                                        field changes
                         KEEP_IF_EPOCH  the run has only markers of one epoch: clear the cached batch if the previous
                                        entry has another epoch
                         CLEAR          a marker changed the epoch, and no data batch followed
                         SET            the last data batch of the run becomes the cached one
    last_sequence, last_offset, offset_delta   of the cached batch, if SET
    producer_epoch, timestamp                  of the last batch of the run, unless KEEP
    has_marker         1 if the run has a marker, which ends an open transaction of the previous entry
    coordinator_epoch  of the last marker, if has_marker
    txn_first_offset   first offset of the transaction that is open at the end, or -1; ignored if has_marker is 0 and
                       the previous entry has an open transaction
    plain_offset       offset of the first non-transactional data batch, if no marker or transaction start precedes it;
                       a replay fails at this batch if the previous entry has an open transaction
    error_offset       first non-transactional batch inside a transaction that this run opened, or -1

Follows org.apache.kafka.storage.internals.log.ProducerAppendInfo with the origin REPLICATION. Like a live broker, the
fold updates an entry after every batch. A broker that rebuilds its state updates the entry once per segment. The
results differ only if, inside one segment, markers change an epoch and change it back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.kernels import fold as fold_kernels
from tiersnap.snapshot.kernels.fold import CLEAR, EMPTY_SLOT, SET
from tiersnap.snapshot.kernels.fold import DELTA_DTYPE as DELTA_DTYPE

NONE = fold_kernels.NONE


class OpenTransaction(NamedTuple):
    """A transaction that no marker has ended."""

    producer_id: int
    first_offset: int


OpenTransactions = tuple[OpenTransaction, ...]


class ProducerFold:
    """A growing table with one delta per producer. It describes a run of batches, or the state of a partition.

    Each producer takes about 64 bytes for its delta and 8 to 16 bytes for hash slots. While the table grows, it takes
    twice as much.
    """

    def __init__(self, capacity: int = 1024) -> None:
        capacity = 1 << max(4, (capacity - 1).bit_length())
        self._deltas = np.empty(capacity, DELTA_DTYPE)
        self._slots = np.full(capacity * 2, EMPTY_SLOT, np.int32)
        self._count = 0
        self._order: np.ndarray | None = None

    def __len__(self) -> int:
        return self._count

    def add_batches(self, rows: np.ndarray) -> None:
        """Fold decoded batches (RECORD_BATCH_DTYPE, in offset order). Rows without a producer id change nothing."""
        row = 0
        while True:
            row, count = fold_kernels.add_batches(self._slots, self._deltas, self._count, rows, row)
            self.extended_to(count)
            if row == rows.size:
                break
            self.grow()

    def combine(self, deltas: np.ndarray) -> int:
        """Combine this table with the deltas (DELTA_DTYPE) of the next run of batches.

        Returns:
            Base offset of the first batch in these deltas that a broker would refuse to replay, or -1.
        """
        row, errors = 0, []
        while True:
            row, count, error = fold_kernels.add_deltas(self._slots, self._deltas, self._count, deltas, row)
            self.extended_to(count)
            errors.append(error)
            if row == deltas.size:
                return min((error for error in errors if error >= 0), default=NONE)
            self.grow()

    @property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the hash slots and the deltas. A kernel may add deltas to them; then call `extended_to`."""
        return self._slots, self._deltas

    def extended_to(self, count: int) -> None:
        """Set the number of deltas to `count`, after a kernel added deltas to `table`."""
        if self._count != count:
            self._count, self._order = count, None

    def grow(self) -> None:
        """Double the capacity of the table."""
        grown = np.empty(self._deltas.size * 2, DELTA_DTYPE)
        grown[: self._count] = self._deltas[: self._count]
        self._deltas = grown
        self._slots = np.empty(grown.size * 2, np.int32)
        fold_kernels.rehash(self._slots, self._deltas, self._count)

    def _ascending(self) -> np.ndarray:
        """Return the indexes of the deltas in ascending producer id."""
        if self._order is None:
            self._order = np.argsort(self._deltas["producer_id"][: self._count], kind="stable")
        return self._order

    def deltas(self) -> np.ndarray:
        """Return a copy of the deltas in ascending producer id."""
        # Not deltas[order]: for structured arrays, numpy then copies field by field, which is ten times slower.
        return self._deltas.take(self._ascending())

    def first_open_offset(self) -> int:
        """Return the first offset of the oldest open transaction, or -1."""
        opened = self._deltas["txn_first_offset"][: self._count]
        opened = opened[opened >= 0]
        return int(opened.min()) if opened.size else NONE

    def open_transactions(self) -> OpenTransactions:
        """Return each open transaction, in no order."""
        deltas = self._deltas[: self._count]
        opened = np.flatnonzero(deltas["txn_first_offset"] >= 0)
        columns = (deltas[name][opened].tolist() for name in ("producer_id", "txn_first_offset"))
        return tuple(map(OpenTransaction, *columns))

    def entries(self) -> np.ndarray:
        """Return the state after the deltas are applied to an empty state, as ENTRY_DTYPE in ascending producer id."""
        return _entries(self._deltas, self._ascending())


def to_entries(deltas: np.ndarray) -> np.ndarray:
    """Return the state after deltas are applied to an empty state, as ENTRY_DTYPE in the order of the deltas."""
    return _entries(deltas, np.arange(deltas.size))


def _entries(deltas: np.ndarray, order: np.ndarray) -> np.ndarray:
    entries = np.empty(order.size, ENTRY_DTYPE)
    fold_kernels.write_entries(deltas, order, entries)
    return entries


def from_entries(entries: np.ndarray) -> np.ndarray:
    """Return snapshot entries as deltas (DELTA_DTYPE) that ignore the previous entry.

    If last_offset < 0, the sequence is ignored, as in ProducerStateManager.readSnapshot.
    """
    deltas = np.empty(entries.size, DELTA_DTYPE)
    has_batch = entries["last_offset"] >= 0
    for name in ("producer_id", "producer_epoch", "timestamp", "coordinator_epoch"):
        deltas[name] = entries[name]
    deltas["batch_action"] = np.where(has_batch, SET, CLEAR)
    deltas["last_sequence"] = np.where(has_batch, entries["last_sequence"], NONE)
    deltas["last_offset"] = np.where(has_batch, entries["last_offset"], NONE)
    deltas["offset_delta"] = np.where(has_batch, entries["offset_delta"], 0)
    deltas["txn_first_offset"] = np.maximum(entries["current_txn_first_offset"], NONE)
    deltas["plain_offset"] = NONE
    deltas["error_offset"] = NONE
    deltas["has_marker"] = 1
    return deltas


def is_expired(entries: np.ndarray, *, as_of: int, expiration: int | None) -> np.ndarray:
    """Return a mask of the entries that were idle for at least `expiration` ms and have no open transaction.

    The idle time ends at `as_of`, in ms since the epoch. If `expiration` is None, no entry expires. Follows
    ProducerStateManager.isProducerExpired.
    """
    if expiration is None:
        return np.zeros(entries.size, np.bool_)
    idle_long: np.ndarray = as_of - entries["timestamp"] >= expiration
    expired: np.ndarray = idle_long & (entries["current_txn_first_offset"] < 0)
    return expired


def live_entries(entries: np.ndarray, *, as_of: int, expiration: int | None) -> np.ndarray:
    """Return the entries that have not expired (see `is_expired`). If none has expired, return `entries` itself."""
    expired = is_expired(entries, as_of=as_of, expiration=expiration)
    return entries.compress(~expired) if expired.any() else entries
