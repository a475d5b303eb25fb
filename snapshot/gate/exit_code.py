"""Choose the exit code of a command from the problems that the command met.

A problem is an error, a finding, a verdict or an `OtherProblem`. Each problem has the same code in every command, with
and without `--apply`, even if a part of the work was done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.gate.remote_check import RemoteVerdict
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.gate.verdict import BLOCKED, Verdict
from tiersnap.snapshot.log.findings import NOT_DAMAGED, WAITS, Finding, FindingKind


class OtherProblem(StrEnum):
    """A problem that is neither an error nor a finding nor a verdict."""

    LOST_INDEX = "LOST_INDEX"  # a closed segment has no offset index: the broker's next start deletes later snapshots
    UNREPAIRED_FILE = "UNREPAIRED_FILE"  # a small file of the partition is damaged, and `repair` does not write it
    REPLICA_WITHOUT_PRODUCERS = "REPLICA_WITHOUT_PRODUCERS"  # as leader, the broker would write retries twice
    OTHER_TOPIC_ID = "OTHER_TOPIC_ID"  # the stored snapshots belong to a topic with the same name and another id
    NOT_STORED = "NOT_STORED"  # remote storage has no usable snapshot for a segment that lacks one
    DAMAGED_STORED_SNAPSHOT = "DAMAGED_STORED_SNAPSHOT"  # a snapshot in remote storage must not be installed
    LOST_REMOTE_SEGMENT = "LOST_REMOTE_SEGMENT"  # brokers know a remote segment whose objects are missing
    OTHER_LOCATION = "OTHER_LOCATION"  # brokers read another remote location than --remote names
    UNSAFE_STORE = "UNSAFE_STORE"  # the store ignores conditional writes or checksums
    HUNG_COPY = "HUNG_COPY"  # a broker started to copy a segment and does not finish
    STUCK_COPY = "STUCK_COPY"  # the copy task fails at a segment that cannot be tiered
    STUCK_COPY_AHEAD = "STUCK_COPY_AHEAD"  # `unblock` freed the copy task, which fails at a later segment
    RESTART_NEEDED = "RESTART_NEEDED"  # `unblock` published the segments, and the leader must be restarted
    LEFT_PAUSED = "LEFT_PAUSED"  # a killed run left copying of a topic paused
    DAMAGED_SAVED_CONFIGS = "DAMAGED_SAVED_CONFIGS"  # saved configs of a topic are damaged: `publish` refuses the topic
    NEWER_SAVED_CONFIGS = "NEWER_SAVED_CONFIGS"  # a newer tiersnap saved the configs of a topic
    STANDING_LSO = "STANDING_LSO"  # the last stable offset has not moved for an hour, and closed segments are above it
    HANGING_TRANSACTION = "HANGING_TRANSACTION"  # a transaction that only an operator can end
    BROKEN_EXACTLY_ONCE = "BROKEN_EXACTLY_ONCE"  # records were lost or duplicated, or a fenced producer wrote
    CUT_SEGMENT = "CUT_SEGMENT"  # the table lacks batches at the end of the segment


Problem = TiersnapError | Finding | FindingKind | Verdict | SnapshotVerdict | RemoteVerdict | OtherProblem | ExitCode
"""The problems that a command can meet. An ExitCode represents errors that a table counts by code."""

# TRANSIENT ranks right after damage, because the same command may finish this part of the work.
_WORST_FIRST = (
    *(ExitCode.UNEXPECTED, ExitCode.DATA_CORRUPT, ExitCode.TRANSIENT),
    *(ExitCode.USAGE, ExitCode.GATE_REFUSED, ExitCode.PARTIAL, ExitCode.OK),
)
_CODES: dict[type[StrEnum], Mapping[StrEnum, ExitCode]] = {
    Verdict: {
        **dict.fromkeys(BLOCKED, ExitCode.GATE_REFUSED),
        Verdict.CORRUPT_SEGMENT: ExitCode.DATA_CORRUPT,
        Verdict.CORRUPT_SNAPSHOT: ExitCode.DATA_CORRUPT,
        Verdict.UNREADABLE_SEGMENT: ExitCode.PARTIAL,
        Verdict.UNVERIFIED_SNAPSHOT: ExitCode.PARTIAL,
    },
    SnapshotVerdict: {
        SnapshotVerdict.CORRUPT: ExitCode.DATA_CORRUPT,
        SnapshotVerdict.MISSING: ExitCode.GATE_REFUSED,
        SnapshotVerdict.SUSPECT: ExitCode.GATE_REFUSED,
        SnapshotVerdict.UNVERIFIED: ExitCode.PARTIAL,
    },
    RemoteVerdict: {
        RemoteVerdict.CORRUPT: ExitCode.DATA_CORRUPT,
        RemoteVerdict.MISSING: ExitCode.DATA_CORRUPT,
        RemoteVerdict.SUSPECT: ExitCode.GATE_REFUSED,
        RemoteVerdict.UNVERIFIED: ExitCode.PARTIAL,
    },
    FindingKind: {
        **dict.fromkeys(FindingKind, ExitCode.DATA_CORRUPT),
        **dict.fromkeys(NOT_DAMAGED, ExitCode.PARTIAL),
        **dict.fromkeys(WAITS, ExitCode.GATE_REFUSED),
        FindingKind.DELETED_FILE: ExitCode.TRANSIENT,
    },
    OtherProblem: {
        **dict.fromkeys(OtherProblem, ExitCode.GATE_REFUSED),
        OtherProblem.DAMAGED_STORED_SNAPSHOT: ExitCode.DATA_CORRUPT,
        OtherProblem.LOST_REMOTE_SEGMENT: ExitCode.DATA_CORRUPT,
        OtherProblem.DAMAGED_SAVED_CONFIGS: ExitCode.DATA_CORRUPT,
        OtherProblem.BROKEN_EXACTLY_ONCE: ExitCode.DATA_CORRUPT,
        OtherProblem.CUT_SEGMENT: ExitCode.DATA_CORRUPT,
        OtherProblem.UNSAFE_STORE: ExitCode.USAGE,
        OtherProblem.NEWER_SAVED_CONFIGS: ExitCode.USAGE,
        OtherProblem.STUCK_COPY_AHEAD: ExitCode.PARTIAL,
        OtherProblem.RESTART_NEEDED: ExitCode.PARTIAL,
    },
}


def exit_code_of(problems: Iterable[Problem]) -> ExitCode:
    """Return the code of the worst problem, or OK without problems."""
    return min(map(_code_of, problems), key=_WORST_FIRST.index, default=ExitCode.OK)


def _code_of(problem: Problem) -> ExitCode:
    if isinstance(problem, ExitCode):
        return problem
    if isinstance(problem, TiersnapError):
        return problem.exit_code
    if isinstance(problem, Finding):
        return _code_of(problem.finding_kind)
    return _CODES[type(problem)].get(problem, ExitCode.OK)
