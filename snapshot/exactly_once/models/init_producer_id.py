"""The coordinator's answer to InitProducerId, as one decision table for all releases.

The first row that matches decides. The column `resume` restricts a row to eras with that ResumeRule (see
coordinator_state). Functions below the table compute the conditions and the records.

Follows kafka.coordinator.transaction.TransactionCoordinator.prepareInitProducerIdTransit and KIP-360.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import (
    EXHAUSTED_EPOCH,
    NO_EPOCH,
    CoordinatorEra,
    ProducerIdAndEpoch,
    ResumeRule,
    TransactionMetadata,
    TransactionState,
)
from tiersnap.snapshot.exactly_once.models.decision_table import first_row, holding, read_table
from tiersnap.snapshot.exactly_once.models.end_transaction import CoordinatorAnswer, fence_abort

TABLE = read_table("""
 #  | state      | resume         | condition              | answer                  | record
 1  | any        | any            | pending                | CONCURRENT_TRANSACTIONS | -
 2  | any        | any            | other producer id      | FENCED                  | -
 3  | prepared   | any            | always                 | CONCURRENT_TRANSACTIONS | -
 4  | Ongoing    | any            | always                 | CONCURRENT_TRANSACTIONS | fence-abort
 5  | at rest    | any            | exhausted              | NONE                    | new producer id
 6  | at rest    | any            | exhausted, other epoch | UNKNOWN_SERVER_ERROR    | -
 7  | at rest    | any            | nothing supplied       | NONE                    | new instance
 8  | at rest    | any            | fresh                  | NONE                    | new instance
 9  | at rest    | any            | current epoch          | NONE                    | next epoch
 10 | at rest    | last epoch     | last epoch             | NONE                    | unchanged
 D1 | at rest    | instance epoch | since the instance     | NONE                    | unchanged
 11 | at rest    | any            | always                 | FENCED                  | -
 12 | impossible | any            | always                 | UNKNOWN_SERVER_ERROR    | -
""")

_STATES = {
    "at rest": (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT),
    "Ongoing": (TransactionState.ONGOING,),
    "prepared": (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT),
    "impossible": (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE),  # only in memory
}
Supplied = ProducerIdAndEpoch | None


def init_producer_id(
    metadata: TransactionMetadata | None, supplied: Supplied, era: CoordinatorEra, *, new_producer_id: int
) -> CoordinatorAnswer:
    """Return the answer to an InitProducerId request of a transactional id.

    Args:
        metadata: state of the transactional id; None if the coordinator does not have it, or deleted it.
        supplied: producer id and epoch of the request; None for (-1, -1), which a new instance sends.
        new_producer_id: producer id that the coordinator uses if it needs a new one.
    """
    if metadata is None:
        metadata = TransactionMetadata(new_producer_id, NO_EPOCH, TransactionState.EMPTY)
    if era.resume is ResumeRule.NEVER:
        supplied = None
    cells = {
        "state": [name for name, states in _STATES.items() if metadata.state in states],
        "resume": {era.resume},
        "condition": holding(_CONDITIONS, metadata, supplied),
    }
    row = first_row(TABLE, cells)
    if row["record"] == "fence-abort":
        return replace(fence_abort(metadata, era, new_producer_id=new_producer_id), rule=row["#"])
    answer = era.fenced if row["answer"] == "FENCED" else Answer[row["answer"]]
    if row["record"] == "-":
        return CoordinatorAnswer(answer, rule=row["#"])
    record = replace(
        _RECORDS[row["record"]](metadata, supplied, new_producer_id),
        state=TransactionState.EMPTY,
        previous_producer_id=metadata.producer_id,
        next_producer_id=-1,
    )
    return CoordinatorAnswer(answer, record.identity, record, rule=row["#"])


def _is_other_producer(metadata: TransactionMetadata, supplied: Supplied) -> bool:
    """Return whether the request is from another producer than the producer of `metadata`.

    A request with the previous producer id and its exhausted epoch is a retry of the same producer.
    """
    if supplied is None or metadata.producer_epoch == NO_EPOCH or supplied.producer_id == metadata.producer_id:
        return False
    is_rotated = supplied.producer_id == metadata.previous_producer_id
    return not (is_rotated and supplied.producer_epoch >= EXHAUSTED_EPOCH)


def _has_current_epoch(metadata: TransactionMetadata, supplied: Supplied) -> bool:
    return supplied is not None and supplied.producer_epoch == metadata.producer_epoch


_CONDITIONS: dict[str, Callable[[TransactionMetadata, Supplied], bool]] = {
    "pending": lambda metadata, _supplied: metadata.is_pending,
    "other producer id": _is_other_producer,
    "exhausted": lambda metadata, supplied: (
        metadata.is_exhausted and (supplied is None or _has_current_epoch(metadata, supplied))
    ),
    "exhausted, other epoch": lambda metadata, _supplied: metadata.is_exhausted,
    "nothing supplied": lambda _metadata, supplied: supplied is None,
    "fresh": lambda metadata, _supplied: metadata.producer_epoch == NO_EPOCH,
    "current epoch": _has_current_epoch,
    "last epoch": lambda metadata, supplied: (
        supplied is not None and supplied.producer_epoch == metadata.last_producer_epoch
    ),
    "since the instance": lambda metadata, supplied: (
        supplied is not None and 0 <= metadata.instance_epoch <= supplied.producer_epoch < metadata.producer_epoch
    ),
}


def _new_producer_id(metadata: TransactionMetadata, supplied: Supplied, new_producer_id: int) -> TransactionMetadata:
    return replace(
        metadata,
        producer_id=new_producer_id,
        producer_epoch=0,
        last_producer_epoch=NO_EPOCH if supplied is None else metadata.producer_epoch,
        instance_epoch=0,
    )


def _new_instance(metadata: TransactionMetadata, _supplied: Supplied, _new: int) -> TransactionMetadata:
    epoch = metadata.producer_epoch + 1
    return replace(metadata, producer_epoch=epoch, last_producer_epoch=NO_EPOCH, instance_epoch=epoch)


def _next_epoch(metadata: TransactionMetadata, _supplied: Supplied, _new: int) -> TransactionMetadata:
    epoch = metadata.producer_epoch
    return replace(metadata, producer_epoch=epoch + 1, last_producer_epoch=epoch)


_RECORDS: dict[str, Callable[[TransactionMetadata, Supplied, int], TransactionMetadata]] = {
    "new producer id": _new_producer_id,
    "new instance": _new_instance,
    "next epoch": _next_epoch,
    "unchanged": lambda metadata, _supplied, _new: metadata,
}
