"""The next step of each verdict, as data: words and a command with holes. `gate.commands` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tiersnap.snapshot.gate.verdict import Verdict


class Hole(Enum):
    """A part of a command that depends on the place; its value is printed if nothing fills it."""

    TIER = "run"  # the command that tiers: `run` for a fleet, `tier` on a host, with its location
    LOG_DIRS = "LOGDIR"
    SOURCES = "--source SOURCE"
    REMOTE = "REMOTE"
    SERVER = "HOST:PORT"
    SEGMENT_FILE = "FILE"
    TOPIC_IDS = "FILE that holds topic ids"

    @property
    def placeholder(self) -> str:
        """Return the words that a person replaces."""
        return "FILE" if self is Hole.TOPIC_IDS else str(self.value)


@dataclass(frozen=True, slots=True)
class NextStep:
    """Words, and the command that follows them."""

    words: str = ""
    argv: tuple[str | Hole, ...] = ()  # without `tiersnap`, the command first; empty if there are words alone


_TIER = (Hole.TIER, "--apply")
_REPAIR = ("repair", Hole.LOG_DIRS)
_REMOTE = ("--remote", Hole.REMOTE)
_SERVER = ("--bootstrap-server", Hole.SERVER)
TIER = NextStep("", (Hole.TIER,))  # its plan
VERIFY_REMOTE = NextStep("", ("verify", Hole.LOG_DIRS, *_REMOTE))
REPAIR = NextStep("", _REPAIR)
REPAIR_REMOTE = NextStep("", (*_REPAIR, *_REMOTE))
RESTORE_PRODUCERS = NextStep("", (*_REPAIR, *_REMOTE, "--replace", "--apply"))
_REPLACE = (
    NextStep("", (Hole.TIER, "--replace", "--apply")),
    NextStep("or on the host:", (*_REPAIR, "--replace", "--apply")),
    NextStep("or if its log begins in remote storage:", RESTORE_PRODUCERS.argv),
)
STEPS: dict[Verdict, tuple[NextStep, ...]] = {
    Verdict.CORRUPT_SEGMENT: (
        NextStep("", ("dump", Hole.SEGMENT_FILE)),
        NextStep("shows the place; restore the segment from another replica"),
    ),
    Verdict.GAP_IN_REMOTE: (
        NextStep("no broker copies it any more: keep its local file; find out what deleted the remote one"),
    ),
    Verdict.CORRUPT_SNAPSHOT: _REPLACE,
    Verdict.SUSPECT_SNAPSHOT: _REPLACE,
    Verdict.INDEX_DAMAGED: (
        NextStep("", _TIER),
        NextStep("or with the broker stopped:", (*_REPAIR, "--replace", "--apply")),
    ),
    Verdict.MISSING_SNAPSHOT: (
        NextStep("", _TIER),
        NextStep("or on the broker host:", (*_REPAIR, "--apply")),
    ),
    Verdict.UNKNOWN_LOG_START: (
        NextStep(
            "name the remote storage of the brokers (--remote) or one of them (--bootstrap-server); or state it "
            "(--log-start TOPIC-PARTITION=OFFSET)"
        ),
    ),
    Verdict.UNKNOWN_TRANSACTIONS: (
        NextStep(
            "leave the window of the scan out, or name a broker of the cluster, which tells the last stable offset "
            "(--bootstrap-server)"
        ),
    ),
    Verdict.UNREADABLE_SEGMENT: (NextStep("read it as the user that runs the broker"),),
    Verdict.UNVERIFIED_SNAPSHOT: (
        NextStep("read it as the user that runs the broker; if its log begins in remote storage:", VERIFY_REMOTE.argv),
    ),
    Verdict.MISSING_INDEX: (NextStep("bring leader-epoch-checkpoint back from another replica"),),
    Verdict.TOPIC_ID_UNKNOWN: (
        NextStep(
            "in ZooKeeper mode start a broker >= 2.8; else give the ids:",
            (Hole.TIER, "--topic-ids", Hole.TOPIC_IDS),
        ),
        NextStep("or with the broker stopped:", (*_REPAIR, "--topic-ids", Hole.TOPIC_IDS, "--apply")),
    ),
    Verdict.ENCRYPTED_REMOTE: (
        NextStep("let its broker copy it, which encrypts:", (*_REPAIR, "--apply")),
        NextStep("on its host writes the snapshots that it lacks; or", (Hole.TIER, "--allow-plaintext", "--apply")),
    ),
    Verdict.ABOVE_LSO: (
        NextStep(
            "wait for replication and for open transactions to end:",
            ("transactions find-hanging", Hole.LOG_DIRS, "--all"),
        ),
        NextStep("names them, and the command that aborts those that never will"),
    ),
    Verdict.COPY_IN_FLIGHT: (NextStep("wait for the copy that is under way, then look again"),),
    Verdict.GAP_BEFORE: (NextStep("clear the earlier segment first"),),
    Verdict.READY: (NextStep("", _TIER),),
    Verdict.UPLOADED: (NextStep("", ("publish", *_REMOTE, *_SERVER, "--apply")),),
    Verdict.IN_REMOTE: (
        NextStep(
            "ask the cluster, whose records tell whether brokers know it:",
            ("doctor", Hole.LOG_DIRS, *_REMOTE, *_SERVER),
        ),
    ),
}
