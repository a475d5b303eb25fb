"""The reactions of Java clients to a broker's answer to Produce, without and with a transactional id.

Clients without and with a transactional id have a decision table each, with a column per era. The first row that
matches decides. Cells are values of eras.Reaction. `-` means that a client of the era does not receive the answer. A
client retries a batch only if the batch is not done, delivery.timeout.ms has not passed, and attempts are left. Follows
org.apache.kafka.clients.producer.internals.TransactionManager and Sender.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import LARGEST_EPOCH
from tiersnap.snapshot.exactly_once.models.decision_table import first_row, holding, read_table
from tiersnap.snapshot.exactly_once.models.eras import ClientEra, Reaction

# Reactions of a client without a transactional id.
IDEMPOTENT = read_table("""
 #  | error                        | condition             | C0      | C1         | C2        | C3        | C4 | C5
 1  | UNKNOWN_PRODUCER_ID          | no log start          | fail    | retry      | =         | =         | =  | =
 2  | UNKNOWN_PRODUCER_ID          | renumbered since      | fail    | retry      | =         | =         | =  | =
 3  | UNKNOWN_PRODUCER_ID          | front removed         | fail    | renumber   | bump      | =         | =  | =
 4  | UNKNOWN_PRODUCER_ID          | always                | fail    | fail+id    | bump      | =         | =  | =
 5  | OUT_OF_ORDER_SEQUENCE_NUMBER | others come first     | fail+id | retry      | =         | =         | =  | =
 6  | OUT_OF_ORDER_SEQUENCE_NUMBER | others are unresolved | fail+id | =          | retry     | =         | =  | =
 7  | OUT_OF_ORDER_SEQUENCE_NUMBER | always                | fail+id | =          | bump      | =         | =  | =
 8  | DUPLICATE_SEQUENCE_NUMBER    | always                | fail    | success    | =         | =         | =  | =
 9  | INVALID_PRODUCER_EPOCH       | always                | fatal   | =          | =         | fail+bump | =  | =
 10 | INVALID_PRODUCER_ID_MAPPING  | always                | -       | =          | =         | =         | =  | =
 11 | INVALID_TXN_STATE            | always                | -       | =          | =         | =         | =  | =
 12 | TRANSACTION_ABORTABLE        | always                | -       | =          | =         | =         | =  | =
 13 | CONCURRENT_TRANSACTIONS      | always                | -       | =          | =         | =         | =  | =
 14 | retriable                    | attempts left         | retry   | =          | =         | =         | =  | =
 15 | not allowed                  | always                | fatal   | =          | =         | =         | =  | =
 16 | MESSAGE_TOO_LARGE            | several records       | split   | =          | =         | =         | =  | =
 17 | DELIVERY_TIMED_OUT           | gap remains           | fail    | fail+id    | fail+bump | =         | =  | =
 18 | DELIVERY_TIMED_OUT           | always                | fail    | =          | =         | =         | =  | =
 19 | any                          | always                | fail    | fail+lower | fail+bump | =         | =  | =
""")
# Reactions of a client with a transactional id. Rows 4 to 7 are `fatal` in C0 and C1: these clients suggest an abort,
# but an abort does not repair their sequences, and Kafka's documentation calls the error fatal.
TRANSACTIONAL = read_table("""
 #  | error                        | condition             | C0    | C1          | C2    | C3    | C4    | C5
 1  | UNKNOWN_PRODUCER_ID          | no log start          | abort | retry       | =     | =     | =     | =
 2  | UNKNOWN_PRODUCER_ID          | renumbered since      | abort | retry       | =     | =     | =     | =
 3  | UNKNOWN_PRODUCER_ID          | front removed         | abort | renumber    | =     | =     | =     | =
 4  | UNKNOWN_PRODUCER_ID          | always                | abort | fatal       | abort | =     | =     | =
 5  | OUT_OF_ORDER_SEQUENCE_NUMBER | others come first     | fatal | retry       | =     | =     | =     | =
 6  | OUT_OF_ORDER_SEQUENCE_NUMBER | others are unresolved | fatal | =           | abort | =     | =     | =
 7  | OUT_OF_ORDER_SEQUENCE_NUMBER | always                | fatal | =           | abort | =     | =     | =
 8  | DUPLICATE_SEQUENCE_NUMBER    | always                | abort | success     | =     | =     | =     | =
 9  | INVALID_PRODUCER_EPOCH       | always                | fatal | =           | =     | abort | =     | =
 10 | INVALID_PRODUCER_ID_MAPPING  | always                | -     | -           | abort | =     | fatal | =
 11 | INVALID_TXN_STATE            | always                | abort | =           | =     | =     | =     | =
 12 | TRANSACTION_ABORTABLE        | always                | -     | -           | -     | abort | =     | =
 13 | CONCURRENT_TRANSACTIONS      | always                | -     | -           | -     | -     | retry | =
 14 | retriable                    | attempts left         | retry | =           | =     | =     | =     | =
 15 | not allowed                  | always                | fatal | =           | =     | =     | =     | =
 16 | MESSAGE_TOO_LARGE            | several records       | split | =           | =     | =     | =     | =
 17 | DELIVERY_TIMED_OUT           | gap remains, no bump  | abort | fatal       | =     | =     | =     | =
 18 | DELIVERY_TIMED_OUT           | gap remains           | abort | fatal       | abort | =     | =     | =
 19 | DELIVERY_TIMED_OUT           | always                | abort | =           | =     | =     | =     | =
 20 | any                          | always                | abort | abort+lower | =     | =     | =     | =
""")
# Errors with the same reaction, and the name of their group in the tables.
_GROUPS = {
    Answer.PRODUCER_FENCED: "INVALID_PRODUCER_EPOCH",
    Answer.CLUSTER_AUTHORIZATION_FAILED: "not allowed",
    Answer.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not allowed",
    Answer.UNSUPPORTED_VERSION: "not allowed",
    Answer.NOT_ENOUGH_REPLICAS: "retriable",
    Answer.REQUEST_TIMED_OUT: "retriable",
}
# Rows of TRANSACTIONAL for which clients since 4.1 report TRANSACTION_ABORTABLE to the application (KIP-1050).
_SAID_AS_ABORTABLE = frozenset({"11"})


@dataclass(frozen=True, slots=True)
class SentBatch:
    """The state of a client when a batch failed."""

    producer_epoch: int = 0  # epoch of the batch
    log_start_offset: int = -1  # from the produce response; -1 if the leader moved before the response
    last_acked_offset: int = -1  # inclusive, on the partition; -1 before the first acknowledgement
    was_renumbered: bool = False  # whether the batch got other sequences since it was last drained
    is_next: bool = True  # whether the batch follows the last acknowledged sequence
    has_unresolved: bool = False  # whether an earlier batch of the partition expired after it was sent
    follows_unresolved: bool = False  # whether the batch directly follows the expired batch
    has_attempts: bool = True  # whether time and retries are left
    has_records: bool = True  # whether the batch contains several records
    can_bump: bool = True  # whether the coordinator accepts InitProducerId with an identity (since 2.5) or version 2


@dataclass(frozen=True, slots=True)
class ProduceReaction:
    """The reaction of a client."""

    rule: str  # number of the row; "" if the answer is no error
    reaction: Reaction | None  # None if a client of the era does not receive the answer
    said: Answer | None = None  # error that the application receives, if it differs from the answer


def knows_error(answer: Answer) -> bool:
    """Return whether a row of the tables names the error. The last row matches any error and is ignored."""
    name = _GROUPS.get(answer, str(answer))
    return any(row["error"] == name for row in (*IDEMPOTENT, *TRANSACTIONAL))


def react(answer: Answer, era: ClientEra, batch: SentBatch, *, transactional: bool) -> ProduceReaction:
    """Return a Java client's reaction to an answer to its produce request."""
    if not answer.is_error:
        return ProduceReaction("", Reaction.SUCCESS)
    error = _GROUPS.get(answer, str(answer))
    table = TRANSACTIONAL if transactional else IDEMPOTENT
    row = first_row(table, {"error": {error}, "condition": holding(_CONDITIONS, batch)})
    cell = row[era.name]
    reaction = None if cell == "-" else _for_epoch(Reaction(cell), batch)
    return ProduceReaction(row["#"], reaction, _said(row["#"], error, era, transactional))


def _for_epoch(reaction: Reaction, batch: SentBatch) -> Reaction:
    """Return the reaction. If the batch has the largest epoch, replace a bump by a new producer id."""
    if batch.producer_epoch < LARGEST_EPOCH:
        return reaction
    return {Reaction.BUMP: Reaction.NEW_ID, Reaction.FAIL_BUMP: Reaction.FAIL_NEW_ID}.get(reaction, reaction)


def _said(rule: str, error: str, era: ClientEra, transactional: bool) -> Answer | None:
    if not transactional or era.name != "C5":
        return None
    is_out_of_attempts = error == "retriable" and rule != "14"
    if rule in _SAID_AS_ABORTABLE or is_out_of_attempts:
        return Answer.TRANSACTION_ABORTABLE
    return None


_CONDITIONS: dict[str, Callable[[SentBatch], bool]] = {
    "no log start": lambda batch: batch.log_start_offset < 0,
    "renumbered since": lambda batch: batch.was_renumbered,
    "front removed": lambda batch: batch.last_acked_offset < batch.log_start_offset,
    "others come first": lambda batch: not batch.has_unresolved and (batch.was_renumbered or not batch.is_next),
    "others are unresolved": lambda batch: batch.has_unresolved and not batch.follows_unresolved,
    "attempts left": lambda batch: batch.has_attempts,
    "several records": lambda batch: batch.has_records,
    "gap remains": lambda batch: batch.has_unresolved,
    "gap remains, no bump": lambda batch: batch.has_unresolved and not batch.can_bump,
}
