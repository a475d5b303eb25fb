"""Facts about a partition and its segments, as tables store them.

`gate.judge.judge` derives verdicts from the facts. The facts contain no verdict and no time of the run, so verdicts may
change while the facts stay the same.
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
    """Facts about one partition. End offsets are exclusive."""

    topic_id: TopicId | None
    internal: Annotated[str, Meta(description='why the topic is internal to Kafka, or ""')]
    compacted: Annotated[str, Meta(description='why the topic counts as compacted, or ""')]
    log_start: Annotated[
        int | None, Meta(description="log start offset of the whole log; null if local files do not show it")
    ]
    log_start_unknown: Annotated[str, Meta(description='why the log start offset is unknown, or ""')]
    transactions_unknown: Annotated[
        str, Meta(description='why the open transactions at the start of the scan window are unknown, or ""')
    ]
    log_start_offset: Annotated[int, Meta(description="local log start offset")]
    log_end_offset: Annotated[int, Meta(description="log end offset, exclusive")]
    high_watermark: Annotated[
        int | None,
        Meta(
            description="high watermark, limited to the offsets of the log; null if no checkpoint names the partition"
        ),
    ]
    last_stable_offset: Annotated[
        int | None, Meta(description="last stable offset; null if the high watermark is unknown")
    ]
    unstable_because: Annotated[str, Meta(description="why the last stable offset is not higher")]


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """Facts about one segment."""

    base_offset: BaseOffset
    next_base_offset: NextBaseOffset
    size_bytes: SizeBytes
    modified_ns: ModifiedNs
    digest: Digest
    crc_checked: CrcChecked
    largest_timestamp: Annotated[int, Meta(description="ms, largest timestamp of the segment, as brokers compute it")]
    damage_kind: Annotated[
        FindingKind | None, Meta(description="kind of the damage in the segment file; null without damage")
    ]
    damage: Annotated[str, Meta(description='description of the damage, or ""')]
    has_gaps: HasGaps
    missing_parts: Annotated[
        tuple[str, ...], Meta(description="parts that an upload needs and cannot rebuild: leader epochs")
    ]
    rebuilt_parts: Annotated[
        tuple[str, ...], Meta(description="missing indexes, which the upload rebuilds from the segment")
    ]
    index_faults: Annotated[
        tuple[str, ...], Meta(description="faults of existing indexes; a broker copies such indexes unchanged")
    ] = ()
