"""The verdicts on a segment, and what is said of each: level, meaning, and what clears it.

A partition, a topic or the cluster gets the worst verdict that any of its segments has. Worst is what needs a person
most: first damage, then what is missing, then what clears by itself, then what is ready, last what is settled.
GAP_BEFORE ranks below ABOVE_LSO because it is never the cause: the segment that it waits for is in the same partition.
ALREADY_TIERED ranks above ACTIVE_SEGMENT and COMPACTED_TOPIC, or no healthy partition would ever be called tiered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiersnap.snapshot.replay.expiry import ReplayOptions


class Verdict(StrEnum):
    """In order of precedence: a segment gets the first that applies."""

    ALREADY_TIERED = "ALREADY_TIERED"
    COPY_IN_FLIGHT = "COPY_IN_FLIGHT"
    GAP_IN_REMOTE = "GAP_IN_REMOTE"
    ACTIVE_SEGMENT = "ACTIVE_SEGMENT"
    INTERNAL_TOPIC = "INTERNAL_TOPIC"
    COMPACTED_TOPIC = "COMPACTED_TOPIC"
    TOPIC_ID_UNKNOWN = "TOPIC_ID_UNKNOWN"
    UNREADABLE_SEGMENT = "UNREADABLE_SEGMENT"
    CORRUPT_SEGMENT = "CORRUPT_SEGMENT"
    UNKNOWN_LOG_START = "UNKNOWN_LOG_START"
    UNKNOWN_TRANSACTIONS = "UNKNOWN_TRANSACTIONS"
    GAP_BEFORE = "GAP_BEFORE"
    ABOVE_LSO = "ABOVE_LSO"
    MISSING_INDEX = "MISSING_INDEX"
    ENCRYPTED_REMOTE = "ENCRYPTED_REMOTE"
    MISSING_SNAPSHOT = "MISSING_SNAPSHOT"
    UNVERIFIED_SNAPSHOT = "UNVERIFIED_SNAPSHOT"
    CORRUPT_SNAPSHOT = "CORRUPT_SNAPSHOT"
    SUSPECT_SNAPSHOT = "SUSPECT_SNAPSHOT"
    INDEX_DAMAGED = "INDEX_DAMAGED"
    LEFT_TO_BROKER = "LEFT_TO_BROKER"
    READY = "READY"


class Level(StrEnum):
    """The reaction that a verdict asks for."""

    BLOCKED = "BLOCKED"  # somebody has to do something
    PENDING = "PENDING"  # clears by itself, or behind something else
    READY = "READY"  # the next run with --apply tiers it
    SETTLED = "SETTLED"  # nothing to do: tiered, left to a broker that works, or never to be


_READ = "read it as the user that runs the broker"
_COMPARE = f"{_READ}; if its log begins in remote storage: tiersnap verify LOGDIR --remote REMOTE"
_REPLACE = (
    "tiersnap run --replace --apply, or on the host: tiersnap repair LOGDIR --replace --apply, "
    "or if its log begins in remote storage: tiersnap repair LOGDIR --remote REMOTE --replace --apply"
)
# By level, worst first: the meaning of each verdict, and its next step, which report.next_step fills in.
_SAID: dict[Level, dict[Verdict, tuple[str, str]]] = {
    Level.BLOCKED: {
        Verdict.CORRUPT_SEGMENT: (
            "The segment file itself is damaged.",
            "tiersnap dump FILE shows the place; restore the segment from another replica",
        ),
        Verdict.GAP_IN_REMOTE: (
            "It lies below what remote storage reaches, and no copy there holds it: brokers pass it by.",
            "no broker copies it any more: keep its local file; find out what deleted the remote one",
        ),
        Verdict.CORRUPT_SNAPSHOT: ("The producer snapshot cannot be read.", _REPLACE),
        Verdict.SUSPECT_SNAPSHOT: ("The producer snapshot can be read, but contradicts the log.", _REPLACE),
        Verdict.INDEX_DAMAGED: (
            "An index disagrees with the segment, or leader epochs are lost: a broker copies it wrong, or not at all.",
            "tiersnap run --apply, or with the broker stopped: tiersnap repair LOGDIR --replace --apply",
        ),
        Verdict.MISSING_SNAPSHOT: (
            "No producer snapshot at the offset where the next segment begins; brokers tier nothing more of the "
            "partition.",
            "tiersnap run --apply, or on the broker host: tiersnap repair LOGDIR --apply",
        ),
        Verdict.UNKNOWN_LOG_START: (
            "Nothing tells where the log begins, so no producer state can be computed.",
            "name the remote storage of the brokers (--remote) or one of them (--bootstrap-server); or state it "
            "(--log-start TOPIC-PARTITION=OFFSET)",
        ),
        Verdict.UNKNOWN_TRANSACTIONS: (
            "Nothing proves that no transaction was open where the scan window begins.",
            "leave the window of the scan out, or name a broker of the cluster, which tells the last stable offset "
            "(--bootstrap-server)",
        ),
        Verdict.UNREADABLE_SEGMENT: ("The segment file may not be read by the user who looked.", _READ),
        Verdict.UNVERIFIED_SNAPSHOT: ("The producer snapshot is there and was not compared with the log.", _COMPARE),
        Verdict.MISSING_INDEX: (
            "Leader epochs are lost that no batch here tells.",
            "bring leader-epoch-checkpoint back from another replica",
        ),
        Verdict.TOPIC_ID_UNKNOWN: (
            "The partition has no topic id: a broker before 2.8 wrote it, or partition.metadata is lost.",
            "in ZooKeeper mode start a broker >= 2.8; else give the ids: tiersnap run --topic-ids FILE, "
            "or with the broker stopped: tiersnap repair LOGDIR --topic-ids FILE --apply",
        ),
        Verdict.ENCRYPTED_REMOTE: (
            "The segments in remote storage are encrypted; this one would lie there in plain text.",
            "let its broker copy it, which encrypts: tiersnap repair LOGDIR --apply on its host "
            "writes the snapshots that it lacks; or tiersnap run --allow-plaintext --apply",
        ),
    },
    Level.PENDING: {
        Verdict.ABOVE_LSO: (
            "It ends above the last stable offset: replication or an open transaction comes first.",
            "wait for replication and for open transactions to end: "
            "tiersnap transactions find-hanging LOGDIR --all names them, and the command that aborts those that never "
            "will",
        ),
        Verdict.COPY_IN_FLIGHT: (
            "A copy of the segment to remote storage is under way.",
            "wait for the copy that is under way, then look again",
        ),
        Verdict.GAP_BEFORE: (
            "Nothing may be wrong with it, but an earlier segment of the partition has to go first.",
            "clear the earlier segment first",
        ),
    },
    Level.READY: {
        Verdict.READY: (
            "Everything KIP-405 asks for is there and trusted: the next run with --apply tiers it.",
            "tiersnap run --apply",
        ),
    },
    Level.SETTLED: {
        Verdict.LEFT_TO_BROKER: ("A broker copies the partition's segments; tiersnap leaves this one to it.", ""),
        Verdict.ALREADY_TIERED: (
            "The segment is in remote storage, together with its indexes and its producer snapshot.",
            "",
        ),
        Verdict.COMPACTED_TOPIC: (
            "The topic is compacted, which tiered storage does not support; its segments stay local.",
            "",
        ),
        Verdict.INTERNAL_TOPIC: (
            "The topic is Kafka's own, which tiered storage excludes; its segments stay local.",
            "",
        ),
        Verdict.ACTIVE_SEGMENT: ("The partition's last segment, which is still being written; it is never tiered.", ""),
    },
}
SEVERITY: tuple[Verdict, ...] = tuple(verdict for said in _SAID.values() for verdict in said)
RANK: dict[Verdict, int] = {verdict: rank for rank, verdict in enumerate(SEVERITY)}
LEVEL: dict[Verdict, Level] = {verdict: level for level, said in _SAID.items() for verdict in said}
_TEXTS = {verdict: texts for said in _SAID.values() for verdict, texts in said.items()}
MEANING: dict[Verdict, str] = {verdict: meaning for verdict, (meaning, _) in _TEXTS.items()}
NEXT_STEP: dict[Verdict, str] = {verdict: step for verdict, (_, step) in _TEXTS.items()}

# A segment with one of these is nobody's problem: it is done, or the next run tiers it.
SETTLED = frozenset({Verdict.ALREADY_TIERED, Verdict.READY})
# A person must clear these.
BLOCKED = frozenset(v for v, level in LEVEL.items() if level is Level.BLOCKED)
# The segment's finding says more: it is no problem if the file was deleted meanwhile.
TOLD_BY_FINDING = frozenset({Verdict.CORRUPT_SEGMENT, Verdict.UNREADABLE_SEGMENT})
# Segments that ought to be in remote storage and cannot go: the bytes that wait.
WAITING: frozenset[Verdict] = frozenset(v for v, level in LEVEL.items() if level in (Level.BLOCKED, Level.PENDING))
# Segments that remote storage is not for; percentages leave them out.
NEVER_TIERED: frozenset[Verdict] = frozenset({Verdict.ACTIVE_SEGMENT, Verdict.COMPACTED_TOPIC, Verdict.INTERNAL_TOPIC})
# From done to worst: the order of bars and legends, which read from left to right.
DISPLAY_ORDER: tuple[Verdict, ...] = (
    *(Verdict.ALREADY_TIERED, Verdict.LEFT_TO_BROKER, Verdict.READY),
    *(Verdict.COPY_IN_FLIGHT, Verdict.ABOVE_LSO, Verdict.GAP_BEFORE),
    *(verdict for verdict in reversed(SEVERITY) if LEVEL[verdict] is Level.BLOCKED),
    *(Verdict.ACTIVE_SEGMENT, Verdict.COMPACTED_TOPIC, Verdict.INTERNAL_TOPIC),
)


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the worst of some verdicts, None of none."""
    return min(verdicts, key=RANK.__getitem__, default=None)


def cleared_by_apply(options: ReplayOptions) -> frozenset[Verdict]:
    """Return the verdicts of a plan that the same command clears with `--apply`."""
    replaced = (Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT) if options.replace else ()
    return frozenset({Verdict.MISSING_SNAPSHOT, *replaced})


def may_be_tiered(verdicts: Mapping[Verdict, int], options: ReplayOptions) -> bool:
    """Return whether `--apply` writes to remote storage: a segment, or a snapshot that one lacks."""
    wanted = {Verdict.READY, *cleared_by_apply(options)}
    return options.every_boundary or any(verdicts.get(each) for each in wanted)


def problems_of(verdicts: Mapping[Verdict, int], *, cleared: Collection[Verdict] = ()) -> Iterator[Verdict]:
    """Yield the verdicts that segments have.

    Args:
        verdicts: segments by verdict.
        cleared: verdicts that `--apply` clears.
    """
    yield from (each for each, count in verdicts.items() if count and each not in TOLD_BY_FINDING | {*cleared})
