"""The report as data: what the pages and files are made from.

    Report
      cluster   Totals            all segments
      causes    Cause, ...        what stands in the way, most bytes first
      topics    TopicReport, ...  worst first
        partitions  PartitionReport, ...  worst first; one a (log_dir, topic, partition), so one a replica
          blockers  Blocker, ...  one a verdict that stands in the way, in offset order
          timeline  Span, ...     empty for partitions without details
          snapshots Held, ...     likewise: what producer snapshots there are, and where each is from

Offsets named `end_offset` are exclusive; times are epoch ms; bytes are those of segment files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tiersnap.snapshot.readiness.verdict import DISPLAY_ORDER, LEVEL, NEVER_TIERED, WAITING, Level, Verdict, worst
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.report.next_step import Step
from tiersnap.snapshot.report.run_info import RunInfo


@dataclass(frozen=True, slots=True)
class Count:
    """Segments and their bytes."""

    segments: int = 0
    bytes: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.segments + other.segments, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Totals:
    """Segments of a partition, a topic or the cluster.

    Attributes:
        verdicts: only those that occur, in DISPLAY_ORDER.
        findings: damaged places that the scan met in these segments.
        waiting_since: largest timestamp of the oldest segment that waits, epoch ms; None when none waits or is dated.
        recent_bytes: of segments whose newest record is of the last RECENT_MS before the run began.
    """

    verdicts: dict[Verdict, Count]
    findings: int = 0
    waiting_since: int | None = None
    recent_bytes: int = 0

    @property
    def all(self) -> Count:
        """All segments."""
        return self._sum(frozenset(self.verdicts))

    @property
    def tiered(self) -> Count:
        """Segments in remote storage."""
        return self.verdicts.get(Verdict.ALREADY_TIERED, Count())

    @property
    def ready(self) -> Count:
        """Segments that the next run may tier."""
        return self.verdicts.get(Verdict.READY, Count())

    @property
    def waiting(self) -> Count:
        """Segments that ought to be tiered and cannot be: not tiered, not ready, not active, not compacted."""
        return self._sum(WAITING)

    @property
    def never_tiered(self) -> Count:
        """Active segments and those of compacted topics."""
        return self._sum(NEVER_TIERED)

    @property
    def worst(self) -> Verdict | None:
        """The worst verdict, None without segments."""
        return worst(tuple(self.verdicts))

    @property
    def level(self) -> Level:
        """What the worst verdict asks for."""
        return Level.SETTLED if self.worst is None else LEVEL[self.worst]

    def _sum(self, verdicts: frozenset[Verdict]) -> Count:
        segments = total = 0
        for verdict in verdicts & self.verdicts.keys():
            count = self.verdicts[verdict]
            segments += count.segments
            total += count.bytes
        return Count(segments, total)


@dataclass(frozen=True, slots=True)
class Blocker:
    """The first segment of a partition with one verdict that stands in the way.

    Attributes:
        base_offset: of that first segment.
        count: all segments of the partition with the verdict.
        reason: of the first one.
        steps: what clears it.
    """

    verdict: Verdict
    base_offset: int
    count: Count
    reason: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the timeline: one segment, or neighbours.

    Attributes:
        verdict: the worst, where `is_mixed`.
        end_offset: None where it holds the active segment.
        is_mixed: neighbours of several verdicts, which are too many to be drawn.
    """

    verdict: Verdict
    base_offset: int
    end_offset: int | None
    count: Count
    is_mixed: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """The producer snapshots at the ends of neighbouring segments that say the same of them.

    Attributes:
        base_offset: of the first of these segments.
        end_offset: of the last one; None for the active segment, whose end is the log's.
        segments: how many.
        snapshot: a SnapshotVerdict.
        provenance: a Provenance, "" where there is no snapshot to be trusted.
    """

    base_offset: int
    end_offset: int | None
    segments: int
    snapshot: str
    provenance: str


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One replica of a partition.

    Attributes:
        log_start_offset: inclusive.
        last_stable_offset: exclusive, None when no high watermark is known.
        high_watermark: exclusive, None when not checkpointed.
        blockers: in ascending base offset; GAP_BEFORE only if the table holds nothing that it could wait for.
    """

    log_dir: str
    topic: str
    partition: int
    topic_id: str | None
    totals: Totals
    log_start_offset: int
    last_stable_offset: int | None
    high_watermark: int | None
    blockers: tuple[Blocker, ...]
    timeline: tuple[Span, ...] = ()
    snapshots: tuple[Held, ...] = ()

    @property
    def name(self) -> str:
        """`<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"

    @property
    def first_blocking(self) -> Blocker | None:
        """What has to be cleared first."""
        return self.blockers[0] if self.blockers else None


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic, all its replicas."""

    topic: str
    totals: Totals
    partitions: tuple[PartitionReport, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """What stands in the way, over the whole cluster.

    Attributes:
        partitions: whose segments have the verdict.
        count: segments with it.
        behind: segments with GAP_BEFORE that wait for them.
        steps: complete only as far as they are the same everywhere.
    """

    verdict: Verdict
    partitions: int
    count: Count
    behind: Count
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report.

    Attributes:
        snapshots: closed segments by the snapshot at their end, most first: (verdict on it, provenance or "", strict
            verdict on the broker's file or "").
        log_dirs: ascending.
    """

    run: RunInfo
    cluster: Totals
    causes: tuple[Cause, ...]
    topics: tuple[TopicReport, ...]
    snapshots: dict[tuple[str, str, str], int]
    log_dirs: tuple[str, ...]

    @property
    def compared(self) -> dict[SnapshotVerdict, int]:
        """Brokers' files at closed segments' ends by the strict verdict on them."""
        counted: Counter[str] = Counter()
        for (*_, compared), segments in self.snapshots.items():
            counted[compared] += segments
        return {verdict: counted[verdict] for verdict in SnapshotVerdict if counted[verdict]}

    @property
    def partition_count(self) -> int:
        """Replicas of partitions."""
        return sum(len(topic.partitions) for topic in self.topics)


def in_display_order(verdicts: dict[Verdict, Count]) -> dict[Verdict, Count]:
    """The same, sorted as bars and legends are."""
    return {verdict: verdicts[verdict] for verdict in DISPLAY_ORDER if verdict in verdicts}
