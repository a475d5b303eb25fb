"""Exception groups of errors: the groups that KIP-691 proposed, and the groups of KIP-1050, which are in 4.1.

KIP-691 was accepted but not built. It proposed to wrap abortable errors, and only these, in a KafkaException. In a
commit the wrapper is a CommitFailedException. KIP-1050 gave the exceptions base classes instead. The groups are labels:
a producer reacts to an error without regard to its group (see produce_reaction and transaction_reaction).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.decision_table import Row, read_table
from tiersnap.snapshot.exactly_once.models.eras import Severity


class Surface(StrEnum):
    """The place where the application receives an error."""

    CALL = "call"  # the next transactional call throws it
    BOTH = "both"  # the next transactional call throws it, and the callback of send receives it


# The group is the nearest base class in org.apache.kafka.common.errors of 4.1.1; `-` if KIP-1050 added none.
TABLE = read_table("""
 error                                 | surface | proposed  | failure            | group
 INVALID_PRODUCER_ID_MAPPING           | both    | ABORTABLE | TRANSACTION_FAILED | ApplicationRecoverable
 UNKNOWN_PRODUCER_ID                   | both    | ABORTABLE | TRANSACTION_FAILED | -
 OUT_OF_ORDER_SEQUENCE_NUMBER          | both    | ABORTABLE | TRANSACTION_FAILED | -
 INVALID_PRODUCER_EPOCH                | both    | ABORTABLE | TRANSACTION_FAILED | ApplicationRecoverable
 PRODUCER_FENCED                       | call    | FATAL     | TRANSACTION_FAILED | ApplicationRecoverable
 INVALID_TXN_STATE                     | call    | FATAL     | TRANSACTION_FAILED | -
 TOPIC_AUTHORIZATION_FAILED            | both    | FATAL     | DELIVERY_FAILED    | InvalidConfiguration
 GROUP_AUTHORIZATION_FAILED            | call    | FATAL     | -                  | InvalidConfiguration
 CLUSTER_AUTHORIZATION_FAILED          | both    | FATAL     | DELIVERY_FAILED    | InvalidConfiguration
 TRANSACTIONAL_ID_AUTHORIZATION_FAILED | both    | FATAL     | DELIVERY_FAILED    | InvalidConfiguration
 UNSUPPORTED_VERSION                   | both    | FATAL     | DELIVERY_FAILED    | InvalidConfiguration
 FENCED_INSTANCE_ID                    | call    | FATAL     | -                  | ApplicationRecoverable
 UNKNOWN_MEMBER_ID                     | call    | FATAL     | -                  | ApplicationRecoverable
 ILLEGAL_GENERATION                    | call    | FATAL     | -                  | ApplicationRecoverable
 MESSAGE_TOO_LARGE                     | both    | ABORTABLE | MESSAGE_REJECTED   | -
 NOT_ENOUGH_REPLICAS                   | both    | ABORTABLE | DELIVERY_FAILED    | Retriable
 REQUEST_TIMED_OUT                     | both    | ABORTABLE | DELIVERY_FAILED    | Retriable
 DELIVERY_TIMED_OUT                    | both    | ABORTABLE | DELIVERY_FAILED    | Retriable
 NOT_COORDINATOR                       | call    | RETRY     | -                  | RefreshRetriable
 COORDINATOR_NOT_AVAILABLE             | call    | RETRY     | -                  | RefreshRetriable
 COORDINATOR_LOAD_IN_PROGRESS          | call    | RETRY     | -                  | Retriable
 CONCURRENT_TRANSACTIONS               | call    | RETRY     | -                  | Retriable
 TRANSACTION_ABORTABLE                 | both    | ABORTABLE | TRANSACTION_FAILED | TransactionAbortable
 OPERATION_NOT_ATTEMPTED               | call    | ABORTABLE | -                  | -
 UNKNOWN_SERVER_ERROR                  | both    | FATAL     | DELIVERY_FAILED    | -
""")


@dataclass(frozen=True, slots=True)
class ExceptionGroup:
    """The classification of one error by KIP-691 and KIP-1050."""

    surface: Surface
    proposed: Severity  # severity by KIP-691
    wraps: int  # number of exceptions that KIP-691 would wrap around the error, 0 or 1
    failure_type: str | None  # KIP-691's reason in ProduceFailedException; None if the error is no produce error
    streams_action: str | None  # exception that Kafka Streams would throw by KIP-691; None if it would retry
    kip1050: str | None  # base class by KIP-1050, since 4.1; None if there is none


def exception_group(error: Answer) -> ExceptionGroup | None:
    """Return the group of an error, None if neither KIP mentions the error."""
    row = _BY_ERROR.get(error)
    if row is None:
        return None
    proposed = Severity(row["proposed"])
    return ExceptionGroup(
        Surface(row["surface"]),
        proposed,
        int(proposed is Severity.ABORTABLE),
        _named(row, "failure"),
        _STREAMS.get(proposed),
        _named(row, "group"),
    )


def _named(row: Row, column: str) -> str | None:
    if row[column] == "-":
        return None
    return row[column]


# Kafka Streams would abort its transaction after an abortable error. After a fatal error it would lose its tasks and
# rejoin the group.
_STREAMS = {Severity.ABORTABLE: "TxnCorruptedException", Severity.FATAL: "TaskMigratedException"}
_BY_ERROR = {row["error"]: row for row in TABLE}
