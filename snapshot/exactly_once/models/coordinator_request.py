"""What a coordinator checks of an InitProducerId request before it looks at the transactional id, and its clock.

Follows kafka.coordinator.transaction.TransactionCoordinator.handleInitProducerId and kafka.server.KafkaApis.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import NO_EPOCH, NO_PRODUCER_ID, TransactionState

DEFAULT_MAX_TIMEOUT_MS = 900_000
FIRST_VERSION_WITH_IDENTITY = 3
FIRST_VERSION_WITH_FENCED = 4
# What a coordinator notes as the timeout of a transaction in two phases (KIP-939, since 4.1): it never times out.
TWO_PHASE_TIMEOUT_MS = 2_147_483_647
_AT_REST = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """The fields of a request that are checked; -1 in both `producer_id` and `producer_epoch` for a new instance.

    `in_two_phases` and `keep_prepared` are KIP-939's, of requests since 4.1.
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
    """Return the answer that needs no transactional id; None if `init_producer_id` decides.

    NONE is for a producer without a transactional id: a new producer id with epoch 0, whatever it supplied.

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
    if request.keep_prepared:  # no release up to 4.4 can
        return Answer.UNSUPPORTED_VERSION
    if not request.in_two_phases and not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        return Answer.INVALID_TRANSACTION_TIMEOUT
    return None


def as_reported(answer: Answer, request_version: int) -> Answer:
    """Return the answer as a request of that version can say it."""
    is_new = answer is Answer.PRODUCER_FENCED and request_version < FIRST_VERSION_WITH_FENCED
    return Answer.INVALID_PRODUCER_EPOCH if is_new else answer


def is_timed_out(*, start_timestamp: int, timeout_ms: int, now: int) -> bool:
    """Return whether an ongoing transaction is aborted by the next look at the clock (ms)."""
    return timeout_ms != TWO_PHASE_TIMEOUT_MS and start_timestamp + timeout_ms < now


def is_transactional_id_expired(state: TransactionState, *, last_update: int, expiration_ms: int, now: int) -> bool:
    """Return whether the coordinator forgets the transactional id (times in ms); it then gives a new producer id."""
    return state in _AT_REST and last_update <= now - expiration_ms
