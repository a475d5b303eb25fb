"""What a transaction coordinator remembers of one transactional id, and which release it is.

Follows org.apache.kafka.coordinator.transaction.TransactionMetadata and TransactionState.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from tiersnap.snapshot.models.answers import Answer

NO_PRODUCER_ID = -1
NO_EPOCH = -1
LARGEST_EPOCH = 32767
EXHAUSTED_EPOCH = LARGEST_EPOCH - 1  # from here on the next InitProducerId gives a new producer id


class ProducerIdAndEpoch(NamedTuple):
    """A producer's identity."""

    producer_id: int
    producer_epoch: int


class TransactionState(StrEnum):
    """States of a transactional id."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """One transactional id.

    Attributes:
        last_producer_epoch: the epoch before the last bump, if the client that asked for it had named it; -1 otherwise.
        previous_producer_id: the producer id before the last record, another one only right after a rotation; -1 before
            any record was written, or where it did not survive a failover.
        next_producer_id: reserved for the end of a transaction that exhausts the epoch, else -1.
        instance_epoch: KIP-360's draft alone: the epoch that the running instance began with.
        is_pending: a record of it is being written, and the next state is known in memory alone.
    """

    producer_id: int
    producer_epoch: int
    state: TransactionState
    last_producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    instance_epoch: int = NO_EPOCH
    is_pending: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether the epoch is too high to be bumped for a client once more."""
        return self.producer_epoch >= EXHAUSTED_EPOCH

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """Producer id and epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)


class Resume(StrEnum):
    """How a client that names its producer id and epoch in InitProducerId is told from one that was fenced."""

    NEVER = "never"  # the request has no such fields: every call fences the instance before
    LAST_EPOCH = "last epoch"  # KIP-360 as shipped
    INSTANCE_EPOCH = "instance epoch"  # KIP-360's draft


@dataclass(frozen=True, slots=True)
class CoordinatorEra:
    """How the coordinators of some releases answer.

    Attributes:
        fenced: what a client is told whose epoch is not the current one.
        transaction_version: transaction.version of the server, which alone decides how it fences.
        fence_bumps: by how much a fence-abort raises the epoch.
        fence_keeps_last: whether a fence-abort remembers the epoch below the new one as the last one.
        fence_rotates: whether a fence-abort of an exhausted epoch reserves a new producer id.
        persists_rotation: whether the previous and the next producer id are in the record, and survive a failover.
    """

    name: str
    releases: str
    resume: Resume = Resume.LAST_EPOCH
    fenced: Answer = Answer.PRODUCER_FENCED
    transaction_version: int = 1
    fence_bumps: int = 1
    fence_keeps_last: bool = False
    fence_rotates: bool = False
    persists_rotation: bool = False


_OLD_FENCED = Answer.INVALID_PRODUCER_EPOCH
BEFORE_KIP_360 = CoordinatorEra("before KIP-360", "0.11-2.4", Resume.NEVER, _OLD_FENCED)
KIP_360 = CoordinatorEra("KIP-360", "2.5-2.6", fenced=_OLD_FENCED)
KIP_588 = CoordinatorEra("KIP-588", "2.7-4.4, transaction.version 0 or 1")
KIP_890_IN_4_0_0 = CoordinatorEra(
    "KIP-890 in 4.0.0", "4.0.0, transaction.version 2", transaction_version=2, fence_bumps=2, fence_keeps_last=True
)
KIP_890 = CoordinatorEra("KIP-890", "4.0.1-4.2, transaction.version 2", transaction_version=2, fence_keeps_last=True)
KIP_890_IN_4_3 = CoordinatorEra(
    "KIP-890 in 4.3",
    "4.3-4.4, transaction.version 2",
    transaction_version=2,
    fence_keeps_last=True,
    fence_rotates=True,
    persists_rotation=True,
)
KIP_360_DRAFT = CoordinatorEra("KIP-360 draft", "never released", Resume.INSTANCE_EPOCH, _OLD_FENCED)

COORDINATOR_ERAS = (
    BEFORE_KIP_360,
    KIP_360,
    KIP_588,
    KIP_890_IN_4_0_0,
    KIP_890,
    KIP_890_IN_4_3,
    KIP_360_DRAFT,
)


def after_failover(metadata: TransactionMetadata, era: CoordinatorEra) -> TransactionMetadata:
    """What another coordinator that loads the record knows: no release up to 4.4.0 writes the last epoch."""
    kept = metadata if era.persists_rotation else replace(metadata, previous_producer_id=-1, next_producer_id=-1)
    return replace(kept, last_producer_epoch=NO_EPOCH, is_pending=False)
