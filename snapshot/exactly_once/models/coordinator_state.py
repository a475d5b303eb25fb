"""The state of a transactional id in a transaction coordinator, and the behaviour of coordinators by release.

`check_request` makes the checks of InitProducerId that do not depend on the state. Follows
org.apache.kafka.coordinator.transaction.TransactionMetadata, TransactionState,
kafka.coordinator.transaction.TransactionCoordinator.handleInitProducerId and kafka.server.KafkaApis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.decision_table import Row, read_table, words
from tiersnap.snapshot.exactly_once.models.eras import Era, era_of

NO_PRODUCER_ID = -1
NO_EPOCH = -1
LARGEST_EPOCH = 32767
EXHAUSTED_EPOCH = LARGEST_EPOCH - 1  # at this epoch or above, InitProducerId gives a new producer id


class ProducerIdAndEpoch(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    producer_epoch: int


class TransactionState(StrEnum):
    """The state of a transactional id."""

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
    """The coordinator's state of one transactional id."""

    producer_id: int
    producer_epoch: int
    state: TransactionState
    # The epoch before the last bump, if the client named it in its request; else -1.
    last_producer_epoch: int = NO_EPOCH
    # The producer id before the last record. It differs from `producer_id` only after a rotation. -1 before the first
    # record, or if a failover lost it.
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID  # reserved if the transaction's end exhausts the epoch, else -1
    instance_epoch: int = NO_EPOCH  # first epoch of the running instance; used only by KIP-360's draft
    is_pending: bool = False  # whether a record is being written, so that the next state is only in memory
    # Whether the record of an earlier fence could not be written. `producer_epoch` is the epoch of that fence.
    has_failed_fence: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Return whether the epoch is too high for another bump."""
        return self.producer_epoch >= EXHAUSTED_EPOCH

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """Return producer id and epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)


class ResumeRule(StrEnum):
    """The rule for old epochs in InitProducerId. A client is fenced if the rule does not accept the old epoch."""

    NEVER = "never"  # the request has no such fields, so every call fences the previous instance
    LAST_EPOCH = "last epoch"  # KIP-360 as shipped
    INSTANCE_EPOCH = "instance epoch"  # KIP-360's draft


@dataclass(frozen=True, slots=True)
class CoordinatorEra(Era):
    """A range of releases whose coordinators behave in the same way."""

    # The highest transaction.version of the releases. It decides how they fence.
    transaction_version: int = 1
    resume: ResumeRule = ResumeRule.LAST_EPOCH
    fenced: Answer = Answer.PRODUCER_FENCED  # the answer to a client with an old epoch
    looks_for_pending_first: bool = True  # whether AddPartitionsToTxn checks for a pending record before the ids
    knows_two_phases: bool = False  # whether requests have the flags of KIP-939
    # Whether a fence-abort raises the epoch before the abort. The abort of version 2 raises the epoch, too. 4.0.0
    # raised the epoch twice (KAFKA-19367).
    fence_is_kept: bool = True
    # Whether a fence keeps the last epoch until its record is written. This has no effect, because the record of the
    # abort overwrites the last epoch.
    fence_keeps_last: bool = False
    # Whether epoch 32767 can be fenced and aborted, and an exhausted epoch leads to a new producer id (KAFKA-20090).
    # Earlier coordinators failed with an error.
    fences_last_epoch: bool = False
    # Whether records contain the previous and the next producer id, so that both survive a failover (KAFKA-20310).
    # With transaction.version 0 records never contain them.
    persists_rotation: bool = False


# Rules in the order of the attributes, from `looks_for_pending_first` on.
_RULES = ("pending", "two phases", "fence kept", "keeps last", "last epoch", "rotation")
_FENCED = {"STALE": Answer.INVALID_PRODUCER_EPOCH, "FENCED": Answer.PRODUCER_FENCED}
_ERAS = read_table("""
 name             | first | releases | version | resume     | fenced | changed by  | rules
 before KIP-360   | 0.11  | 0.11-2.4 | 1       | never      | STALE  | KIP-98      | fence kept
 KIP-360          | 2.5   | 2.5-2.6  | 1       | last epoch | STALE  | KIP-360     | fence kept
 KIP-588          | 2.7   | 2.7-3.9  | 1       | last epoch | FENCED | KIP-588     | fence kept
 KIP-588 in 4.0   | 4.0   | 4.0      | 1       | last epoch | FENCED | KIP-890     | fence kept, pending
 KIP-588 in 4.1   | 4.1   | 4.1      | 1       | last epoch | FENCED | KIP-939     | fence kept, pending, two phases
 KIP-588 in 4.2   | 4.2   | 4.2      | 1       | last epoch | FENCED | KAFKA-18884 | \
fence kept, pending, two phases, keeps last
 KIP-588 in 4.3   | 4.3   | 4.3-4.4  | 1       | last epoch | FENCED | KAFKA-20090, KAFKA-20310 | \
fence kept, pending, two phases, keeps last, last epoch, rotation
 KIP-890 in 4.0.0 | 4.0   | 4.0.0    | 2       | last epoch | FENCED | KIP-890     | fence kept, pending
 KIP-890          | 4.0.1 | 4.0.1    | 2       | last epoch | FENCED | KAFKA-19367 | pending
 KIP-890 in 4.1   | 4.1   | 4.1      | 2       | last epoch | FENCED | KIP-939     | pending, two phases
 KIP-890 in 4.2   | 4.2   | 4.2      | 2       | last epoch | FENCED | KAFKA-18884 | pending, two phases, keeps last
 KIP-890 in 4.3   | 4.3   | 4.3-4.4  | 2       | last epoch | FENCED | KAFKA-20090, KAFKA-20310 | \
pending, two phases, keeps last, last epoch, rotation
""")


def _era(row: Row) -> CoordinatorEra:
    first = tuple(map(int, row["first"].split(".")))
    about = (row["name"], first, row["releases"], row["changed by"], int(row["version"]))
    rules = map(words(row["rules"]).__contains__, _RULES)
    return CoordinatorEra(*about, ResumeRule(row["resume"]), _FENCED[row["fenced"]], *rules)


COORDINATOR_ERAS = tuple(map(_era, _ERAS))


def eras_of_version(transaction_version: int) -> list[CoordinatorEra]:
    """Return the eras of coordinators, oldest first, whose transaction.version has this value (1 or 2)."""
    return [era for era in COORDINATOR_ERAS if era.transaction_version == transaction_version]


def coordinator_era_of(release: str, transaction_version: int) -> CoordinatorEra:
    """Return the era of a coordinator.

    Args:
        release: such as `3.9` or `4.1.1`.
        transaction_version: transaction.version of the cluster: 0, 1 or 2.

    Raises:
        ValueError: `release` is no release of Kafka, or does not support the version.
    """
    return era_of(release, eras_of_version(max(transaction_version, 1)))


def after_failover(metadata: TransactionMetadata, era: CoordinatorEra) -> TransactionMetadata:
    """Return the state that the next coordinator loads after a failover.

    `last_producer_epoch` is NO_EPOCH, because no release up to 4.4.0 writes this field to `__transaction_state`.
    """
    kept = metadata
    if not era.persists_rotation:
        kept = replace(metadata, previous_producer_id=-1, next_producer_id=-1)
    return replace(kept, last_producer_epoch=NO_EPOCH, is_pending=False)


DEFAULT_MAX_TIMEOUT_MS = 900_000
FIRST_VERSION_WITH_IDENTITY = 3
FIRST_VERSION_WITH_FENCED = 4
# The stored timeout of a transaction in two phases (KIP-939, since 4.1). Such a transaction never times out.
TWO_PHASE_TIMEOUT_MS = 2_147_483_647
_AT_REST = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """The fields of an InitProducerId request that the coordinator checks.

    A new instance sends -1 as `producer_id` and `producer_epoch`. `in_two_phases` and `keep_prepared` are flags of
    KIP-939, in requests since 4.1.
    """

    transactional_id: str | None
    transaction_timeout_ms: int = 60_000
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    version: int = 5
    in_two_phases: bool = False
    keep_prepared: bool = False


def check_request(
    request: InitProducerIdRequest, *, max_timeout_ms: int = DEFAULT_MAX_TIMEOUT_MS, allows_two_phases: bool = False
) -> Answer | None:
    """Return the answer if the request alone decides it, else None.

    A producer without a transactional id gets Answer.NONE (no error), and a new producer id with epoch 0.

    Args:
        max_timeout_ms: transaction.max.timeout.ms.
        allows_two_phases: transaction.two.phase.commit.enable.
    """
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if request.version >= FIRST_VERSION_WITH_IDENTITY and has_id != has_epoch:
        return Answer.INVALID_REQUEST
    if request.transactional_id is None:
        return Answer.NONE
    if not request.transactional_id:
        return Answer.INVALID_REQUEST
    if request.in_two_phases and not allows_two_phases:
        return Answer.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared:  # no release up to 4.4 supports it
        return Answer.UNSUPPORTED_VERSION
    if not request.in_two_phases and not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        return Answer.INVALID_TRANSACTION_TIMEOUT
    return None


def as_reported(answer: Answer, request_version: int) -> Answer:
    """Return the answer that a client with this version of the request receives instead of `answer`."""
    if answer is Answer.PRODUCER_FENCED and request_version < FIRST_VERSION_WITH_FENCED:
        return Answer.INVALID_PRODUCER_EPOCH
    return answer


def is_timed_out(*, start_timestamp: int, timeout_ms: int, now: int) -> bool:
    """Return whether the coordinator aborts an ongoing transaction at `now`. All arguments are in ms."""
    return timeout_ms != TWO_PHASE_TIMEOUT_MS and start_timestamp + timeout_ms < now


def is_transactional_id_expired(state: TransactionState, *, last_update: int, expiration_ms: int, now: int) -> bool:
    """Return whether the coordinator deletes the transactional id at `now`. All times are in ms."""
    return state in _AT_REST and last_update <= now - expiration_ms
