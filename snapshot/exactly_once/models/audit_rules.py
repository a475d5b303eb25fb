"""The rules of an audit of batches: kinds of findings, their harm, and reasons for missing producers or records.

The column `rule` of RULES has the number of a statement in docs/contributing/seeds.md. A judgement (a LossVerdict or
UNREAD) may set the harm of missing records to NONE, for example if retention removed the records. The first row of
TABLE that matches gives the LossVerdict. TABLE follows "Solving the problem of spurious OutOfOrderSequence errors"
(KIP-185's discussion).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.decision_table import read_table


class LossVerdict(StrEnum):
    """The reason why a broker does not have a producer, or why records are missing."""

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
    """A kind of finding of an audit."""

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
    """The harm that a finding does to exactly-once, worst first."""

    LOSS = "LOSS"  # records are missing that were in the log or acknowledged
    DUPLICATE = "DUPLICATE"  # readers get records twice
    FENCING = "FENCING"  # the log has a batch of a fenced producer or a marker of a fenced coordinator
    TRANSACTION = "TRANSACTION"  # a transaction contains records that do not belong to it
    NONE = "NONE"


# `missing`: the LossVerdict explains missing records. `forgotten`: it explains why the broker lost the producer.
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
    """The confidence that a client sent records again with other sequences or another producer id, highest first."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"  # the application may have sent equal records itself, so no harm is assumed


# A refused client takes the next epoch or a new producer id and sends its batches in flight again (produce_reaction).
# Those are the last batches of the old identity and the first batches of the new one.
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


def _judged_as(name: str) -> Iterator[AuditKind]:
    for row in RULES:
        if row["judged as"] == name:
            yield AuditKind(row["kind"])


MISSING = frozenset(_judged_as("missing"))
FORGOTTEN = frozenset(_judged_as("forgotten"))

# A further judgement: the missing records may be in bytes that were not decoded.
UNREAD = "UNREAD"
JUDGEMENTS = ("", UNREAD, *LossVerdict)
_HARM = {AuditKind(row["kind"]): Harm(row["harm"]) for row in RULES}
_LOST = frozenset(LossVerdict(row["verdict"]) for row in TABLE if row["lost"] == "records")


def harm_of(kind: AuditKind, judgement: str, *, is_hidden: bool = False) -> Harm:
    """Return the harm of a finding.

    Args:
        judgement: a LossVerdict, UNREAD, or "" for kinds that are not judged.
        is_hidden: whether the finding is invisible to readers of committed records: the batch was aborted, or all
            earlier batches with the same sequences were aborted or are below the log start offset.
    """
    harm = _HARM[kind]
    if kind in MISSING and judgement not in _LOST:
        return Harm.NONE
    if is_hidden and harm is not Harm.LOSS:
        return Harm.NONE
    return harm
