"""The record by which a coordinator aborts a transaction over its owner's head, and raises the epoch.

It does so where another instance calls InitProducerId while a transaction is ongoing, and where one times out. Follows
org.apache.kafka.coordinator.transaction.TransactionMetadata.prepareFenceProducerEpoch and prepareAbortOrCommit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    LARGEST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    CoordinatorEra,
    TransactionMetadata,
    TransactionState,
)
from tiersnap.snapshot.exactly_once.models.end_transaction import prepared


@dataclass(frozen=True, slots=True)
class FenceAbort:
    """What the caller of InitProducerId is told.

    Attributes:
        step: PrepareEpochFence, in memory alone until the record is written; None if the epoch has no room.
        record: PrepareAbort; its markers carry the record's epoch. None if none is written.
    """

    answer: Answer
    step: TransactionMetadata | None
    record: TransactionMetadata | None


def fence_abort(metadata: TransactionMetadata, era: CoordinatorEra, *, new_producer_id: int) -> FenceAbort:
    """Abort the ongoing transaction of `metadata` and fence its producer.

    CONCURRENT_TRANSACTIONS asks the caller to come again when the markers are written. UNKNOWN_SERVER_ERROR: the epoch
    has no room for the bump.
    """
    reserved = new_producer_id if era.fences_last_epoch else NO_PRODUCER_ID
    step = _fence(metadata, era)
    if step is None:
        return FenceAbort(Answer.UNKNOWN_SERVER_ERROR, None, None)
    fenced = replace(
        metadata,
        producer_epoch=step.producer_epoch if era.fence_is_kept else metadata.producer_epoch,
        last_producer_epoch=NO_EPOCH,
    )
    record = prepared(fenced, era, commit=False, transaction_version=era.transaction_version, next_producer_id=reserved)
    answer = Answer.UNKNOWN_SERVER_ERROR if record is None else Answer.CONCURRENT_TRANSACTIONS
    return FenceAbort(answer, step, record)


def _fence(metadata: TransactionMetadata, era: CoordinatorEra) -> TransactionMetadata | None:
    """Raise the epoch, unless an earlier fence has done so; the largest one stays since 4.3."""
    if metadata.producer_epoch == LARGEST_EPOCH and not era.fences_last_epoch:
        return None
    stays = metadata.has_failed_fence or metadata.producer_epoch == LARGEST_EPOCH
    return replace(
        metadata,
        producer_epoch=metadata.producer_epoch + (0 if stays else 1),
        last_producer_epoch=metadata.last_producer_epoch if era.fence_keeps_last else NO_EPOCH,
        previous_producer_id=metadata.producer_id,
        state=TransactionState.PREPARE_EPOCH_FENCE,
    )
