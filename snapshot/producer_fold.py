"""Fold runs of batches into changes of producer state, as a monoid.

A *producer delta* is a function from a producer's entry before a run of batches to its entry after it. Deltas of
adjacent runs combine, in offset order, into the delta of both. So segments can be folded anywhere and in any order, and
are then combined in order. An entry is a delta, too: one that ignores the previous entry. So the replay of a partition
is a series of combinations. The fields:

    producer_id
    batch_action       effect on the cached last batch of the previous entry
                         KEEP           the run has only emptied control batches: no field changes, the entry exists
                         KEEP_IF_EPOCH  only markers, all of one epoch: kept iff the previous entry has that epoch
                         CLEAR          a marker changed the epoch, and no data followed
                         SET            the last data batch of the run becomes the cached one
    last_sequence, last_offset, offset_delta   that batch, if SET
    producer_epoch, timestamp                  of the last batch of the run, unless KEEP
    has_marker         1: the run has a marker, so it closes a transaction that was open before
    coordinator_epoch  of the last marker, if has_marker
    txn_first_offset   first offset of the transaction open at the end; without a marker it counts only if no
                       transaction was open before
    plain_offset       first non-transactional data before any marker or transaction start: an error if the previous
                       entry has an open transaction
    error_offset       first non-transactional batch inside an open transaction of the run itself, or -1

Follows org.apache.kafka.storage.internals.log.ProducerAppendInfo with the origin REPLICATION, merged after every batch
as a live broker does. A broker's rebuild merges once for each segment. The results differ only if markers alone change
an epoch and change it back inside one segment.
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
    """A transaction without a marker."""

    producer_id: int
    first_offset: int


OpenTransactions = tuple[OpenTransaction, ...]


class ProducerFold:
    """The deltas of one run of batches, or the state of one partition; grows in place.

    Peak memory is about 64 bytes a producer for the deltas and 8 to 16 for the hash slots, twice that while growing.
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
        """Fold decoded batches (RECORD_BATCH_DTYPE, offset order); rows without a producer id change nothing."""
        row = 0
        while True:
            row, count = fold_kernels.add_batches(self._slots, self._deltas, self._count, rows, row)
            self.extended_to(count)
            if row == rows.size:
                break
            self.grow()

    def combine(self, deltas: np.ndarray) -> int:
        """Continue with the deltas (DELTA_DTYPE) of the run that follows.

        Returns:
            Base offset of the first batch of these producers that a broker would refuse to replay, or -1.
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
        """Return hash slots and deltas, for a kernel that folds while it decodes (see `extended_to` and `grow`)."""
        return self._slots, self._deltas

    def extended_to(self, count: int) -> None:
        """Note that the table holds `count` deltas by now."""
        if self._count != count:
            self._count, self._order = count, None

    def grow(self) -> None:
        """Make room for as many deltas again."""
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
        # Not deltas[order]: of structured arrays that copies field by field, ten times as slow.
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
        """Return the state (ENTRY_DTYPE, ascending producer id) if no batch preceded the run."""
        return _entries(self._deltas, self._ascending())


def to_entries(deltas: np.ndarray) -> np.ndarray:
    """Apply the deltas to an empty state; return snapshot entries (ENTRY_DTYPE), order kept."""
    return _entries(deltas, np.arange(deltas.size))


def _entries(deltas: np.ndarray, order: np.ndarray) -> np.ndarray:
    entries = np.empty(order.size, ENTRY_DTYPE)
    fold_kernels.write_entries(deltas, order, entries)
    return entries


def from_entries(entries: np.ndarray) -> np.ndarray:
    """Return snapshot entries as deltas that ignore the previous entries.

    A reader of a snapshot ignores the sequence when last_offset < 0 (ProducerStateManager.readSnapshot).
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
    """Mask of the entries a broker would drop at `as_of` (ms): no open transaction and idle >= `expiration` (ms).

    `None` never expires. ProducerStateManager.isProducerExpired.
    """
    if expiration is None:
        return np.zeros(entries.size, np.bool_)
    idle_long: np.ndarray = as_of - entries["timestamp"] >= expiration
    expired: np.ndarray = idle_long & (entries["current_txn_first_offset"] < 0)
    return expired


def live_entries(entries: np.ndarray, *, as_of: int, expiration: int | None) -> np.ndarray:
    """Return the entries that have not expired (see `is_expired`); `entries` itself if none has."""
    expired = is_expired(entries, as_of=as_of, expiration=expiration)
    return entries.compress(~expired) if expired.any() else entries
