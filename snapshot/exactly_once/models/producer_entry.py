"""A broker's entry of one producer, and the batches and markers that change it.

Follows org.apache.kafka.storage.internals.log.ProducerStateEntry and BatchMetadata. The fold over whole logs is
snapshot.replay; these are single producers, for tables that people read.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_SEQUENCE = -1
LARGEST_SEQUENCE = 2147483647


def next_sequence(last_sequence: int) -> int:
    """Return the sequence after `last_sequence` (-1: none yet), which wraps to 0."""
    return 0 if last_sequence == LARGEST_SEQUENCE else last_sequence + 1


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """A batch that a broker caches; offsets and sequences are inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """A broker's state of one producer."""

    producer_epoch: int
    batches: tuple[BatchMetadata, ...] = ()  # of this epoch, oldest first; none after a marker that changed the epoch
    coordinator_epoch: int = -1  # of the last marker, -1 without one
    txn_first_offset: int | None = None  # first offset of the open transaction, None without one
    timestamp: int = -1  # ms, of the last batch or marker; -1 without one

    @property
    def last_sequence(self) -> int:
        """Return the last sequence; -1 without one."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class NextBatch:
    """A data batch that a producer sends; `transaction_version` is that of its transaction, 0 without one."""

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
