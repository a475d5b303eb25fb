"""The verdicts on a segment, their order, the level of each, and its meaning.

A partition, a topic or the cluster gets the worst verdict of its segments. The order: damage, missing parts, verdicts
that clear by themselves, ready segments, settled segments.
GAP_BEFORE ranks below ABOVE_LSO because it is never the cause: the segment that it waits for is in the same partition.
TIERED ranks above ACTIVE_SEGMENT and COMPACTED_TOPIC, because every partition has an active segment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiersnap.snapshot.replay.expiry import ReplayOptions


class Verdict(StrEnum):
    """In order of precedence: a segment gets the first that applies."""

    TIERED = "TIERED"
    UPLOADED = "UPLOADED"
    IN_REMOTE = "IN_REMOTE"
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
    BEFORE_WINDOW = "BEFORE_WINDOW"
    READY = "READY"


class Level(StrEnum):
    """The reaction that a verdict asks for."""

    BLOCKED = "BLOCKED"  # a person must act
    PENDING = "PENDING"  # clears by itself, or after another problem is cleared
    READY = "READY"  # the next run with --apply uploads it
    IN_REMOTE = "IN_REMOTE"  # remote storage holds it, and it is unknown whether brokers know it
    SETTLED = "SETTLED"  # nothing to do: tiered, left to a working broker, or never tiered


# By level, worst first: the meaning of each verdict.
_SAID: dict[Level, dict[Verdict, str]] = {
    Level.BLOCKED: {
        Verdict.CORRUPT_SEGMENT: "The segment file itself is damaged.",
        Verdict.GAP_IN_REMOTE: (
            "Remote storage has later segments but not all of this one: brokers do not copy it again."
        ),
        Verdict.CORRUPT_SNAPSHOT: "The producer snapshot cannot be read.",
        Verdict.SUSPECT_SNAPSHOT: "The producer snapshot can be read, but contradicts the log.",
        Verdict.INDEX_DAMAGED: (
            "An index disagrees with the segment, or leader epochs are lost: a broker copies it wrong, or not at all."
        ),
        Verdict.MISSING_SNAPSHOT: (
            "No producer snapshot exists at the end of the segment; brokers tier nothing more of the partition."
        ),
        Verdict.UNKNOWN_LOG_START: "Nothing tells where the log begins, so no producer state can be computed.",
        Verdict.UNKNOWN_TRANSACTIONS: (
            "The scan window does not show which transactions are open where it begins, or in an older segment."
        ),
        Verdict.UNREADABLE_SEGMENT: ("This user may not read the segment file, or it was deleted since it was listed."),
        Verdict.UNVERIFIED_SNAPSHOT: "The producer snapshot exists, but was not compared with the log.",
        Verdict.MISSING_INDEX: "Leader epochs are lost, and no local batch has them.",
        Verdict.TOPIC_ID_UNKNOWN: (
            "The partition has no topic id: it is from before Kafka 2.8, or partition.metadata is lost."
        ),
        Verdict.ENCRYPTED_REMOTE: (
            "The segments in remote storage are encrypted; this one would be uploaded in plain text."
        ),
    },
    Level.PENDING: {
        Verdict.ABOVE_LSO: "It ends above the last stable offset: replication or an open transaction comes first.",
        Verdict.COPY_IN_FLIGHT: "A copy of the segment to remote storage is under way.",
        Verdict.GAP_BEFORE: "An earlier segment of the partition has to be tiered first.",
    },
    Level.READY: {
        Verdict.BEFORE_WINDOW: (
            "It is older than the scan window and was not read: its upload reads it, and refuses it if it ends inside "
            "a transaction that its snapshot lacks."
        ),
        Verdict.READY: "Everything that KIP-405 requires exists and is right: the next run with --apply tiers it.",
    },
    Level.IN_REMOTE: {
        Verdict.UPLOADED: (
            "tiersnap uploaded the segment, and no COPY_SEGMENT_FINISHED record of it is known: brokers do not read "
            "it there, and local retention keeps its local file."
        ),
        Verdict.IN_REMOTE: (
            "A broker's upload of the segment is complete in remote storage, and no COPY_SEGMENT_FINISHED record of it "
            "is known."
        ),
    },
    Level.SETTLED: {
        Verdict.LEFT_TO_BROKER: "A broker copies the partition's segments; tiersnap leaves this one to it.",
        Verdict.TIERED: (
            "COPY_SEGMENT_FINISHED records cover the segment: brokers read it in remote storage, and local retention "
            "deletes its local file."
        ),
        Verdict.COMPACTED_TOPIC: (
            "The topic is compacted, which tiered storage does not support; its segments stay local."
        ),
        Verdict.INTERNAL_TOPIC: "The topic is Kafka's own, which tiered storage excludes; its segments stay local.",
        Verdict.ACTIVE_SEGMENT: "The partition's last segment, which is still being written; it is never tiered.",
    },
}
SEVERITY: tuple[Verdict, ...] = tuple(verdict for said in _SAID.values() for verdict in said)
RANK: dict[Verdict, int] = {verdict: rank for rank, verdict in enumerate(SEVERITY)}
LEVEL: dict[Verdict, Level] = {verdict: level for level, said in _SAID.items() for verdict in said}
MEANING: dict[Verdict, str] = {verdict: meaning for said in _SAID.values() for verdict, meaning in said.items()}

# Remote storage holds the segment, whether brokers know it or not: it is not uploaded again.
IN_REMOTE_STORAGE = frozenset({Verdict.TIERED, Verdict.UPLOADED, Verdict.IN_REMOTE})
# A person must clear these.
BLOCKED = frozenset(v for v, level in LEVEL.items() if level is Level.BLOCKED)
# The segment's finding has the details and the exit code.
TOLD_BY_FINDING = frozenset({Verdict.CORRUPT_SEGMENT, Verdict.UNREADABLE_SEGMENT})
# `--apply` uploads these.
TO_UPLOAD = frozenset(v for v, level in LEVEL.items() if level is Level.READY)
# Segments that should be in remote storage and cannot be uploaded: the bytes that wait.
WAITING: frozenset[Verdict] = frozenset(v for v, level in LEVEL.items() if level in (Level.BLOCKED, Level.PENDING))
# Kafka never tiers these segments; percentages leave them out.
NEVER_TIERED: frozenset[Verdict] = frozenset({Verdict.ACTIVE_SEGMENT, Verdict.COMPACTED_TOPIC, Verdict.INTERNAL_TOPIC})
# From done to worst: the order of bars and legends, which read from left to right.
DISPLAY_ORDER: tuple[Verdict, ...] = (
    *(Verdict.TIERED, Verdict.LEFT_TO_BROKER, Verdict.UPLOADED, Verdict.IN_REMOTE, Verdict.READY),
    Verdict.BEFORE_WINDOW,
    *(Verdict.COPY_IN_FLIGHT, Verdict.ABOVE_LSO, Verdict.GAP_BEFORE),
    *(verdict for verdict in reversed(SEVERITY) if LEVEL[verdict] is Level.BLOCKED),
    *(Verdict.ACTIVE_SEGMENT, Verdict.COMPACTED_TOPIC, Verdict.INTERNAL_TOPIC),
)


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the worst verdict, None without one."""
    return min(verdicts, key=RANK.__getitem__, default=None)


def cleared_by_apply(options: ReplayOptions) -> frozenset[Verdict]:
    """Return the verdicts of a plan that the same command clears with `--apply`."""
    replaced = (Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT) if options.replace else ()
    return frozenset({Verdict.MISSING_SNAPSHOT, *replaced})


def may_be_tiered(verdicts: Mapping[Verdict, int], options: ReplayOptions) -> bool:
    """Return whether `--apply` writes to remote storage: a segment, or a snapshot that one lacks."""
    wanted = TO_UPLOAD | cleared_by_apply(options)
    return options.every_boundary or any(verdicts.get(each) for each in wanted)


def problems_of(verdicts: Mapping[Verdict, int], *, cleared: Collection[Verdict] = ()) -> Iterator[Verdict]:
    """Yield the verdicts that segments have.

    Args:
        verdicts: segments by verdict.
        cleared: verdicts that `--apply` clears.
    """
    yield from (each for each, count in verdicts.items() if count and each not in TOLD_BY_FINDING | {*cleared})
