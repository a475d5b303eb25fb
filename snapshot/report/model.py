"""The report: one model for the page, JSON, CSV, table rows and metrics.

    Report
      cluster   ClusterTotals   all segments
      causes    Cause, ...      verdicts that block segments, worst first
      topics    TopicReport, ...  worst first
        partitions  PartitionReport, ...  worst first; one per (log_dir, topic, partition), so one per replica
          blocking  Blocker, ...  one per verdict that blocks segments, in offset order
          snapshots Held, ...     producer snapshots with their provenance

readiness.json has the fields of these classes, in the same order. docs/readiness.schema.json is made from them.
Classes whose names begin with Page have further fields, for the page only.

Offsets named `end_offset` are exclusive. Times are epoch ms. Sizes are bytes of segment files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta

from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import (
    DISPLAY_ORDER,
    LEVEL,
    NEVER_TIERED,
    TO_UPLOAD,
    WAITING,
    Level,
    Verdict,
    worst,
)
from tiersnap.snapshot.report.blockers import Blocker, Cause, PageBlocker, PageCause
from tiersnap.snapshot.report.disk_forecast import Forecast
from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers
from tiersnap.snapshot.report.remote_checks import Key, RemoteChecked
from tiersnap.snapshot.report.run_info import RunInfo, Size, WaitingAt


@dataclass(frozen=True, slots=True)
class Count:
    """A number of segments and their size in bytes."""

    segments: Size = 0
    bytes: Size = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.segments + other.segments, self.bytes + other.bytes)


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The number and size of all segments, and their worst verdict.

    Attributes:
        worst: the worst verdict; None without segments.
        level: level of the worst verdict.
    """

    worst: Verdict | None
    level: Level
    segments: Size
    bytes: Size


@dataclass(frozen=True, kw_only=True)
class TieringProgress:
    """The segments that belong in remote storage, by progress.

    Attributes:
        tiered: segments that brokers have in remote storage.
        uploaded: segments that tiersnap uploaded. No COPY_SEGMENT_FINISHED record of them is known.
        in_remote: segments that brokers uploaded. No COPY_SEGMENT_FINISHED record of them was read.
        ready: segments that the next run may tier.
        waiting: segments that a verdict blocks.
    """

    tiered_segments: Size
    tiered_bytes: Size
    uploaded_segments: Size
    uploaded_bytes: Size
    in_remote_segments: Size
    in_remote_bytes: Size
    ready_segments: Size
    ready_bytes: Size
    waiting_segments: Size
    waiting_bytes: Size


@dataclass(frozen=True, kw_only=True)
class Sums(TieringProgress, Extent):
    """Segments by group of verdicts; see `totals_of`.

    Attributes:
        never_tiered: active segments, and segments of compacted topics.
    """

    never_tiered_segments: Size
    never_tiered_bytes: Size


@dataclass(frozen=True, kw_only=True)
class Totals(Sums):
    """Counts and sizes of the segments of a partition, a topic or the cluster.

    Attributes:
        findings: number of damaged places in the segments.
        waiting_since: largest timestamp of the oldest blocked segment; None if no blocked segment has a timestamp.
        verdicts: counts of the verdicts that occur, in DISPLAY_ORDER.
    """

    findings: Size
    waiting_since: Annotated[int | None, Meta(description="ms")]
    recent_bytes: Annotated[
        Size, Meta(description="bytes of segments whose newest record was at most 7 days old at the time of the run")
    ]
    verdicts: Annotated[dict[Verdict, Count], Meta(extra_json_schema={"propertyNames": {"$ref": "#/$defs/Verdict"}})]


@dataclass(frozen=True, kw_only=True)
class ClusterTotals(Totals):
    """The segments of the cluster. `partitions` is the number of replicas."""

    topics: Size
    partitions: Size


@dataclass(frozen=True)
class Held:
    """Neighbouring segments. The snapshots at the ends of these segments have the same verdict and provenance.

    Attributes:
        base_offset: base offset of the first segment.
        end_offset: end offset of the last segment; None for the active segment.
        provenance: provenance of the snapshots; None if they are not trusted.
    """

    base_offset: Size
    end_offset: Size | None
    segments: Size
    snapshot: SnapshotVerdict
    provenance: Provenance | None


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the timeline: one segment or several neighbouring segments.

    Attributes:
        verdict: worst verdict of the segments.
        end_offset: end offset of the last segment; None for the active segment.
        is_mixed: whether the segments have several verdicts. This happens if a partition has too many segments to draw
            each one.
    """

    verdict: Verdict
    base_offset: int
    end_offset: int | None
    count: Count
    is_mixed: bool = False


@dataclass(frozen=True, kw_only=True)
class _Partition:
    log_dir: str
    partition: Size
    topic_id: str | None


@dataclass(frozen=True, kw_only=True)
class Offsets:
    """Offsets of a replica.

    Attributes:
        log_start_offset: inclusive.
        last_stable_offset: exclusive; None if the high watermark is unknown.
        high_watermark: exclusive; None if no checkpoint has it.
    """

    log_start_offset: Size
    last_stable_offset: Size | None
    high_watermark: Size | None


@dataclass(frozen=True, kw_only=True)
class PartitionReport(Offsets, Totals, _Partition):
    """A replica of a partition.

    Attributes:
        blocking: verdicts that block segments, in offset order. They must be cleared in this order. GAP_BEFORE is
            included only if the rows of the report lack the earlier segment that causes the gap.
        snapshots: snapshots in offset order; None if the run did not list the segments one by one.
        remote_checked: results of `tiersnap verify`; None if unknown.
    """

    blocking: tuple[Blocker, ...]
    snapshots: tuple[Held, ...] | None = None
    remote_checked: RemoteChecked | None = None


@dataclass(frozen=True, kw_only=True)
class PagePartition(PartitionReport):
    """A partition on a page. `timeline` is empty if the page does not show its segments."""

    topic: str
    blocking: tuple[PageBlocker, ...]
    timeline: tuple[Span, ...] = ()

    @property
    def name(self) -> str:
        """Return `<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, kw_only=True)
class _Topic:
    topic: str


@dataclass(frozen=True, kw_only=True)
class TopicReport(Totals, _Topic):
    """A topic with all replicas of its partitions, worst first."""

    partitions: tuple[PartitionReport, ...]


@dataclass(frozen=True, kw_only=True)
class PageTopic(TopicReport):
    """A topic on a page."""

    partitions: tuple[PagePartition, ...]


@dataclass(frozen=True)
class SnapshotsAtEnds:
    """The number of closed segments whose snapshot has this verdict and provenance.

    The snapshot of a segment is the one at its end offset. `compared` is the verdict of the strict comparison of a
    broker's file.
    """

    snapshot: SnapshotVerdict
    provenance: Provenance | None
    compared: SnapshotVerdict | None
    segments: Size


@dataclass(frozen=True, kw_only=True)
class ReportHead:
    """A report without its topics.

    Attributes:
        log_dirs: log directories, ascending.
        snapshots: counts of closed segments, by verdict and provenance of their snapshots; largest count first.
        compared: counts of brokers' snapshot files of closed segments, by verdict of the strict comparison.
        replicas_without_producers: replicas that lost active producers; empty if remote storage was not read.
        trend: waiting bytes after each run that changed a verdict, by time; empty without the table `readiness`.
    """

    schema_version: Literal[1] = 1
    run: RunInfo
    log_dirs: tuple[str, ...]
    cluster: ClusterTotals
    causes: tuple[Cause, ...]
    snapshots: tuple[SnapshotsAtEnds, ...]
    compared: Annotated[
        dict[SnapshotVerdict, Size], Meta(extra_json_schema={"propertyNames": {"$ref": "#/$defs/SnapshotVerdict"}})
    ]
    forecast: Forecast
    replicas_without_producers: tuple[ReplicaWithoutProducers, ...] = ()
    trend: tuple[WaitingAt, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReadinessDocument(ReportHead):
    """The content of readiness.json."""

    topics: tuple[TopicReport, ...]


@dataclass(frozen=True, kw_only=True)
class Report(ReadinessDocument):
    """A whole report, with the data of its pages."""

    causes: tuple[PageCause, ...]
    topics: tuple[PageTopic, ...]


def with_remote_checks(report: Report, found: Mapping[Key, RemoteChecked]) -> Report:
    """Return the report with the results of `tiersnap verify` for each partition."""
    if not found:
        return report

    def checked(each: PagePartition) -> PagePartition:
        return replace(each, remote_checked=found.get((each.topic, each.topic_id, each.partition)))

    topics = (replace(topic, partitions=tuple(map(checked, topic.partitions))) for topic in report.topics)
    return replace(report, topics=tuple(topics))


def totals_of(verdicts: Mapping[Verdict, Count], findings: int, recent: int, waiting_since: int | None) -> Totals:
    """Return the totals of all segments, from their counts by verdict. `recent` is the size of recent segments."""

    def count(kinds: Iterable[Verdict]) -> Count:
        return sum((verdicts[each] for each in kinds if each in verdicts), Count())

    groups = [verdicts.keys(), TO_UPLOAD, WAITING, NEVER_TIERED]
    everything, ready, waiting, never_tiered = map(count, groups)
    tiered, uploaded, in_remote = map(count, ({Verdict.TIERED}, {Verdict.UPLOADED}, {Verdict.IN_REMOTE}))
    worst_of_all = worst(verdicts)
    return Totals(
        worst=worst_of_all,
        level=Level.SETTLED if worst_of_all is None else LEVEL[worst_of_all],
        segments=everything.segments,
        bytes=everything.bytes,
        tiered_segments=tiered.segments,
        tiered_bytes=tiered.bytes,
        uploaded_segments=uploaded.segments,
        uploaded_bytes=uploaded.bytes,
        in_remote_segments=in_remote.segments,
        in_remote_bytes=in_remote.bytes,
        ready_segments=ready.segments,
        ready_bytes=ready.bytes,
        waiting_segments=waiting.segments,
        waiting_bytes=waiting.bytes,
        never_tiered_segments=never_tiered.segments,
        never_tiered_bytes=never_tiered.bytes,
        findings=findings,
        waiting_since=waiting_since,
        recent_bytes=recent,
        verdicts={verdict: verdicts[verdict] for verdict in DISPLAY_ORDER if verdict in verdicts},
    )


def sum_of(parts: Iterable[Totals]) -> Totals:
    """Return the sum of partitions or topics. `waiting_since` is the earliest of the parts."""
    verdicts: dict[Verdict, Count] = {}
    findings = recent = 0
    since = []
    for part in parts:
        for verdict, count in part.verdicts.items():
            verdicts[verdict] = verdicts.get(verdict, Count()) + count
        findings += part.findings
        recent += part.recent_bytes
        if part.waiting_since is not None:
            since.append(part.waiting_since)
    return totals_of(verdicts, findings, recent, min(since, default=None))
