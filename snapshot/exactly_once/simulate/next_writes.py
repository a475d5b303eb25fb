"""The writes that producers may send next, as columns: one kind of write for all producers of a partition.

    NEXT                the next batch in sequence
    RETRY_OF_LAST       the last batch once more, byte for byte
    RETRY_OF_OLDER      one of the four before it once more
    RETRY_BEFORE_BUMP   a batch of an earlier epoch once more, sent before a marker or a bump
    AFTER_GAP           a batch after one that got lost
    ZOMBIE_EPOCH        a first batch of an instance that was fenced, one epoch below
    RESET_TO_ZERO       sequence 0 in the same epoch, as clients before 2.5 begin again
    BUMPED_EPOCH        sequence 0 in the next epoch, as clients since 2.5 begin again

What a producer sends it takes from what it was acknowledged, so from the leader's state, whatever the replica knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.exactly_once.models.coordinator_state import LARGEST_EPOCH
from tiersnap.snapshot.exactly_once.models.producer_entry import LARGEST_SEQUENCE
from tiersnap.snapshot.exactly_once.simulate.kinds import Write
from tiersnap.snapshot.exactly_once.simulate.replica_state import BATCH_DTYPE, ReplicaState, cached_by_broker


@dataclass(frozen=True, slots=True)
class Writes:
    """Writes of one kind, equal lengths; `producer` is the index of the leader's entry."""

    write: Write
    producer: np.ndarray
    batch: np.ndarray  # BATCH_DTYPE; offsets are those of the first time where it is a retry, else -1


def next_writes(leader: ReplicaState) -> Iterator[Writes]:
    """Return all writes of all producers that the leader knows."""
    entries = leader.entries
    everyone = np.arange(entries.size)
    epoch = entries["producer_epoch"].astype(np.int64)
    following = (entries["last_sequence"].astype(np.int64) + 1) & LARGEST_SEQUENCE
    yield _single(Write.NEXT, entries, everyone, epoch, following)
    yield _single(Write.AFTER_GAP, entries, everyone, epoch, (following + 1) & LARGEST_SEQUENCE)
    yield _single(Write.RESET_TO_ZERO, entries, everyone, epoch, np.zeros_like(epoch))
    yield _single(Write.BUMPED_EPOCH, entries, np.flatnonzero(epoch < LARGEST_EPOCH), epoch + 1, np.zeros_like(epoch))
    yield _single(Write.ZOMBIE_EPOCH, entries, np.flatnonzero(epoch > 0), epoch - 1, np.zeros_like(epoch))
    yield from _retries(leader)


def _single(write: Write, entries: np.ndarray, producer: np.ndarray, epoch: np.ndarray, sequence: np.ndarray) -> Writes:
    """Return batches of one record; `epoch` and `sequence` are of all producers."""
    batch = np.empty(producer.size, BATCH_DTYPE)
    batch["producer_id"] = entries["producer_id"][producer]
    batch["producer_epoch"] = epoch[producer]
    batch["first_sequence"] = batch["last_sequence"] = sequence[producer]
    batch["first_offset"] = batch["last_offset"] = -1
    batch["is_transactional"] = False
    batch["size_bytes"] = 0
    return Writes(write, producer, batch)


def _retries(leader: ReplicaState) -> Iterator[Writes]:
    batches, entries = leader.batches, leader.entries
    ids = batches["producer_id"]
    producer = np.searchsorted(entries["producer_id"], ids)
    is_cached = cached_by_broker(leader)
    is_last = np.ones(ids.size, np.bool_)
    is_last[:-1] = ids[1:] != ids[:-1]
    is_earlier = batches["producer_epoch"] < entries["producer_epoch"][producer]
    for write, chosen in (
        (Write.RETRY_OF_LAST, is_cached & is_last),
        (Write.RETRY_OF_OLDER, is_cached & ~is_last),
        (Write.RETRY_BEFORE_BUMP, is_earlier),
    ):
        yield Writes(write, producer.compress(chosen), batches.compress(chosen))
