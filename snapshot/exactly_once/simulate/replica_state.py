"""The producer state of a replica for one partition: entries, and the newest batches of each producer.

A broker caches up to five batches per producer to recognise retries, but a snapshot contains only one. So the newest
batches are read from the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.exactly_once.models.producer_entry import LARGEST_SEQUENCE, NO_SEQUENCE
from tiersnap.snapshot.formats.record_batch import CONTROL_MASK, LOG_OVERHEAD, TRANSACTIONAL_MASK
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.replay.expiry import BrokerExpiry

CACHED_BATCHES = 5
BATCH_DTYPE = np.dtype(
    [
        ("producer_id", "<i8"),
        ("first_offset", "<i8"),
        ("last_offset", "<i8"),
        ("first_sequence", "<i4"),
        ("last_sequence", "<i4"),
        ("producer_epoch", "<i2"),
        ("is_transactional", "?"),
        ("size_bytes", "<i4"),  # whole batch; 0 if unknown, as for a batch from a snapshot
    ]
)
NO_BATCHES = np.empty(0, BATCH_DTYPE)


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """The producers of one replica."""

    entries: np.ndarray  # ENTRY_DTYPE, ascending producer id
    # BATCH_DTYPE, ascending producer id and offset: the newest data batches of each producer, at most five. Batches
    # of another epoch than the entry's are included, because the producer may still send them. A broker does not cache
    # them.
    batches: np.ndarray

    @classmethod
    def of(cls, entries: np.ndarray, *runs: np.ndarray) -> ReplicaState:
        """Return the state with these entries, and with the newest batches of their producers.

        `runs` are batches (BATCH_DTYPE) in offset order. They may lack the last batch of an entry, for instance if the
        entry is from a snapshot. The batch from the entry then counts as older than all batches of `runs`.
        """
        recent = newest_batches(*runs)
        recent = recent.compress(np.isin(recent["producer_id"], entries["producer_id"]))
        own = entry_batches(entries)
        newest = np.searchsorted(recent["producer_id"], own["producer_id"], side="right") - 1
        is_there = np.zeros(own.size, np.bool_)
        if recent.size:
            same = recent.take(np.maximum(newest, 0))
            is_there = (newest >= 0) & (same["producer_id"] == own["producer_id"])
            is_there &= same["last_offset"] == own["last_offset"]
        return cls(entries, newest_batches(own.compress(~is_there), recent))

    def live(self, expiry: BrokerExpiry) -> ReplicaState:
        """Return the state without the producers that brokers have removed as idle."""
        entries = expiry.live(self.entries)
        kept = np.isin(self.batches["producer_id"], entries["producer_id"])
        return ReplicaState(entries, self.batches.compress(kept))


def data_batches(rows: np.ndarray) -> np.ndarray:
    """Return the data batches (BATCH_DTYPE) that have a producer and a sequence. `rows` have RECORD_BATCH_DTYPE."""
    is_data = (rows["producer_id"] >= 0) & (rows["base_sequence"] >= 0) & (rows["attributes"] & CONTROL_MASK == 0)
    chosen = rows.compress(is_data)
    batches = np.empty(chosen.size, BATCH_DTYPE)
    delta = chosen["last_offset_delta"].astype(np.int64)
    batches["producer_id"], batches["producer_epoch"] = chosen["producer_id"], chosen["producer_epoch"]
    batches["first_offset"], batches["last_offset"] = chosen["base_offset"], chosen["base_offset"] + delta
    batches["first_sequence"] = chosen["base_sequence"]
    batches["last_sequence"] = (chosen["base_sequence"] + delta) & LARGEST_SEQUENCE
    batches["is_transactional"] = chosen["attributes"] & TRANSACTIONAL_MASK != 0
    batches["size_bytes"] = chosen["batch_length"] + LOG_OVERHEAD
    return batches


def entry_batches(entries: np.ndarray) -> np.ndarray:
    """Return the last batch (BATCH_DTYPE) of each entry that has a sequence."""
    known = entries.compress((entries["last_offset"] >= 0) & (entries["last_sequence"] != NO_SEQUENCE))
    batches = np.empty(known.size, BATCH_DTYPE)
    delta = known["offset_delta"].astype(np.int64)
    for name in ("producer_id", "producer_epoch", "last_offset", "last_sequence"):
        batches[name] = known[name]
    batches["first_offset"] = known["last_offset"] - delta
    batches["first_sequence"] = (known["last_sequence"] - delta) & LARGEST_SEQUENCE
    batches["is_transactional"] = known["current_txn_first_offset"] >= 0
    batches["size_bytes"] = 0
    return batches


def newest_batches(*runs: np.ndarray) -> np.ndarray:
    """Return the five newest batches of each producer. `runs` (BATCH_DTYPE) must be in offset order."""
    batches = np.concatenate(runs) if runs else NO_BATCHES
    batches = batches.take(np.argsort(batches["producer_id"], kind="stable"))
    ids = batches["producer_id"]
    if not ids.size:
        return batches
    ends = np.searchsorted(ids, ids, side="right")
    return batches.compress(ends - np.arange(ids.size) <= CACHED_BATCHES)


def cached_by_broker(state: ReplicaState) -> np.ndarray:
    """Return a mask of the state's batches that a broker still caches.

    A batch or a marker with a new epoch empties the cache.
    """
    entries, batches = state.entries, state.batches
    if not entries.size or not batches.size:
        return np.zeros(batches.size, np.bool_)
    index = np.minimum(np.searchsorted(entries["producer_id"], batches["producer_id"]), entries.size - 1)
    entry = entries.take(index)
    is_known = (entry["producer_id"] == batches["producer_id"]) & (entry["last_offset"] >= 0)
    fits = is_known & (entry["producer_epoch"] == batches["producer_epoch"])
    # If a batch of another epoch follows, the batch is not cached, even if its epoch returned later.
    ends = np.searchsorted(batches["producer_id"], batches["producer_id"], side="right")
    strangers = np.concatenate([[0], np.cumsum(~fits)])
    mask: np.ndarray = fits & (strangers[ends] == strangers[np.arange(batches.size)])
    return mask


def empty_state() -> ReplicaState:
    """Return the state of a replica without producers."""
    return ReplicaState(np.empty(0, ENTRY_DTYPE), NO_BATCHES)


class RecentBatches:
    """A collector of the newest batches of every producer, for one pass over a log.

    It keeps five batches per producer, 39 bytes each. It also keeps about as many batches that are not sorted yet.
    """

    _HELD = 65_536

    def __init__(self, *, from_offset: int = 0) -> None:
        """Ignore batches below `from_offset`."""
        self._from_offset = from_offset
        self._newest = NO_BATCHES
        self._held: list[np.ndarray] = []
        self._count = 0

    def add(self, batches: np.ndarray) -> None:
        """Add the next batches (BATCH_DTYPE) in offset order. The caller must not change the array afterwards."""
        if self._from_offset:
            batches = batches.compress(batches["first_offset"] >= self._from_offset)
        self._held.append(batches)
        self._count += batches.size
        if self._count > max(self._HELD, self._newest.size):
            self._settle()

    def newest(self) -> np.ndarray:
        """Return at most five batches per producer (BATCH_DTYPE, ascending producer id and offset)."""
        self._settle()
        return self._newest

    def _settle(self) -> None:
        if self._held:
            self._newest = newest_batches(self._newest, *self._held)
        self._held, self._count = [], 0
