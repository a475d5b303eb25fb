"""What a broker remembers of one producer, and how batches and markers change it.

Follows org.apache.kafka.storage.internals.log.ProducerStateEntry, BatchMetadata and ProducerAppendInfo. The fold over
whole logs is snapshot.replay.producer_state; these are single producers, for tables that people read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiersnap.snapshot.exactly_once.models.broker_eras import BrokerEra

NO_SEQUENCE = -1
LARGEST_SEQUENCE = 2147483647
_SEQUENCES = LARGEST_SEQUENCE + 1


def next_sequence(last_sequence: int) -> int:
    """The sequence after `last_sequence` (-1: none yet), which wraps to 0."""
    return 0 if last_sequence == LARGEST_SEQUENCE else last_sequence + 1


def last_sequence(first_sequence: int, offset_delta: int) -> int:
    """The last sequence of a batch; -1 where the first is -1."""
    return NO_SEQUENCE if first_sequence == NO_SEQUENCE else (first_sequence + offset_delta) % _SEQUENCES


def first_sequence(last_sequence: int, offset_delta: int) -> int:
    """The first sequence of a batch, as a broker reckons it from a snapshot; also where the last is -1."""
    if last_sequence >= offset_delta:
        return last_sequence - offset_delta
    return LARGEST_SEQUENCE - (offset_delta - last_sequence) + 1


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """A batch that a broker remembers; offsets and sequences inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """A producer as a broker knows it.

    Attributes:
        batches: of this epoch, oldest first; none after a marker that changed the epoch.
        coordinator_epoch: of the last marker, -1 without one.
        txn_first_offset: first offset of the open transaction, None without one.
        timestamp: ms, of the last batch or marker; -1 without one.
    """

    producer_epoch: int
    batches: tuple[BatchMetadata, ...] = ()
    coordinator_epoch: int = -1
    txn_first_offset: int | None = None
    timestamp: int = -1

    @property
    def last_sequence(self) -> int:
        """-1 where the entry knows no sequence."""
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
        """Whether it belongs to a transaction."""
        return self.transaction_version > 0


@dataclass(frozen=True, slots=True)
class Marker:
    """An end-transaction marker."""

    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int = 1
    timestamp: int = -1


def after_batch(
    entry: ProducerEntry | None, batch: NextBatch, era: BrokerEra, *, base_offset: int, timestamp: int = -1
) -> ProducerEntry:
    """The entry when the batch is appended; another epoch, even a lower one, forgets the cached batches."""
    count = (batch.last_sequence - batch.first_sequence) % _SEQUENCES
    appended = BatchMetadata(batch.first_sequence, batch.last_sequence, base_offset, base_offset + count)
    known = entry.batches if entry is not None and entry.producer_epoch == batch.producer_epoch else ()
    opened = entry.txn_first_offset if entry is not None else None
    if batch.is_transactional and opened is None:
        opened = base_offset
    return ProducerEntry(
        batch.producer_epoch,
        (*known, appended)[-era.cached_batches :],
        -1 if entry is None else entry.coordinator_epoch,
        opened,
        timestamp,
    )


def after_marker(entry: ProducerEntry | None, marker: Marker, era: BrokerEra) -> ProducerEntry:
    """The entry when the marker is appended; the same epoch keeps the cached batches."""
    keeps = entry is not None and entry.producer_epoch == marker.producer_epoch
    stands = -1 if entry is None else entry.timestamp
    return ProducerEntry(
        marker.producer_epoch,
        entry.batches if entry is not None and keeps else (),
        marker.coordinator_epoch,
        None,
        marker.timestamp if era.marker_moves_timestamp else stands,
    )


def after_restart(entry: ProducerEntry) -> ProducerEntry:
    """What a snapshot keeps of the entry: the newest batch alone."""
    return replace(entry, batches=entry.batches[-1:])
