"""The reactions of Java clients to an error from a coordinator, and the requests that a client sends in an abort.

The first row that matches decides. Cells are values of eras.Reaction. `-` means that the release does not have the
error. Follows the response handlers of org.apache.kafka.clients.producer.internals.TransactionManager.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.decision_table import first_row, read_table, words
from tiersnap.snapshot.exactly_once.models.eras import ClientEra, Reaction

TABLE = read_table("""
 #  | error                       | request            | condition | C0    | C1    | C2    | C3    | C4    | C5
 1  | elsewhere                   | any                | always    | retry | =     | =     | =     | =     | =
 2  | retriable                   | any                | always    | retry | =     | =     | =     | =     | =
 3  | INVALID_PRODUCER_EPOCH      | any                | always    | fatal | =     | =     | =     | =     | =
 4  | PRODUCER_FENCED             | any                | always    | -     | -     | -     | fatal | =     | =
 5  | INVALID_PRODUCER_ID_MAPPING | any                | can bump  | fatal | fatal | abort | abort | fatal | fatal
 6  | INVALID_PRODUCER_ID_MAPPING | any                | always    | fatal | =     | =     | =     | =     | =
 7  | UNKNOWN_PRODUCER_ID         | any                | can bump  | fatal | fatal | abort | =     | =     | =
 8  | UNKNOWN_PRODUCER_ID         | any                | always    | fatal | =     | =     | =     | =     | =
 9  | INVALID_TXN_STATE           | any                | always    | fatal | =     | =     | =     | =     | =
 10 | not allowed                 | InitProducerId     | always    | fatal | =     | =     | =     | undo  | =
 11 | not allowed                 | any                | always    | fatal | =     | =     | =     | =     | =
 12 | topic or group              | any                | always    | abort | =     | =     | =     | =     | =
 13 | left the group              | TxnOffsetCommit    | always    | fatal | =     | abort | =     | =     | =
 14 | TRANSACTION_ABORTABLE       | EndTxn             | always    | -     | -     | -     | abort | abort | fatal
 15 | TRANSACTION_ABORTABLE       | any                | always    | -     | -     | -     | abort | =     | =
 16 | OPERATION_NOT_ATTEMPTED     | AddPartitionsToTxn | always    | abort | =     | =     | =     | =     | =
 17 | any                         | any                | always    | fatal | =     | =     | =     | =     | =
""")
REPAIRS = read_table("""
 eras   | coordinator    | last error                  | steps
 C0, C1 | any            | any                         | EndTxn(abort)
 C2, C3 | takes identity | INVALID_PRODUCER_ID_MAPPING | InitProducerId(producer id, epoch)
 C2, C3 | takes identity | any                         | EndTxn(abort), InitProducerId(producer id, epoch)
 C2, C3 | older          | any                         | EndTxn(abort)
 C4, C5 | version 2      | any                         | EndTxn(abort)
 C4, C5 | takes identity | any                         | EndTxn(abort), InitProducerId(producer id, epoch)
 C4, C5 | older          | any                         | EndTxn(abort)
""")
# Errors with the same reaction, and the name of their group in the table.
_GROUPS = {
    Answer.NOT_COORDINATOR: "elsewhere",
    Answer.COORDINATOR_NOT_AVAILABLE: "elsewhere",
    Answer.COORDINATOR_LOAD_IN_PROGRESS: "retriable",
    Answer.CONCURRENT_TRANSACTIONS: "retriable",
    Answer.NOT_ENOUGH_REPLICAS: "retriable",
    Answer.REQUEST_TIMED_OUT: "retriable",
    Answer.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not allowed",
    Answer.TOPIC_AUTHORIZATION_FAILED: "topic or group",
    Answer.GROUP_AUTHORIZATION_FAILED: "topic or group",
    Answer.FENCED_INSTANCE_ID: "left the group",
    Answer.UNKNOWN_MEMBER_ID: "left the group",
    Answer.ILLEGAL_GENERATION: "left the group",
}


@dataclass(frozen=True, slots=True)
class TransactionReaction:
    """The reaction of a client.

    Attributes:
        rule: number of the row.
        reaction: None if the client's release does not have the error.
        said: error that the application receives.
    """

    rule: str
    reaction: Reaction | None
    said: Answer


def knows_error(error: Answer) -> bool:
    """Return whether a row of TABLE names the error. The last row matches any error and is ignored."""
    return any(row["error"] == _GROUPS.get(error, str(error)) for row in TABLE)


def react_to_coordinator(error: Answer, request: str, era: ClientEra, *, can_bump: bool = True) -> TransactionReaction:
    """Return a Java client's reaction to an error of a coordinator.

    Args:
        request: API of the request, such as InitProducerId, AddPartitionsToTxn, TxnOffsetCommit or EndTxn. EndTxn
            means an abort, not a commit.
        can_bump: whether the coordinator accepts InitProducerId with a producer id and an epoch, or supports
            transaction version 2.
    """
    name = _GROUPS.get(error, str(error))
    conditions = ["can bump"] if can_bump else []
    row = first_row(TABLE, {"error": {name}, "request": {request}, "condition": conditions})
    cell = row[era.name]
    # Since 2.7 the application receives PRODUCER_FENCED for both epoch errors of a coordinator.
    is_stale = error is Answer.INVALID_PRODUCER_EPOCH and era.first >= (2, 7)
    said = Answer.PRODUCER_FENCED if is_stale else error
    return TransactionReaction(row["#"], None if cell == "-" else Reaction(cell), said)


def repair_steps(
    last_error: Answer, era: ClientEra, *, takes_identity: bool = True, transaction_version: int = 1
) -> tuple[str, ...]:
    """Return the requests that a client sends if the application aborts after an abortable error.

    If the last of these requests returns a producer id and an epoch, the client restarts the sequences of all
    partitions at 0.
    """
    if transaction_version >= 2 and era.name in ("C4", "C5"):
        coordinator = "version 2"
    elif takes_identity:
        coordinator = "takes identity"
    else:
        coordinator = "older"
    rows = (row for row in REPAIRS if era.name in words(row["eras"]))
    steps = first_row(rows, {"coordinator": {coordinator}, "last error": {last_error}})["steps"]
    return tuple(f"{step})" for step in steps.removesuffix(")").split("), "))
