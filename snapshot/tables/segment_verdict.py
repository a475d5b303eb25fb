"""The verdict of one segment as a row; needs neither pyarrow nor numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import LEVEL, Level, Verdict
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.rows import Int32

if TYPE_CHECKING:
    from tiersnap.snapshot.gate.judge_partition import SegmentReadiness


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenVerdict:
    """The verdict on a segment and on the snapshot at its end.

    Attributes:
        snapshot: verdict on the snapshot at next_base_offset, or at the log end.
        compared: result of the strict comparison of the file at next_base_offset; None if none was compared.
    """

    verdict: Verdict
    level: Level
    reason: str
    next_step: str
    snapshot: SnapshotVerdict
    snapshot_provenance: Provenance | None
    compared: SnapshotVerdict | None

    @classmethod
    def of(cls, judged: SegmentReadiness) -> GivenVerdict:
        """Return the judgement of a segment."""
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
    """A row of VERDICTS: the verdict of one segment, of facts, remote storage and now."""

    log_dir: str
    topic: str
    partition: Int32
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
        """Return a segment of a partition as it was judged."""
        return cls(
            log_dir=log_dir,
            topic=topic,
            partition=partition,
            facts=facts,
            segment=judged.facts,
            judgement=GivenVerdict.of(judged),
        )
