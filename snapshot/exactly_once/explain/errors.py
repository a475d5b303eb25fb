"""Errors by their names: as the protocol has them, as Java's exceptions, and as numbers."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.decision_table import read_table

# Follows org.apache.kafka.common.protocol.Errors.
TABLE = read_table("""
 error                                 | code | exception
 UNKNOWN_SERVER_ERROR                  | -1   | UnknownServerException
 REQUEST_TIMED_OUT                     | 7    | TimeoutException
 MESSAGE_TOO_LARGE                     | 10   | RecordTooLargeException
 COORDINATOR_LOAD_IN_PROGRESS          | 14   | CoordinatorLoadInProgressException
 COORDINATOR_NOT_AVAILABLE             | 15   | CoordinatorNotAvailableException
 NOT_COORDINATOR                       | 16   | NotCoordinatorException
 NOT_ENOUGH_REPLICAS                   | 19   | NotEnoughReplicasException
 ILLEGAL_GENERATION                    | 22   | IllegalGenerationException
 UNKNOWN_MEMBER_ID                     | 25   | UnknownMemberIdException
 TOPIC_AUTHORIZATION_FAILED            | 29   | TopicAuthorizationException
 GROUP_AUTHORIZATION_FAILED            | 30   | GroupAuthorizationException
 CLUSTER_AUTHORIZATION_FAILED          | 31   | ClusterAuthorizationException
 UNSUPPORTED_VERSION                   | 35   | UnsupportedVersionException
 INVALID_REQUEST                       | 42   | InvalidRequestException
 OUT_OF_ORDER_SEQUENCE_NUMBER          | 45   | OutOfOrderSequenceException
 DUPLICATE_SEQUENCE_NUMBER             | 46   | DuplicateSequenceException
 INVALID_PRODUCER_EPOCH                | 47   | InvalidProducerEpochException
 INVALID_TXN_STATE                     | 48   | InvalidTxnStateException
 INVALID_PRODUCER_ID_MAPPING           | 49   | InvalidPidMappingException
 INVALID_TRANSACTION_TIMEOUT           | 50   | InvalidTxnTimeoutException
 CONCURRENT_TRANSACTIONS               | 51   | ConcurrentTransactionsException
 TRANSACTION_COORDINATOR_FENCED        | 52   | TransactionCoordinatorFencedException
 TRANSACTIONAL_ID_AUTHORIZATION_FAILED | 53   | TransactionalIdAuthorizationException
 OPERATION_NOT_ATTEMPTED               | 55   | OperationNotAttemptedException
 UNKNOWN_PRODUCER_ID                   | 59   | UnknownProducerIdException
 FENCED_INSTANCE_ID                    | 82   | FencedInstanceIdException
 PRODUCER_FENCED                       | 90   | ProducerFencedException
 TRANSACTION_ABORTABLE                 | 120  | TransactionAbortableException
""")


@dataclass(frozen=True, slots=True)
class NamedError:
    """An error; `code` and `exception` are None for DELIVERY_TIMED_OUT, which a client tells itself."""

    error: Answer
    code: int | None
    exception: str | None


ERRORS = (
    *(NamedError(Answer(row["error"]), int(row["code"]), row["exception"]) for row in TABLE),
    NamedError(Answer.DELIVERY_TIMED_OUT, None, None),
)


def named_error(word: str) -> NamedError | None:
    """Return the error of a name, of an exception's name, or of a code; None if it is none of these."""
    last = word.rpartition(".")[2].lower()
    for each in ERRORS:
        names = (str(each.error), each.exception or "", "" if each.code is None else str(each.code))
        if last in (name.lower() for name in names if name):
            return each
    return None
