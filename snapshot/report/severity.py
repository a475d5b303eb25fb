"""Which verdict is worse: the order of the roll-up partition -> topic -> cluster, and a sentence for each.

A partition, a topic or the cluster gets the worst verdict that any of its segments has. Worst is what needs a person
most: first damage, then what is missing, then what clears by itself, then what is ready, last what is settled.
GAP_BEFORE ranks below ABOVE_LSO because it is never the cause: the segment that it waits for is in the same partition.
ALREADY_TIERED ranks above ACTIVE_SEGMENT and COMPACTED_TOPIC, or no healthy partition would ever be called tiered.
"""

from __future__ import annotations

from enum import StrEnum

from tiersnap.snapshot.readiness.judge import Verdict


class Level(StrEnum):
    """What a verdict asks for."""

    BLOCKED = "BLOCKED"  # somebody has to do something
    PENDING = "PENDING"  # clears by itself, or behind something else
    READY = "READY"  # the next run with --apply tiers it
    SETTLED = "SETTLED"  # nothing to do: tiered, left to a broker that works, or never to be


SEVERITY: tuple[Verdict, ...] = (
    Verdict.CORRUPT_SEGMENT,
    Verdict.GAP_IN_REMOTE,
    Verdict.CORRUPT_SNAPSHOT,
    Verdict.SUSPECT_SNAPSHOT,
    Verdict.MISSING_SNAPSHOT,
    Verdict.UNREADABLE_SEGMENT,
    Verdict.UNVERIFIED_SNAPSHOT,
    Verdict.MISSING_INDEX,
    Verdict.TOPIC_ID_UNKNOWN,
    Verdict.ENCRYPTED_REMOTE,
    Verdict.ABOVE_LSO,
    Verdict.COPY_IN_FLIGHT,
    Verdict.GAP_BEFORE,
    Verdict.READY,
    Verdict.LEFT_TO_BROKER,
    Verdict.ALREADY_TIERED,
    Verdict.EXPIRED,
    Verdict.COMPACTED_TOPIC,
    Verdict.INTERNAL_TOPIC,
    Verdict.ACTIVE_SEGMENT,
)
RANK: dict[Verdict, int] = {verdict: rank for rank, verdict in enumerate(SEVERITY)}

# From done to worst: the order of bars and legends, which read from left to right.
DISPLAY_ORDER: tuple[Verdict, ...] = (
    Verdict.ALREADY_TIERED,
    Verdict.LEFT_TO_BROKER,
    Verdict.READY,
    Verdict.COPY_IN_FLIGHT,
    Verdict.ABOVE_LSO,
    Verdict.GAP_BEFORE,
    Verdict.ENCRYPTED_REMOTE,
    Verdict.TOPIC_ID_UNKNOWN,
    Verdict.MISSING_INDEX,
    Verdict.UNVERIFIED_SNAPSHOT,
    Verdict.UNREADABLE_SEGMENT,
    Verdict.MISSING_SNAPSHOT,
    Verdict.SUSPECT_SNAPSHOT,
    Verdict.CORRUPT_SNAPSHOT,
    Verdict.GAP_IN_REMOTE,
    Verdict.CORRUPT_SEGMENT,
    Verdict.ACTIVE_SEGMENT,
    Verdict.EXPIRED,
    Verdict.COMPACTED_TOPIC,
    Verdict.INTERNAL_TOPIC,
)

LEVEL: dict[Verdict, Level] = {
    Verdict.CORRUPT_SEGMENT: Level.BLOCKED,
    Verdict.GAP_IN_REMOTE: Level.BLOCKED,
    Verdict.UNREADABLE_SEGMENT: Level.BLOCKED,
    Verdict.UNVERIFIED_SNAPSHOT: Level.BLOCKED,
    Verdict.CORRUPT_SNAPSHOT: Level.BLOCKED,
    Verdict.SUSPECT_SNAPSHOT: Level.BLOCKED,
    Verdict.MISSING_SNAPSHOT: Level.BLOCKED,
    Verdict.MISSING_INDEX: Level.BLOCKED,
    Verdict.TOPIC_ID_UNKNOWN: Level.BLOCKED,
    Verdict.ENCRYPTED_REMOTE: Level.BLOCKED,
    Verdict.ABOVE_LSO: Level.PENDING,
    Verdict.COPY_IN_FLIGHT: Level.PENDING,
    Verdict.GAP_BEFORE: Level.PENDING,
    Verdict.READY: Level.READY,
    Verdict.LEFT_TO_BROKER: Level.SETTLED,
    Verdict.ALREADY_TIERED: Level.SETTLED,
    Verdict.EXPIRED: Level.SETTLED,
    Verdict.COMPACTED_TOPIC: Level.SETTLED,
    Verdict.INTERNAL_TOPIC: Level.SETTLED,
    Verdict.ACTIVE_SEGMENT: Level.SETTLED,
}

# Segments that ought to be in remote storage and cannot go: the bytes that wait.
WAITING: frozenset[Verdict] = frozenset(v for v, level in LEVEL.items() if level in (Level.BLOCKED, Level.PENDING))
# Segments that remote storage is not for; percentages leave them out.
NEVER_TIERED: frozenset[Verdict] = frozenset(
    {Verdict.ACTIVE_SEGMENT, Verdict.EXPIRED, Verdict.COMPACTED_TOPIC, Verdict.INTERNAL_TOPIC}
)

MEANING: dict[Verdict, str] = {
    Verdict.ALREADY_TIERED: "The segment is in remote storage, together with its indexes and its producer snapshot.",
    Verdict.READY: "Everything KIP-405 asks for is there and trusted: the next run with --apply tiers it.",
    Verdict.ABOVE_LSO: "It ends above the last stable offset: replication or an open transaction comes first.",
    Verdict.GAP_BEFORE: "Nothing may be wrong with it, but an earlier segment of the partition has to go first.",
    Verdict.TOPIC_ID_UNKNOWN: "The partition was written by a broker before 2.8 and has no topic id yet.",
    Verdict.MISSING_INDEX: "Its leader epochs are absent, or an index that cannot be made from old entries.",
    Verdict.MISSING_SNAPSHOT: "No producer snapshot at the offset where the next segment begins; brokers tier nothing "
    "more of the partition.",
    Verdict.SUSPECT_SNAPSHOT: "The producer snapshot can be read, but contradicts the log.",
    Verdict.CORRUPT_SNAPSHOT: "The producer snapshot cannot be read.",
    Verdict.COPY_IN_FLIGHT: "A copy of the segment to remote storage is under way.",
    Verdict.LEFT_TO_BROKER: "A broker copies the partition's segments; tiersnap leaves this one to it.",
    Verdict.ENCRYPTED_REMOTE: "The segments in remote storage are encrypted; this one would lie there in plain text.",
    Verdict.EXPIRED: "tiersnap expire deleted it from remote storage, and nobody brings it back unasked.",
    Verdict.GAP_IN_REMOTE: "It lies below what remote storage reaches, and no copy there holds it: brokers pass it by.",
    Verdict.UNVERIFIED_SNAPSHOT: "The producer snapshot is there and was not compared with the log.",
    Verdict.UNREADABLE_SEGMENT: "The segment file may not be read by the user who looked.",
    Verdict.INTERNAL_TOPIC: "The topic is Kafka's own, which tiered storage excludes; its segments stay local.",
    Verdict.CORRUPT_SEGMENT: "The segment file itself is damaged.",
    Verdict.ACTIVE_SEGMENT: "The partition's last segment, which is still being written; it is never tiered.",
    Verdict.COMPACTED_TOPIC: "The topic is compacted, which tiered storage does not support; its segments stay local.",
}


def worst(verdicts: tuple[Verdict, ...]) -> Verdict | None:
    """The worst of some verdicts, None of none."""
    return min(verdicts, key=RANK.__getitem__, default=None)
