"""The record by which a coordinator aborts a transaction over its owner's head, and raises the epoch.

It does so where another instance calls InitProducerId while a transaction is ongoing, and where one times out. Follows
kafka.coordinator.transaction.TransactionMetadata.prepareFenceProducerEpoch and prepareAbortOrCommit; KAFKA-19367 is
the double bump of 4.0.0, KAFKA-20090 the rotation of 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiersnap.snapshot.models.answers import Answer
from tiersnap.snapshot.models.coordinator_state import (
    LARGEST_EPOCH,
    NO_EPOCH,
    CoordinatorEra,
    TransactionMetadata,
    TransactionState,
)


@dataclass(frozen=True, slots=True)
class FenceAbort:
    """What the caller of InitProducerId is told, and the PrepareAbort record; its markers carry the record's epoch."""

    answer: Answer
    record: TransactionMetadata | None


def fence_abort(metadata: TransactionMetadata, era: CoordinatorEra, *, new_producer_id: int) -> FenceAbort:
    """Abort the ongoing transaction of `metadata` and fence its producer.

    CONCURRENT_TRANSACTIONS asks the caller to come again when the markers are written. UNKNOWN_SERVER_ERROR: the epoch
    has no room for the bump.
    """
    epoch = metadata.producer_epoch + era.fence_bumps
    next_producer_id = metadata.next_producer_id
    if era.fence_rotates and metadata.is_exhausted:
        epoch, next_producer_id = min(epoch, LARGEST_EPOCH), new_producer_id
    if epoch > LARGEST_EPOCH:
        return FenceAbort(Answer.UNKNOWN_SERVER_ERROR, None)
    record = replace(
        metadata,
        producer_epoch=epoch,
        last_producer_epoch=epoch - 1 if era.fence_keeps_last else NO_EPOCH,
        previous_producer_id=metadata.producer_id,
        next_producer_id=next_producer_id,
        state=TransactionState.PREPARE_ABORT,
    )
    return FenceAbort(Answer.CONCURRENT_TRANSACTIONS, record)
