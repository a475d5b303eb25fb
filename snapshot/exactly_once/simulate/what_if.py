"""The answers to every next write of every producer, from a leader that never stopped and from a replica in its place.

An answer depends on few relations between a write and an entry. So writes with the same relations form a class. The
models answer one member of each class in each era, and this answer is valid for the whole class. The functions work on
one partition, on a host or in a Spark task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.exactly_once.models.answers import Answer, lets_in
from tiersnap.snapshot.exactly_once.models.append import append
from tiersnap.snapshot.exactly_once.models.coordinator_state import LARGEST_EPOCH
from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import (
    LARGEST_SEQUENCE,
    BatchMetadata,
    NextBatch,
    ProducerEntry,
)
from tiersnap.snapshot.exactly_once.models.verification import TransactionCheck
from tiersnap.snapshot.exactly_once.simulate.kinds import Write
from tiersnap.snapshot.exactly_once.simulate.replica_state import (
    BATCH_DTYPE,
    CACHED_BATCHES,
    ReplicaState,
    cached_by_broker,
)
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE


@dataclass(frozen=True, slots=True)
class Writes:
    """Writes of one kind. Both arrays have one item per write; `producer` has indexes of the leader's entries."""

    write: Write
    producer: np.ndarray
    batch: np.ndarray  # BATCH_DTYPE; a retry has its offsets in the log, other writes have -1


def next_writes(leader: ReplicaState) -> Iterator[Writes]:
    """Yield the next writes of all producers of the leader, by kind."""
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
    """Return a batch of one record for each index in `producer`. `epoch` and `sequence` have an item per entry."""
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


_NEVER = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The facts about a partition on which all its answers depend."""

    log_start_offset: int = 0  # brokers before 2.4 remove a producer when its last record is deleted
    transaction_version: int = 1  # version of transactions that begin now, if the broker supports it


@dataclass(frozen=True, slots=True)
class WriteClass:
    """Writes of one kind that get the same answer from every broker and the same reaction from every client."""

    write: Write
    is_transactional: bool
    is_known: bool
    members: np.ndarray  # indexes of the leader's entries, one per write
    producer_epoch: int
    last_acked_offset: int  # last offset (inclusive) of the first member's producer
    leader_answers: dict[str, Answer]  # by name of the era
    replica_answers: dict[str, Answer]

    def doubles(self, era: BrokerEra) -> bool:
        """Return whether the replica appends records a second time although the leader would not."""
        return self.write.is_retry and lets_in(self.leader_answers[era.name], self.replica_answers[era.name])


def what_if(
    leader: ReplicaState, replica: ReplicaState, eras: Sequence[BrokerEra], given: Circumstances
) -> Iterator[WriteClass]:
    """Yield the classes of writes, with the answers of leader and replica in each era.

    Args:
        leader: state of a leader that never stopped. The writes are from its producers.
        replica: state of the new leader.
    """
    leader_knows, replica_knows = _Known(leader, given), _Known(replica, given)
    is_transactional = _transactional(leader)
    for writes in next_writes(leader):
        if writes.producer.size:
            yield from _classes(writes, leader, leader_knows, replica_knows, is_transactional, eras, given)


def _classes(
    writes: Writes,
    leader: ReplicaState,
    leader_knows: _Known,
    replica_knows: _Known,
    is_transactional: np.ndarray,
    eras: Sequence[BrokerEra],
    given: Circumstances,
) -> Iterator[WriteClass]:
    transactional = is_transactional[writes.producer] | writes.batch["is_transactional"]
    # The last two features decide how clients react to an answer.
    is_front_removed = leader.entries["last_offset"][writes.producer] < given.log_start_offset
    is_last_epoch = writes.batch["producer_epoch"] == LARGEST_EPOCH
    columns = (
        *leader_knows.features(writes),
        *replica_knows.features(writes),
        transactional,
        is_front_removed,
        is_last_epoch,
    )
    features = np.stack(columns, axis=1)
    _, first, inverse = np.unique(features.astype(np.int8), axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(first.size + 1))
    for number, index in enumerate(first.tolist()):
        batch, entry = writes.batch[index], leader.entries[writes.producer[index]]
        producer_id = int(batch["producer_id"])
        said = writes.write.coordinator_says(is_ongoing=bool(entry["current_txn_first_offset"] >= 0))
        version = given.transaction_version if transactional[index] else 0
        asked = [(era, _sent(batch, era, version), TransactionCheck(said)) for era in eras]
        yield WriteClass(
            write=writes.write,
            is_transactional=bool(transactional[index]),
            is_known=replica_knows.has(producer_id),
            members=writes.producer[order[bounds[number] : bounds[number + 1]]],
            producer_epoch=int(batch["producer_epoch"]),
            last_acked_offset=int(entry["last_offset"]),
            leader_answers=_answers(leader_knows, producer_id, asked),
            replica_answers=_answers(replica_knows, producer_id, asked),
        )


def _answers(
    known: _Known, producer_id: int, asked: Sequence[tuple[BrokerEra, NextBatch, TransactionCheck]]
) -> dict[str, Answer]:
    """Return the answers to one producer, by name of the era."""
    entry, is_forgotten = known.entry(producer_id), known.forgets(producer_id)
    answers: dict[str, Answer] = {}
    for era, sent, verification in asked:
        kept = None if is_forgotten and era.forgets_deleted else entry
        answers[era.name] = append(kept, sent, era, verification=verification).answer
    return answers


def _sent(batch: np.void, era: BrokerEra, version: int) -> NextBatch:
    """Return the batch that a client sends to a broker of the era. Brokers before 4.0 have transaction version 1."""
    epoch, first, last = (int(batch[name]) for name in ("producer_epoch", "first_sequence", "last_sequence"))
    if not era.speaks_version_2:
        version = min(version, 1)
    return NextBatch(epoch, first, last, version)


def _transactional(leader: ReplicaState) -> np.ndarray:
    """Return a mask of the entries with a marker, an open transaction or a transactional batch.

    The producers of these entries have a transactional id.
    """
    entries, batches = leader.entries, leader.batches
    marked: np.ndarray = (entries["coordinator_epoch"] >= 0) | (entries["current_txn_first_offset"] >= 0)
    return marked | np.isin(entries["producer_id"], batches["producer_id"].compress(batches["is_transactional"]))


class _Known:
    """The state of one replica, with the batches that it caches."""

    def __init__(self, state: ReplicaState, given: Circumstances) -> None:
        self._entries = state.entries
        # Before 2.4 a broker removed producers only when records were deleted.
        self._forgotten_below = given.log_start_offset or _NEVER
        self._cached = state.batches.compress(cached_by_broker(state))

    def features(self, writes: Writes) -> Iterator[np.ndarray]:
        """Yield columns of small integers. Together they decide every answer to the writes."""
        entries, batch = self._entries, writes.batch
        index, is_known = _find(entries["producer_id"], batch["producer_id"])
        entry = entries.take(index) if entries.size else np.zeros(index.size, ENTRY_DTYPE)
        has_sequence = is_known & (entry["last_offset"] >= 0) & (entry["last_sequence"] >= 0)
        yield is_known
        yield has_sequence
        yield is_known * np.sign(batch["producer_epoch"].astype(np.int64) - entry["producer_epoch"])
        yield is_known & (entry["current_txn_first_offset"] >= 0)
        yield is_known & (entry["last_offset"] < self._forgotten_below)
        yield batch["first_sequence"] == 0
        following = (entry["last_sequence"].astype(np.int64) + 1) & LARGEST_SEQUENCE
        yield has_sequence & (batch["first_sequence"] == following)
        yield from self._against_cache(batch)

    def _against_cache(self, batch: np.ndarray) -> Iterator[np.ndarray]:
        """Yield four masks that compare each batch with the cached batches of its producer.

        The first two show whether the batch equals the newest cached batch, or any cached batch. The other two show
        whether its sequences are below the newest cached batch, or below all cached batches.
        """
        ids = self._cached["producer_id"]
        starts = np.searchsorted(ids, batch["producer_id"], side="left")
        ends = np.searchsorted(ids, batch["producer_id"], side="right")
        is_newest, is_one, below_newest, below_all = (np.zeros(batch.size, np.bool_) for _ in range(4))
        for back in range(1, CACHED_BATCHES + 1):
            at = ends - back
            there = at >= starts
            if not there.any():
                break
            cached = self._cached.take(np.maximum(at, 0))
            same = there & (cached["first_sequence"] == batch["first_sequence"])
            same &= cached["last_sequence"] == batch["last_sequence"]
            same &= cached["producer_epoch"] == batch["producer_epoch"]
            below = (batch["last_sequence"] < cached["first_sequence"]) & (batch["last_sequence"] != 0)
            below &= cached["first_sequence"] != LARGEST_SEQUENCE
            is_one |= same
            below_all = np.where(there, below, below_all)
            if back == 1:
                is_newest, below_newest = same, there & below
        yield from (is_newest, is_one, below_newest, below_all)

    def has(self, producer_id: int) -> bool:
        """Return whether the replica has an entry of the producer."""
        return bool(_find(self._entries["producer_id"], np.array([producer_id]))[1][0])

    def forgets(self, producer_id: int) -> bool:
        """Return whether all records of the producer are below the log start offset."""
        index, is_known = _find(self._entries["producer_id"], np.array([producer_id]))
        return bool(is_known[0]) and bool(self._entries["last_offset"][index[0]] < self._forgotten_below)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        """Return the entry of a producer, None if the replica has none."""
        index, is_known = _find(self._entries["producer_id"], np.array([producer_id]))
        if not is_known[0]:
            return None
        entry = self._entries[index[0]]
        ids = self._cached["producer_id"]
        start, end = np.searchsorted(ids, producer_id, side="left"), np.searchsorted(ids, producer_id, side="right")
        opened = int(entry["current_txn_first_offset"])
        return ProducerEntry(
            int(entry["producer_epoch"]),
            tuple(_metadata(batch) for batch in self._cached[start:end]),
            int(entry["coordinator_epoch"]),
            opened if opened >= 0 else None,
            int(entry["timestamp"]),
        )


def _metadata(batch: np.void) -> BatchMetadata:
    names = ("first_sequence", "last_sequence", "first_offset", "last_offset")
    return BatchMetadata(*(int(batch[name]) for name in names))


def _find(ids: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each wanted id its index in the ascending `ids`, and whether `ids` contains it."""
    index = np.minimum(np.searchsorted(ids, wanted), max(ids.size - 1, 0))
    is_there = ids.take(index) == wanted if ids.size else np.zeros(wanted.size, np.bool_)
    return index, is_there
