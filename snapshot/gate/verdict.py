"""The verdicts on a segment, with their order, levels and meanings.

A partition, a topic or the cluster gets the worst verdict of its segments. From worst to best: damage, missing parts,
verdicts that clear by themselves, READY segments, segments that need no action. GAP_BEFORE is better than ABOVE_LSO,
because a segment with GAP_BEFORE only waits for an earlier segment, which has a worse verdict. TIERED is worse than
ACTIVE_SEGMENT and COMPACTED_TOPIC. Otherwise no partition would be TIERED, because each one has an active segment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiersnap.snapshot.replay.expiry import ReplayOptions


class Verdict(StrEnum):
    """The verdicts in order of precedence: a segment gets the first one that applies."""

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
    """The action that a verdict requires: from a person, from the next run, or from neither."""

    BLOCKED = "BLOCKED"  # a person must act
    PENDING = "PENDING"  # clears by itself, or after another problem is cleared
    READY = "READY"  # the next run with --apply uploads the segment
    IN_REMOTE = "IN_REMOTE"  # the segment is in remote storage, and no record of it is known
    SETTLED = "SETTLED"  # no reaction needed: tiered, left to a working broker, or never tiered


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
            "An index disagrees with the segment, or leader epochs are lost: a broker would upload the wrong "
            "index, or fail."
        ),
        Verdict.MISSING_SNAPSHOT: (
            "No producer snapshot exists at the end of the segment: brokers tier neither this segment nor a later "
            "one of the partition."
        ),
        Verdict.UNKNOWN_LOG_START: "The log start is unknown, so no producer state can be computed.",
        Verdict.UNKNOWN_TRANSACTIONS: (
            "tiersnap does not know which transactions are open at the start of the scan window, or at the end of "
            "an older segment."
        ),
        Verdict.UNREADABLE_SEGMENT: "This user may not read the segment file, or the file was deleted after the "
        "listing.",
        Verdict.UNVERIFIED_SNAPSHOT: "The producer snapshot exists, but was not compared with the log.",
        Verdict.MISSING_INDEX: "leader-epoch-checkpoint lost epochs, and no local batch has them.",
        Verdict.TOPIC_ID_UNKNOWN: (
            "The topic id of the partition is unknown: the log is from before Kafka 2.8, or partition.metadata is lost."
        ),
        Verdict.ENCRYPTED_REMOTE: (
            "The segments of brokers in remote storage are encrypted, but tiersnap would upload this one in plain text."
        ),
    },
    Level.PENDING: {
        Verdict.ABOVE_LSO: "The segment ends above the last stable offset: it waits for replication, or for the end "
        "of a transaction.",
        Verdict.COPY_IN_FLIGHT: "Another copy attempt is uploading the segment to remote storage.",
        Verdict.GAP_BEFORE: "An earlier segment of the partition must be tiered before this one.",
    },
    Level.READY: {
        Verdict.BEFORE_WINDOW: (
            "The segment is older than the scan window and was not read. The upload reads the segment, and refuses "
            "the segment if its snapshot lacks an open transaction."
        ),
        Verdict.READY: "The segment has all files that tiered storage (KIP-405) requires, and all are right: the next "
        "run with --apply uploads the segment.",
    },
    Level.IN_REMOTE: {
        Verdict.UPLOADED: (
            "tiersnap uploaded the segment, but no COPY_SEGMENT_FINISHED record of it is known: brokers do not "
            "read the remote segment, and local retention keeps the local file."
        ),
        Verdict.IN_REMOTE: (
            "A broker uploaded the segment completely, but no COPY_SEGMENT_FINISHED record of it is known."
        ),
    },
    Level.SETTLED: {
        Verdict.LEFT_TO_BROKER: "A broker uploads the segments of this partition, so tiersnap does not upload this "
        "one.",
        Verdict.TIERED: (
            "COPY_SEGMENT_FINISHED records cover the segment: brokers read the remote segment, and local retention "
            "deletes the local file."
        ),
        Verdict.COMPACTED_TOPIC: (
            "The topic is compacted, which tiered storage does not support; its segments stay local."
        ),
        Verdict.INTERNAL_TOPIC: "Tiered storage excludes Kafka's internal topics; the topic's segments stay local.",
        Verdict.ACTIVE_SEGMENT: "It is the active segment, to which brokers append; brokers never tier it.",
    },
}
LEVEL: dict[Verdict, Level] = {}
MEANING: dict[Verdict, str] = {}
for _level, _meanings in _SAID.items():
    LEVEL.update(dict.fromkeys(_meanings, _level))
    MEANING.update(_meanings)
SEVERITY: tuple[Verdict, ...] = tuple(MEANING)
RANK: dict[Verdict, int] = {verdict: rank for rank, verdict in enumerate(SEVERITY)}

# Verdicts on segments that are in remote storage. They are not uploaded again.
IN_REMOTE_STORAGE = frozenset({Verdict.TIERED, Verdict.UPLOADED, Verdict.IN_REMOTE})
# Verdicts that a person must clear.
BLOCKED = frozenset(_SAID[Level.BLOCKED])
# Verdicts for which the segment's finding gives the details and the exit code.
TOLD_BY_FINDING = frozenset({Verdict.CORRUPT_SEGMENT, Verdict.UNREADABLE_SEGMENT})
# Verdicts on segments that `--apply` uploads.
TO_UPLOAD = frozenset(_SAID[Level.READY])
# Verdicts on segments that should be in remote storage and cannot be uploaded now.
WAITING: frozenset[Verdict] = BLOCKED.union(_SAID[Level.PENDING])
# Verdicts on segments that Kafka never tiers. Percentages do not count these segments.
NEVER_TIERED: frozenset[Verdict] = frozenset({Verdict.ACTIVE_SEGMENT, Verdict.COMPACTED_TOPIC, Verdict.INTERNAL_TOPIC})
# The order of bars and legends from left to right: from tiered to blocked.
DISPLAY_ORDER: tuple[Verdict, ...] = (
    *(Verdict.TIERED, Verdict.LEFT_TO_BROKER, Verdict.UPLOADED, Verdict.IN_REMOTE, Verdict.READY),
    Verdict.BEFORE_WINDOW,
    *(Verdict.COPY_IN_FLIGHT, Verdict.ABOVE_LSO, Verdict.GAP_BEFORE),
    *reversed(_SAID[Level.BLOCKED]),
    *(Verdict.ACTIVE_SEGMENT, Verdict.COMPACTED_TOPIC, Verdict.INTERNAL_TOPIC),
)


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the worst verdict, or None without verdicts."""
    return min(verdicts, key=RANK.__getitem__, default=None)


def cleared_by_apply(options: ReplayOptions) -> frozenset[Verdict]:
    """Return the verdicts that the same command with `--apply` would clear."""
    if options.replace:
        return frozenset({Verdict.MISSING_SNAPSHOT, Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT})
    return frozenset({Verdict.MISSING_SNAPSHOT})


def may_be_tiered(verdicts: Mapping[Verdict, int], options: ReplayOptions) -> bool:
    """Return whether `--apply` writes segments or missing snapshots to remote storage."""
    wanted = TO_UPLOAD | cleared_by_apply(options)
    return options.every_boundary or any(verdicts.get(each) for each in wanted)


def problems_of(verdicts: Mapping[Verdict, int], *, cleared: Collection[Verdict] = ()) -> Iterator[Verdict]:
    """Yield the verdicts that decide the exit code.

    Args:
        verdicts: number of segments by verdict.
        cleared: verdicts that `--apply` clears, which are omitted.
    """
    omitted = TOLD_BY_FINDING.union(cleared)
    for each, count in verdicts.items():
        if count and each not in omitted:
            yield each
