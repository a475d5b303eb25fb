"""The coordinator's answers to EndTxn and AddPartitionsToTxn. Each transaction version has a decision table.

The tables contain these words, besides states and errors:

    retry       version 2 only: the request repeats an EndTxn that bumped the epoch
    prepare     the coordinator writes a Prepare record and the markers, and finally the Complete record
    empty abort version 2 only: no transaction was ongoing, but the epoch is bumped

A coordinator aborts a transaction without EndTxn if another producer instance with the transactional id calls
InitProducerId, or if the transaction times out. Follows kafka.coordinator.transaction.TransactionCoordinator
(endTransaction, in 4.0 and later with KIP-890, and handleAddPartitionsToTransaction) and TransactionMetadata
(prepareFenceProducerEpoch and prepareAbortOrCommit).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    EXHAUSTED_EPOCH,
    LARGEST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    CoordinatorEra,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from tiersnap.snapshot.exactly_once.models.decision_table import first_row, read_table

TABLE_OF_VERSION_1 = read_table("""
 state          | retry | COMMIT                  | ABORT
 Ongoing        | any   | prepare                 | prepare
 CompleteCommit | any   | NONE                    | INVALID_TXN_STATE
 CompleteAbort  | any   | INVALID_TXN_STATE       | NONE
 PrepareCommit  | any   | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
 PrepareAbort   | any   | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
 Empty          | any   | INVALID_TXN_STATE       | INVALID_TXN_STATE
 any            | any   | UNKNOWN_SERVER_ERROR    | UNKNOWN_SERVER_ERROR
""")
TABLE_OF_VERSION_2 = read_table("""
 state          | retry | COMMIT                  | ABORT
 Ongoing        | any   | prepare                 | prepare
 CompleteCommit | yes   | NONE                    | INVALID_TXN_STATE
 CompleteCommit | no    | INVALID_TXN_STATE       | empty abort
 CompleteAbort  | yes   | INVALID_TXN_STATE       | NONE
 CompleteAbort  | no    | INVALID_TXN_STATE       | empty abort
 PrepareCommit  | any   | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
 PrepareAbort   | any   | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
 Empty          | any   | INVALID_TXN_STATE       | empty abort
 any            | any   | UNKNOWN_SERVER_ERROR    | UNKNOWN_SERVER_ERROR
""")
_PREPARES = ("prepare", "empty abort")
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_MAY_ADD = (TransactionState.EMPTY, TransactionState.ONGOING, *_COMPLETE)


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer:
    """The answer to the client, and the record that the coordinator appends to `__transaction_state`."""

    answer: Answer
    # Producer id and epoch with which the client continues; None with an error.
    identity: ProducerIdAndEpoch | None = None
    record: TransactionMetadata | None = None  # the new state of the transactional id; None if no record is written
    # The state PrepareEpochFence, which is in memory before the record of a fence-abort is written. None for other
    # answers, and if the epoch cannot be bumped.
    fence: TransactionMetadata | None = None
    rule: str = ""  # number of the row that decided; only for InitProducerId


def end_transaction(
    metadata: TransactionMetadata,
    supplied: ProducerIdAndEpoch,
    era: CoordinatorEra,
    *,
    commit: bool,
    transaction_version: int,
    new_producer_id: int,
) -> CoordinatorAnswer:
    """Return the answer to EndTxn. `transaction_version` is 2 for EndTxn version 5, and less for older requests."""
    if transaction_version >= 2:
        refusal, table = _refused_by_version_2(metadata, supplied, era), TABLE_OF_VERSION_2
    else:
        refusal, table = _refused_by_version_1(metadata, supplied, era), TABLE_OF_VERSION_1
    if refusal is not None:
        return CoordinatorAnswer(refusal)
    retry = "yes" if _is_retry(metadata, supplied) else "no"
    row = first_row(table, {"state": {metadata.state}, "retry": {retry}})
    word = row["COMMIT" if commit else "ABORT"]
    if word not in _PREPARES:
        answer = Answer[word]
        if answer.is_error:
            return CoordinatorAnswer(answer)
        return CoordinatorAnswer(answer, metadata.identity)
    record = prepared(
        metadata, era, commit=commit, transaction_version=transaction_version, next_producer_id=new_producer_id
    )
    if record is None:
        return CoordinatorAnswer(Answer.UNKNOWN_SERVER_ERROR)
    return CoordinatorAnswer(Answer.NONE, completed(record).identity, record)


def prepared(
    metadata: TransactionMetadata,
    era: CoordinatorEra,
    *,
    commit: bool,
    transaction_version: int,
    next_producer_id: int,
) -> TransactionMetadata | None:
    """Return the Prepare record; None if version 2 must raise the epoch but the epoch is the largest one.

    Args:
        next_producer_id: producer id of the Complete record if the epoch is exhausted (version 2 only); -1 for none.
    """
    state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    record = replace(metadata, state=state, previous_producer_id=metadata.producer_id, next_producer_id=NO_PRODUCER_ID)
    if transaction_version < 2:
        return record
    epoch = metadata.producer_epoch
    may_keep_last_epoch = era.fences_last_epoch and not commit
    if epoch == LARGEST_EPOCH and not may_keep_last_epoch:
        return None
    record = replace(record, producer_epoch=min(epoch + 1, LARGEST_EPOCH), last_producer_epoch=epoch)
    if metadata.is_exhausted:
        return replace(record, next_producer_id=next_producer_id)
    return record


def completed(prepared: TransactionMetadata) -> TransactionMetadata:
    """Return the Complete record, which follows the markers.

    If the Prepare record has a next producer id, the Complete record has that id and epoch 0.
    """
    state = TransactionState.COMPLETE_ABORT
    if prepared.state is TransactionState.PREPARE_COMMIT:
        state = TransactionState.COMPLETE_COMMIT
    record = replace(
        prepared,
        state=state,
        previous_producer_id=prepared.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        has_failed_fence=False,
    )
    if prepared.next_producer_id == NO_PRODUCER_ID:
        return record
    return replace(record, producer_id=prepared.next_producer_id, producer_epoch=0)


def add_partitions(metadata: TransactionMetadata | None, supplied: ProducerIdAndEpoch, era: CoordinatorEra) -> Answer:
    """Return the answer to AddPartitionsToTxn or AddOffsetsToTxn. Every epoch except the current one is fenced."""
    if metadata is None:
        return Answer.INVALID_PRODUCER_ID_MAPPING
    if era.looks_for_pending_first and metadata.is_pending:
        return Answer.CONCURRENT_TRANSACTIONS
    if supplied.producer_id != metadata.producer_id:
        return Answer.INVALID_PRODUCER_ID_MAPPING
    if supplied.producer_epoch != metadata.producer_epoch:
        return era.fenced
    if metadata.is_pending or metadata.state in _PREPARED:
        return Answer.CONCURRENT_TRANSACTIONS
    if metadata.state in _MAY_ADD:
        return Answer.NONE
    return Answer.UNKNOWN_SERVER_ERROR


def _refused_by_version_1(
    metadata: TransactionMetadata, supplied: ProducerIdAndEpoch, era: CoordinatorEra
) -> Answer | None:
    if supplied.producer_id != metadata.producer_id:
        return Answer.INVALID_PRODUCER_ID_MAPPING
    if supplied.producer_epoch != metadata.producer_epoch:
        return era.fenced
    if metadata.is_pending:
        return Answer.CONCURRENT_TRANSACTIONS
    return None


def _refused_by_version_2(
    metadata: TransactionMetadata, supplied: ProducerIdAndEpoch, era: CoordinatorEra
) -> Answer | None:
    if metadata.is_pending:
        return Answer.CONCURRENT_TRANSACTIONS
    if supplied.producer_id != metadata.producer_id and not _is_overflow_retry(metadata, supplied):
        return Answer.INVALID_PRODUCER_ID_MAPPING
    is_current = supplied.producer_epoch == metadata.producer_epoch
    if metadata.state in _COMPLETE:
        is_valid = is_current or _is_retry(metadata, supplied)
    elif metadata.state in _PREPARED:
        is_valid = _is_bump_retry(metadata, supplied)
    else:
        is_valid = is_current
    if is_valid:
        return None
    return era.fenced


def _is_retry(metadata: TransactionMetadata, supplied: ProducerIdAndEpoch) -> bool:
    return _is_bump_retry(metadata, supplied) or _is_overflow_retry(metadata, supplied)


def _is_bump_retry(metadata: TransactionMetadata, supplied: ProducerIdAndEpoch) -> bool:
    return metadata.producer_epoch == supplied.producer_epoch + 1


def _is_overflow_retry(metadata: TransactionMetadata, supplied: ProducerIdAndEpoch) -> bool:
    is_rotated = metadata.previous_producer_id == supplied.producer_id and metadata.producer_epoch == 0
    return is_rotated and supplied.producer_epoch == EXHAUSTED_EPOCH


def fence_abort(metadata: TransactionMetadata, era: CoordinatorEra, *, new_producer_id: int) -> CoordinatorAnswer:
    """Abort the ongoing transaction and fence its producer. The abort markers have the epoch of the returned record.

    The answer is CONCURRENT_TRANSACTIONS if the caller should retry after the markers are written. It is
    UNKNOWN_SERVER_ERROR if the epoch cannot be bumped.
    """
    reserved = new_producer_id if era.fences_last_epoch else NO_PRODUCER_ID
    step = _fence(metadata, era)
    if step is None:
        return CoordinatorAnswer(Answer.UNKNOWN_SERVER_ERROR)
    fenced = replace(metadata, last_producer_epoch=NO_EPOCH)
    if era.fence_is_kept:
        fenced = replace(fenced, producer_epoch=step.producer_epoch)
    record = prepared(fenced, era, commit=False, transaction_version=era.transaction_version, next_producer_id=reserved)
    if record is None:
        return CoordinatorAnswer(Answer.UNKNOWN_SERVER_ERROR, fence=step)
    return CoordinatorAnswer(Answer.CONCURRENT_TRANSACTIONS, record=record, fence=step)


def _fence(metadata: TransactionMetadata, era: CoordinatorEra) -> TransactionMetadata | None:
    """Return the state PrepareEpochFence, which exists only in memory; None if the epoch cannot be raised.

    The epoch is raised, except if an earlier fence raised it already. Since 4.3 the coordinator fences a producer even
    if its epoch is the largest one.
    """
    is_last_epoch = metadata.producer_epoch == LARGEST_EPOCH
    if is_last_epoch and not era.fences_last_epoch:
        return None
    fenced = replace(metadata, previous_producer_id=metadata.producer_id, state=TransactionState.PREPARE_EPOCH_FENCE)
    if not era.fence_keeps_last:
        fenced = replace(fenced, last_producer_epoch=NO_EPOCH)
    if metadata.has_failed_fence or is_last_epoch:
        return fenced
    return replace(fenced, producer_epoch=metadata.producer_epoch + 1)
