"""The facts of a partition and its segments, as rows of a table hold them.

They contain no verdict and no time of the run: `gate.judge.judge` derives verdicts, which change while facts stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.columns import (
    BaseOffset,
    CrcChecked,
    Digest,
    HasGaps,
    ModifiedNs,
    NextBaseOffset,
    SizeBytes,
    TopicId,
)
from tiersnap.snapshot.log.findings import FindingKind


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Facts of one partition. End offsets are exclusive."""

    topic_id: TopicId | None
    internal: Annotated[str, Meta(description='why the topic is Kafka\'s own, or ""')]
    compacted: Annotated[str, Meta(description='why the topic counts as compacted, or ""')]
    log_start: Annotated[
        int | None, Meta(description="log start offset of the whole log, as its files tell it; null if they do not")
    ]
    log_start_unknown: Annotated[str, Meta(description='why the log start offset is unknown, or ""')]
    transactions_unknown: Annotated[
        str, Meta(description='why the transactions that are open where a scan window begins are unknown, or ""')
    ]
    log_start_offset: Annotated[int, Meta(description="local log start offset")]
    log_end_offset: Annotated[int, Meta(description="log end offset, exclusive")]
    high_watermark: Annotated[
        int | None, Meta(description="high watermark, bounded to the log; null if no checkpoint names the partition")
    ]
    last_stable_offset: Annotated[int | None, Meta(description="last stable offset; null without a high watermark")]
    unstable_because: Annotated[str, Meta(description="what holds the last stable offset, in words")]


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """Facts of one segment."""

    base_offset: BaseOffset
    next_base_offset: NextBaseOffset
    size_bytes: SizeBytes
    modified_ns: ModifiedNs
    digest: Digest
    crc_checked: CrcChecked
    largest_timestamp: Annotated[int, Meta(description="ms, largest timestamp of the segment as the broker has it")]
    damage_kind: Annotated[
        FindingKind | None, Meta(description="kind of the damage in the segment file; null without damage")
    ]
    damage: Annotated[str, Meta(description='the damage in words, or ""')]
    has_gaps: HasGaps
    missing_parts: Annotated[
        tuple[str, ...], Meta(description="parts that an upload needs and cannot make: leader epochs")
    ]
    rebuilt_parts: Annotated[
        tuple[str, ...], Meta(description="indexes that are absent, and are made from the segment for the upload")
    ]
    index_faults: Annotated[
        tuple[str, ...], Meta(description="what is wrong with indexes that are there: a broker copies them as they are")
    ] = ()
