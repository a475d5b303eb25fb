"""A broker's entry of one producer, and the batches and markers that change it.

Follows org.apache.kafka.storage.internals.log.ProducerStateEntry and BatchMetadata. The decision tables use these
objects for single producers. `snapshot.replay` computes the entries of whole logs.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_SEQUENCE = -1
LARGEST_SEQUENCE = 2147483647


def next_sequence(last_sequence: int) -> int:
    """Return the next sequence. The largest sequence wraps to 0, and -1 (no sequence) gives 0."""
    if last_sequence == LARGEST_SEQUENCE:
        return 0
    return last_sequence + 1


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """A batch in a broker's cache. Offsets and sequences are inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """A broker's state of one producer."""

    producer_epoch: int
    batches: tuple[BatchMetadata, ...] = ()  # of this epoch, oldest first; empty after a marker with a new epoch
    coordinator_epoch: int = -1  # from the last marker; -1 without a marker
    txn_first_offset: int | None = None  # first offset of the open transaction; None without one
    timestamp: int = -1  # ms, of the last batch or marker; -1 without one

    @property
    def last_sequence(self) -> int:
        """Return the last sequence, -1 if the entry has no batch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class NextBatch:
    """A data batch that a producer sends. `transaction_version` is 0 for a batch outside transactions."""

    producer_epoch: int
    first_sequence: int
    last_sequence: int
    transaction_version: int = 0

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction."""
        return self.transaction_version > 0


@dataclass(frozen=True, slots=True)
class EndMarker:
    """An end-transaction marker."""

    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int = 1
    timestamp: int = -1
