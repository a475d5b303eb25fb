"""Why a broker does not know a producer: a decision table; its first row that fits decides.

`tiersnap audit` judges its findings by it. Follows "Solving the problem of spurious OutOfOrderSequence errors"
(KIP-185's discussion).
"""

from __future__ import annotations

from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.decision_table import read_table


class LossVerdict(StrEnum):
    """Why a broker does not know a producer."""

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
