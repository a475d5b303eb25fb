"""The row of a segment's verdict. This module imports neither pyarrow nor numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.snapshot.columns import LogDir, PartitionNumber, Topic
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import LEVEL, Level, Verdict
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts

if TYPE_CHECKING:
    from tiersnap.snapshot.gate.judge_partition import SegmentReadiness


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenVerdict:
    """The verdict on a segment and on the snapshot at its end."""

    verdict: Annotated[
        Verdict,
        Meta(description="verdict on the segment; null in readiness if the log directory no longer has it"),
    ]
    level: Annotated[Level, Meta(description="kind of the verdict: BLOCKED, PENDING, READY, IN_REMOTE or SETTLED")]
    reason: Annotated[str, Meta(description="reason for the verdict, in words")]
    next_step: Annotated[str, Meta(description='next step that solves the problem, or ""')]
    snapshot: Annotated[
        SnapshotVerdict,
        Meta(
            description="verdict on the snapshot at next_base_offset; for the active segment, on the snapshot at the "
            "log end offset"
        ),
    ]
    snapshot_provenance: Annotated[
        Provenance | None,
        Meta(description="provenance of the snapshot that is uploaded with the segment; null if there is none"),
    ]
    compared: Annotated[
        SnapshotVerdict | None,
        Meta(
            description="result of the strict comparison of the snapshot file at next_base_offset; null if no file "
            "was compared"
        ),
    ]

    @classmethod
    def of(cls, judged: SegmentReadiness) -> GivenVerdict:
        """Return the verdict of a judged segment."""
        readiness, snapshot = judged.readiness, judged.snapshot
        return cls(
            verdict=readiness.verdict,
            level=LEVEL[readiness.verdict],
            reason=readiness.reason,
            next_step=readiness.next_step,
            snapshot=snapshot.verdict,
            snapshot_provenance=snapshot.provenance,
            compared=None if judged.facts.next_base_offset is None else snapshot.compared,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerdict:
    """A row of READINESS: the verdict of one segment."""

    log_dir: LogDir
    topic: Topic
    partition: PartitionNumber
    facts: PartitionFacts
    segment: SegmentFacts
    judgement: GivenVerdict

    @property
    def name(self) -> str:
        """Return `<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"

    @classmethod
    def of(
        cls, log_dir: str, topic: str, partition: int, facts: PartitionFacts, judged: SegmentReadiness
    ) -> SegmentVerdict:
        """Return the row of a judged segment."""
        return cls(
            log_dir=log_dir,
            topic=topic,
            partition=partition,
            facts=facts,
            segment=judged.facts,
            judgement=GivenVerdict.of(judged),
        )
