"""The facts of a partition and its segments that verdicts derive from, plain enough for rows of a table.

No verdict is among them and no clock: verdicts are derived (`readiness.judge`) and age while the facts stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.replay.snapshot_comparison import Comparison


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition. Offsets are exclusive where they end something.

    Attributes:
        topic_id: 22 characters, None before Kafka 2.8.
        internal: why the topic is Kafka's own, or "".
        compacted: why the topic counts as compacted, or "".
        high_watermark: bounded to the log; None when no checkpoint names the partition.
        last_stable_offset: None without a high watermark.
        unstable_because: what holds the last stable offset, for people.
    """

    topic_id: str | None
    internal: str
    compacted: str
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    last_stable_offset: int | None
    unstable_because: str


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One segment.

    Attributes:
        next_base_offset: None for the active segment.
        size, modified_ns: of the log file as it was listed, bytes and ns since the epoch.
        digest: of the decode (SegmentEnd.digest), "" where it was not reached.
        crc_checked: whether the decode computed the CRC of every batch.
        largest_timestamp: ms, the broker's (SegmentEnd.largest_timestamp).
        damage_kind: of the finding in the segment file, None without one.
        damage: the finding in words, or "".
        has_gaps: records are missing inside it, as the cleaner leaves it.
        missing_parts: what an upload needs and cannot make: leader epochs.
        rebuilt_parts: indexes that are absent or no whole entries, and are made from the segment for the upload.
        snapshot: of the file at `next_base_offset`, or of the one computed in its place.
    """

    base_offset: int
    next_base_offset: int | None
    size: int
    modified_ns: int
    digest: str
    crc_checked: bool
    largest_timestamp: int
    damage_kind: FindingKind | None
    damage: str
    has_gaps: bool
    missing_parts: tuple[str, ...]
    rebuilt_parts: tuple[str, ...]
    snapshot: Comparison
