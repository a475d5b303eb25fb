"""One verdict a segment: may it be tiered, and if not, what stands in the way and which command clears it.

The rules are those of kafka's RemoteLogManager.RLMCopyTask (a segment is copied iff its next base offset <= last
stable offset, never the active one, never a compacted topic) and of LogSegmentData (log, offset index, time index,
producer snapshot and leader epochs are mandatory), applied before anything is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.state.trust import SnapshotVerdict


class Verdict(StrEnum):
    """In order of precedence: a segment gets the first that applies."""

    ALREADY_TIERED = "ALREADY_TIERED"
    ACTIVE_SEGMENT = "ACTIVE_SEGMENT"
    COMPACTED_TOPIC = "COMPACTED_TOPIC"
    TOPIC_ID_UNKNOWN = "TOPIC_ID_UNKNOWN"
    CORRUPT_SEGMENT = "CORRUPT_SEGMENT"
    GAP_BEFORE = "GAP_BEFORE"
    ABOVE_LSO = "ABOVE_LSO"
    MISSING_INDEX = "MISSING_INDEX"
    MISSING_SNAPSHOT = "MISSING_SNAPSHOT"
    CORRUPT_SNAPSHOT = "CORRUPT_SNAPSHOT"
    SUSPECT_SNAPSHOT = "SUSPECT_SNAPSHOT"
    READY = "READY"


# A segment with one of these is nobody's problem: it is done, or never goes to remote storage.
SETTLED = frozenset({Verdict.ALREADY_TIERED, Verdict.READY})

_REPLACE = "tiersnap run --replace --apply, or on the host: tiersnap repair LOGDIR --replace --apply"
NEXT_STEP: dict[Verdict, str] = {
    Verdict.ALREADY_TIERED: "",
    Verdict.ACTIVE_SEGMENT: "",
    Verdict.COMPACTED_TOPIC: "",
    Verdict.TOPIC_ID_UNKNOWN: "start a broker >= 2.8 on this directory, or give the ids: tiersnap run --topic-ids FILE",
    Verdict.CORRUPT_SEGMENT: "tiersnap dump FILE shows the place; restore the segment from another replica",
    Verdict.GAP_BEFORE: "clear the earlier segment first",
    Verdict.ABOVE_LSO: "wait for replication and for open transactions to end; tiersnap transactions SOURCE lists them",
    Verdict.MISSING_INDEX: "start the broker once: it rebuilds a missing index from the segment",
    Verdict.MISSING_SNAPSHOT: "tiersnap run --apply, or on the broker host: tiersnap repair LOGDIR --apply",
    Verdict.CORRUPT_SNAPSHOT: _REPLACE,
    Verdict.SUSPECT_SNAPSHOT: _REPLACE,
    Verdict.READY: "tiersnap run --apply",
}


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What the gate must know of one segment; offsets exclusive where named `next`.

    Attributes:
        next_base_offset: None for the active segment.
        missing_parts: names of mandatory files that are absent or unreadable.
        damage: text of the finding in the segment file, or "".
        snapshot: verdict on the snapshot at `next_base_offset`, as trusted as it will be when tiering.
        snapshot_reason: why, for the report.
    """

    base_offset: int
    next_base_offset: int | None
    size: int
    is_tiered: bool
    missing_parts: tuple[str, ...]
    damage: str
    snapshot: SnapshotVerdict
    snapshot_reason: str


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What the gate must know of a partition.

    Attributes:
        compacted: why the topic counts as compacted, or "".
        last_stable_offset: exclusive; None when no high watermark is known.
        unstable_because: what holds the last stable offset, for the report.
    """

    topic_id: str | None
    compacted: str
    last_stable_offset: int | None
    unstable_because: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """A segment's verdict and why."""

    base_offset: int
    verdict: Verdict
    reason: str

    @property
    def next_step(self) -> str:
        """The command that clears the verdict, or ""."""
        return NEXT_STEP[self.verdict]


def judge(partition: PartitionFacts, segments: Iterable[SegmentFacts]) -> Iterator[Readiness]:
    """Verdicts of a partition's segments, given and returned in ascending base offset."""
    blocked_by: int | None = None
    for segment in segments:
        verdict, reason = _first_that_applies(partition, segment, blocked_by)
        if blocked_by is None and verdict not in SETTLED:
            blocked_by = segment.base_offset
        yield Readiness(segment.base_offset, verdict, reason)


def _first_that_applies(
    partition: PartitionFacts, segment: SegmentFacts, blocked_by: int | None
) -> tuple[Verdict, str]:
    if segment.is_tiered:
        return Verdict.ALREADY_TIERED, "in remote storage"
    if segment.next_base_offset is None:
        return Verdict.ACTIVE_SEGMENT, "still being written"
    if partition.compacted:
        return Verdict.COMPACTED_TOPIC, partition.compacted
    if partition.topic_id is None:
        return Verdict.TOPIC_ID_UNKNOWN, "no partition.metadata: written by a broker before 2.8"
    if segment.damage:
        return Verdict.CORRUPT_SEGMENT, segment.damage
    if blocked_by is not None:
        return Verdict.GAP_BEFORE, f"segment {blocked_by} comes first and cannot be tiered yet"
    if partition.last_stable_offset is None or segment.next_base_offset > partition.last_stable_offset:
        stable = "unknown" if partition.last_stable_offset is None else partition.last_stable_offset
        return Verdict.ABOVE_LSO, f"ends at {segment.next_base_offset}, last stable offset is {stable}: " + (
            partition.unstable_because or "the high watermark is lower"
        )
    if segment.missing_parts:
        return Verdict.MISSING_INDEX, "no " + ", no ".join(segment.missing_parts)
    if segment.snapshot is SnapshotVerdict.CORRUPT:
        return Verdict.CORRUPT_SNAPSHOT, segment.snapshot_reason
    if segment.snapshot is SnapshotVerdict.SUSPECT:
        return Verdict.SUSPECT_SNAPSHOT, segment.snapshot_reason
    if not segment.snapshot.is_trusted:
        return Verdict.MISSING_SNAPSHOT, segment.snapshot_reason
    return Verdict.READY, segment.snapshot_reason
