"""The next steps for each problem: a verdict, a finding, or an OtherProblem."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum

from tiersnap.snapshot.gate.exit_code import OtherProblem
from tiersnap.snapshot.gate.remote_check import RemoteVerdict
from tiersnap.snapshot.gate.step_template import Argv, Hole, NextStep
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.findings import FindingKind

Steps = tuple[NextStep, ...]

_ON_REMOTE: Argv = ("--remote", Hole.REMOTE)
_TIER: Argv = (Hole.TIER, "--apply")
_REPAIR: Argv = ("repair", Hole.LOG_DIRS)
_IN_CLUSTER: Argv = (Hole.CLUSTER, *_ON_REMOTE)
TIER = NextStep("", (Hole.TIER,))  # without --apply: prints the plan
TIER_HERE = NextStep("", ("tier", Hole.LOG_DIRS, *_ON_REMOTE, "--apply"))
SCAN = NextStep("", ("scan", Hole.LOG_DIRS))
SCAN_REMOTE = NextStep("", ("scan", Hole.LOG_DIRS, *_ON_REMOTE))
DOCTOR = NextStep("", ("doctor", Hole.LOG_DIRS))
DOCTOR_REMOTE = NextStep("", ("doctor", Hole.LOG_DIRS, *_ON_REMOTE))
DOCTOR_CLUSTER = NextStep("", ("doctor", Hole.LOG_DIRS, *_ON_REMOTE, Hole.CLUSTER))
BROKERS_LOCATION = NextStep("run doctor with the remote location that brokers read:", DOCTOR_REMOTE.argv)
VERIFY_REMOTE = NextStep("", ("verify", Hole.LOG_DIRS, *_ON_REMOTE))
VERIFY_LOCATION = NextStep("", ("verify", *_ON_REMOTE))
VERIFY_METADATA = NextStep("", (*VERIFY_REMOTE.argv, "--depth", "metadata"))
VERIFY_AS_LINES = NextStep("", (*VERIFY_LOCATION.argv, "--output", "jsonl"))
STATE_LOG_START = NextStep("", (Hole.TIER, "--log-start", "TOPIC-PARTITION=OFFSET"))
REPAIR = NextStep("", _REPAIR)
REPAIR_APPLY = NextStep("", (*_REPAIR, "--apply"))
REPAIR_REMOTE = NextStep("", (*_REPAIR, *_ON_REMOTE))
REPAIR_REMOTE_APPLY = NextStep("", (*_REPAIR, *_ON_REMOTE, "--apply"))
REPLACE = NextStep("", (*_REPAIR, "--replace"))  # without --apply: prints the plan
REPLACE_APPLY = NextStep("", (*_REPAIR, "--replace", "--apply"))
REPLACE_REMOTE = NextStep("", (*_REPAIR, *_ON_REMOTE, "--replace"))
RESTORE_PRODUCERS = NextStep("", (*_REPAIR, *_ON_REMOTE, "--replace", "--apply"))
REMOVE_ORPHANS = NextStep("", ("maintain remove-orphans", *_ON_REMOTE, Hole.CLUSTER))
PUBLISH = NextStep("", ("publish", *_IN_CLUSTER, "--apply"))
UNBLOCK = NextStep("", ("unblock", Hole.LOG_DIRS, *_IN_CLUSTER, "--apply"))
RESTART_LEADER = NextStep(
    "restart the broker that leads the partition: the broker then starts the copy again. In ZooKeeper mode and before "
    "Kafka 3.9, only a restart starts the copy again"
)
MEND = NextStep("", ("mend", Hole.LOG_DIRS, *_IN_CLUSTER))
FIND_HANGING = NextStep("", ("transactions find-hanging", Hole.LOG_DIRS, "--all"))

_DAMAGED_LOG: Steps = (
    NextStep("", ("dump", Hole.SEGMENT_FILE)),
    NextStep("shows where the file is damaged; then restore the segment from another replica"),
)
_REPLACE: Steps = (
    NextStep("", (Hole.TIER, "--replace", "--apply")),
    NextStep("or on the host of the broker, while it is stopped:", REPLACE_APPLY.argv),
    NextStep("or if the log begins in remote storage:", RESTORE_PRODUCERS.argv),
)
_INDEX_DAMAGED: Steps = (
    NextStep("", _TIER),
    NextStep("or while the broker is stopped:", REPLACE_APPLY.argv),
)
_READ_AS_BROKER: Steps = (NextStep("run the command as the user that runs the broker"),)
_FILE_IN_THE_WAY: Steps = (NextStep("", ("runbook", "A file in the way")),)

_OF_VERDICT: dict[StrEnum, Steps] = {
    Verdict.CORRUPT_SEGMENT: _DAMAGED_LOG,
    Verdict.GAP_IN_REMOTE: (
        NextStep(
            "keep the local file of the segment, because no broker uploads it again; find out what deleted the "
            "remote segment"
        ),
        NextStep("and rebuild published segments:", MEND.argv),
    ),
    Verdict.CORRUPT_SNAPSHOT: _REPLACE,
    Verdict.SUSPECT_SNAPSHOT: _REPLACE,
    Verdict.INDEX_DAMAGED: _INDEX_DAMAGED,
    Verdict.MISSING_SNAPSHOT: (
        NextStep("", _TIER),
        NextStep("or on the host of the broker, while it is stopped:", REPAIR_APPLY.argv),
    ),
    Verdict.UNKNOWN_LOG_START: (
        NextStep(
            "to find the log start, give the location of the brokers (--remote) or a broker (--bootstrap-server); or "
            "state the log start (--log-start TOPIC-PARTITION=OFFSET)"
        ),
    ),
    Verdict.UNKNOWN_TRANSACTIONS: (
        NextStep("run the same command without a scan window (--scan exact replays the whole log)"),
        NextStep(
            "or if no earlier upload refused the segment, give a broker (--bootstrap-server), which returns the last "
            "stable offset"
        ),
        NextStep(
            "or if an earlier upload refused the segment because of a broker's snapshot, run the same command again "
            "once files of the partition have changed"
        ),
    ),
    Verdict.UNREADABLE_SEGMENT: _READ_AS_BROKER,
    Verdict.UNVERIFIED_SNAPSHOT: (
        NextStep(
            "run the command as the user that runs the broker; if the log begins in remote storage:", VERIFY_REMOTE.argv
        ),
    ),
    Verdict.MISSING_INDEX: (NextStep("copy leader-epoch-checkpoint from another replica"),),
    Verdict.TOPIC_ID_UNKNOWN: (
        NextStep(
            "in ZooKeeper mode start a broker of Kafka 2.8 or later; else give the topic ids:",
            (Hole.TIER, "--topic-ids", Hole.TOPIC_IDS),
        ),
        NextStep("or while the broker is stopped:", (*_REPAIR, "--topic-ids", Hole.TOPIC_IDS, "--apply")),
    ),
    Verdict.ENCRYPTED_REMOTE: (
        NextStep(
            "let the broker's plugin encrypt and upload the segment; to write the missing snapshots on the broker's "
            "host:",
            REPAIR_APPLY.argv,
        ),
        NextStep("or upload plain text:", (Hole.TIER, "--allow-plaintext", "--apply")),
    ),
    Verdict.ABOVE_LSO: (
        NextStep(
            "wait until replication has passed the segment, and its transactions have ended; to see open "
            "transactions, and how to abort hanging ones:",
            FIND_HANGING.argv,
        ),
    ),
    Verdict.COPY_IN_FLIGHT: (NextStep("wait until the upload ends, then run the same command again"),),
    Verdict.GAP_BEFORE: (NextStep("first solve the problem of the earlier segment"),),
    **dict.fromkeys((Verdict.BEFORE_WINDOW, Verdict.READY), (NextStep("", _TIER),)),
    Verdict.UPLOADED: (PUBLISH,),
    Verdict.IN_REMOTE: (NextStep("ask the cluster whether brokers know the segment:", DOCTOR_CLUSTER.argv),),
}
_OF_FINDING: dict[StrEnum, Steps] = {
    **dict.fromkeys(FindingKind, _DAMAGED_LOG),
    FindingKind.CORRUPT_SNAPSHOT: _REPLACE,
    FindingKind.CORRUPT_INDEX: _INDEX_DAMAGED,
    FindingKind.PERMISSION_DENIED: _READ_AS_BROKER,
    FindingKind.DELETED_FILE: (NextStep("run the same command again"),),
    **dict.fromkeys(
        (
            *(FindingKind.UNREADABLE_FILE, FindingKind.OFFSETS_MISSING, FindingKind.CORRUPT_CHECKPOINT),
            *(FindingKind.BAD_FILE_NAME, FindingKind.UNFINISHED_SWAP, FindingKind.NO_LOG_FILE),
        ),
        _FILE_IN_THE_WAY,
    ),
    FindingKind.MISSING_CHECKPOINT: (
        NextStep("start the broker, which writes replication-offset-checkpoint, then scan again:", SCAN.argv),
    ),
    FindingKind.STRAY_PARTITION: (NextStep("", ("runbook", "A stray partition")),),
    FindingKind.UNKNOWN_VERSION: (NextStep("use a newer tiersnap, or finish the upgrade of the brokers"),),
    FindingKind.WRONG_PARTITION: (
        NextStep("", ("transactions list", Hole.LOG_DIRS)),
        NextStep("names the transactional ids;", ("runbook", "An open transaction")),
    ),
    FindingKind.MISSING_PARTITION: (
        NextStep("give all log directories of the brokers that have the missing partitions"),
    ),
}
_OF_REMOTE: dict[StrEnum, Steps] = {
    RemoteVerdict.SUSPECT: (
        NextStep("on a broker host that has the log:", (*VERIFY_REMOTE.argv, "--depth", "full")),
        NextStep("; to repair wrong segments:", MEND.argv),
    ),
    **dict.fromkeys((RemoteVerdict.CORRUPT, RemoteVerdict.MISSING), (MEND,)),
}
_OF_OTHER: dict[StrEnum, Steps] = {
    OtherProblem.REPLICA_WITHOUT_PRODUCERS: (RESTORE_PRODUCERS,),
    OtherProblem.LOST_REMOTE_SEGMENT: (MEND,),
    **dict.fromkeys(
        (
            *(OtherProblem.HUNG_COPY, OtherProblem.STUCK_COPY, OtherProblem.STUCK_COPY_AHEAD),
            OtherProblem.LEFT_PAUSED,
        ),
        (UNBLOCK,),
    ),
    OtherProblem.STANDING_LSO: (FIND_HANGING,),
    OtherProblem.NOT_STORED: (REPAIR_APPLY,),
}
_STEPS: dict[type[StrEnum], Mapping[StrEnum, Steps]] = {
    Verdict: _OF_VERDICT,
    FindingKind: _OF_FINDING,
    RemoteVerdict: _OF_REMOTE,
    OtherProblem: _OF_OTHER,
}


def steps_of(problem: StrEnum) -> Steps:
    """Return the steps that clear a problem, in order; () if no step is needed."""
    return _STEPS[type(problem)].get(problem, ())


def needs_upload(problem: StrEnum) -> bool:
    """Return whether a step that clears a problem uploads segments."""
    return any(Hole.TIER in step.argv for step in steps_of(problem))


def mend_from(uri: str, layout: str | None = None) -> NextStep:
    """Return the step that restores remote segments from the location to which they were uploaded."""
    return NextStep("", ("mend", *_IN_CLUSTER, "--from", uri, *(() if layout is None else ("--from-layout", layout))))


def decode_into(warehouse: str = "URI") -> str:
    """Return the command that writes the batch headers of a log directory to a warehouse."""
    return shlex.join(["tiersnap", "decode", "--source", "LOGDIR", "--warehouse", warehouse, "--apply"])
