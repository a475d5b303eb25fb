"""The facts of a partition and its segments that verdicts derive from, plain enough for rows of a table.

No verdict is among them and no clock: verdicts are derived (`readiness.judge`) and age while the facts stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.log.findings import FindingKind


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition. Offsets are exclusive where they end something."""

    topic_id: str | None  # 22 characters, None before Kafka 2.8
    internal: str  # why the topic is Kafka's own, or ""
    compacted: str  # why the topic counts as compacted, or ""
    log_start: int | None  # of the whole log, as its files tell it; None where they do not
    log_start_unknown: str  # why nothing tells where the log begins, or ""
    transactions_unknown: str  # why nothing tells which transactions are open where a scan window begins, or ""
    log_start_offset: int  # of the local log
    log_end_offset: int
    high_watermark: int | None  # bounded to the log; None when no checkpoint names the partition
    last_stable_offset: int | None  # None without a high watermark
    unstable_because: str  # what holds the last stable offset, for people


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One segment."""

    base_offset: int
    next_base_offset: int | None  # None for the active segment
    size_bytes: int  # size_bytes, modified_ns: of the log file as it was listed, bytes and ns since the epoch
    modified_ns: int
    digest: str  # of the decode (SegmentEnd.digest), "" where it was not reached
    crc_checked: bool  # whether the decode computed the CRC of every batch
    largest_timestamp: int  # ms, the broker's (SegmentEnd.largest_timestamp)
    damage_kind: FindingKind | None  # of the finding in the segment file, None without one
    damage: str  # the finding in words, or ""
    has_gaps: bool  # records are missing inside it, as the cleaner leaves it
    missing_parts: tuple[str, ...]  # what an upload needs and cannot make: leader epochs
    rebuilt_parts: tuple[str, ...]  # indexes that are absent, and are made from the segment for the upload
    # What is wrong with indexes that are there: a sentence each. A broker copies them as they are.
    index_faults: tuple[str, ...] = ()
