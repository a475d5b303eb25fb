"""How batches, markers and a restart change what a broker remembers of one producer.

Follows org.apache.kafka.storage.internals.log.ProducerStateEntry and ProducerAppendInfo. The fold over whole logs is
snapshot.replay; these are single producers.
"""

from __future__ import annotations

from dataclasses import replace

from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import (
    LARGEST_SEQUENCE,
    BatchMetadata,
    EndMarker,
    NextBatch,
    ProducerEntry,
)

_SEQUENCES = LARGEST_SEQUENCE + 1


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


def after_marker(entry: ProducerEntry | None, marker: EndMarker, era: BrokerEra) -> ProducerEntry:
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
