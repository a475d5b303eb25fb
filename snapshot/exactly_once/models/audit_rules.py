"""The rules of an audit of batches: findings, their harm, and why a producer is unknown.

`rule` is the number of a statement in docs/contributing/seeds.md. The judgement (`LossVerdict`) may cancel the `harm`:
records are not lost if retention removed them, or if they were not read. In the table of judgements the first row that
fits decides. It follows "Solving the problem of spurious OutOfOrderSequence errors" (KIP-185's discussion).
"""

from __future__ import annotations

from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.decision_table import read_table


class LossVerdict(StrEnum):
    """The reason why a broker does not know a producer."""

    NEW = "NEW"
    SPURIOUS_RETENTION = "SPURIOUS_RETENTION"
    EXPIRED = "EXPIRED"
    STATE_LOST = "STATE_LOST"
    TRUNCATED = "TRUNCATED"
    UNACKED_TRUNCATION = "UNACKED_TRUNCATION"
    DIVERGED = "DIVERGED"
    UNACKED_DIVERGENCE = "UNACKED_DIVERGENCE"
    COMPACTED = "COMPACTED"
    HOLE = "HOLE"


TABLE = read_table("""
 #   | condition                       | verdict            | lost
 1   | no evidence of the producer     | NEW                | nothing
 2   | below the log start             | SPURIOUS_RETENTION | nothing
 3a  | in the log, idle for too long   | EXPIRED            | nothing
 3b  | in the log                      | STATE_LOST         | state
 4a  | above the log end, replicated   | TRUNCATED          | records
 4a' | above the log end               | UNACKED_TRUNCATION | nothing
 4b  | another batch there, replicated | DIVERGED           | records
 4b' | another batch there             | UNACKED_DIVERGENCE | nothing
 4c  | compacted                       | COMPACTED          | nothing
 4d  | always                          | HOLE               | records
""")


class AuditKind(StrEnum):
    """Kinds of findings."""

    DUPLICATE_EXACT = "DUPLICATE_EXACT"
    DUPLICATE_PARTIAL = "DUPLICATE_PARTIAL"
    DUPLICATE_RENUMBERED = "DUPLICATE_RENUMBERED"
    BACKWARD = "BACKWARD"
    SEQUENCE_RESET = "SEQ_RESET_SAME_EPOCH"
    GAP = "GAP"
    BUMP_NONZERO = "BUMP_NONZERO"
    FIRST_WRITE_LOST = "FIRST_WRITE_LOST"
    EPOCH_REGRESSION = "EPOCH_REGRESSION"
    ZOMBIE_WRITE = "ZOMBIE_WRITE"
    ZOMBIE_MARKER = "ZOMBIE_MARKER"
    NON_TRANSACTIONAL_IN_TRANSACTION = "NON_TRANSACTIONAL_IN_TRANSACTION"
    EPOCH_RAISED_IN_TRANSACTION = "EPOCH_RAISED_IN_TRANSACTION"
    OFFSET_GAP = "OFFSET_GAP"
    FENCED = "FENCED"
    OPEN_TRANSACTION = "OPEN_TRANSACTION"
    OUT_OF_ORDER_TIMESTAMPS = "OUT_OF_ORDER_TIMESTAMPS"
    LOG_START_WENT_BACK = "LOG_START_WENT_BACK"


class Harm(StrEnum):
    """The harm to exactly-once, the worst first."""

    LOSS = "LOSS"  # records are missing that were in the log or acknowledged
    DUPLICATE = "DUPLICATE"  # readers get records twice
    FENCING = "FENCING"  # a fenced producer's batch or a fenced coordinator's marker was appended
    TRANSACTION = "TRANSACTION"  # a transaction holds records that do not belong to it
    NONE = "NONE"


# Judged as `missing`: records that are no longer in the log. As `forgotten`: a producer that the broker lost.
RULES = read_table("""
 kind                             | rule | judged as | harm
 DUPLICATE_EXACT                  | 0.3  | forgotten | DUPLICATE
 DUPLICATE_PARTIAL                | 0.21 | forgotten | DUPLICATE
 DUPLICATE_RENUMBERED             | 1.3  |           | DUPLICATE
 BACKWARD                         | 0.21 | forgotten | DUPLICATE
 SEQ_RESET_SAME_EPOCH             | 0.6  | forgotten | NONE
 GAP                              | 3.1  | missing   | LOSS
 BUMP_NONZERO                     | 3.1  | missing   | LOSS
 FIRST_WRITE_LOST                 | 3.9  | missing   | LOSS
 EPOCH_REGRESSION                 | 0.6  | forgotten | FENCING
 ZOMBIE_WRITE                     | 0.5  | forgotten | FENCING
 ZOMBIE_MARKER                    | 0.5  | forgotten | FENCING
 NON_TRANSACTIONAL_IN_TRANSACTION | 0.5  |           | TRANSACTION
 EPOCH_RAISED_IN_TRANSACTION      | 0.5  |           | TRANSACTION
 OFFSET_GAP                       | 3.6  | missing   | LOSS
 FENCED                           | 0.11 |           | NONE
 OPEN_TRANSACTION                 | 0.5  |           | NONE
 OUT_OF_ORDER_TIMESTAMPS          | 4.13 |           | NONE
 LOG_START_WENT_BACK              | 0.4  |           | NONE
""")


class Confidence(StrEnum):
    """The confidence that a client sent records again under other numbers, the highest first."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"  # the application itself may have sent equal records twice: no harm is assumed


# A client that is refused takes the next epoch or a new producer id, and sends the batches in flight again (see
# produce_reaction). They were the last batches under the old numbers, and are the first under the new ones.
IN_FLIGHT = 5
CONFIDENCE = read_table("""
 numbers    | in flight | records | confidence
 next epoch | yes       | any     | HIGH
 other id   | yes       | several | HIGH
 other id   | yes       | one     | MEDIUM
 any        | any       | several | MEDIUM
 any        | any       | one     | LOW
""")
RULE = {AuditKind(row["kind"]): row["rule"] for row in RULES}
MISSING = frozenset(AuditKind(row["kind"]) for row in RULES if row["judged as"] == "missing")
FORGOTTEN = frozenset(AuditKind(row["kind"]) for row in RULES if row["judged as"] == "forgotten")

# A further judgement: there are bytes where records are missing, but they were not decoded.
UNREAD = "UNREAD"
JUDGEMENTS = ("", UNREAD, *LossVerdict)
_HARM = {AuditKind(row["kind"]): Harm(row["harm"]) for row in RULES}
_LOST = frozenset(LossVerdict(row["verdict"]) for row in TABLE if row["lost"] == "records")


def harm_of(kind: AuditKind, judgement: str, *, is_hidden: bool = False) -> Harm:
    """Return the harm of one finding.

    Args:
        judgement: a LossVerdict, UNREAD, or "" for kinds that are not judged.
        is_hidden: readers of committed records do not notice the finding. Either its transaction was aborted, or every
            earlier batch with its sequences was aborted or is below the log start offset.
    """
    harm = _HARM[kind]
    if kind in MISSING and judgement not in _LOST:
        return Harm.NONE
    return Harm.NONE if is_hidden and harm is not Harm.LOSS else harm
