"""JSON of the commands that fill or read a warehouse, and of those about tiersnap itself."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from tiersnap.jobs.contracts.log_dir import ByName, ForPeople
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.replay.trust import Provenance, SnapshotVerdict
from tiersnap.snapshot.report.severity import Level


class VerdictCount(TypedDict):
    """A verdict of `run`."""

    verdict: Verdict
    segments: int


class RunSummary(TypedDict):
    """What `run` did; `seconds` by stage."""

    run_id: str
    segments_decoded: int
    snapshots_written: int
    snapshots_mended: Annotated[int, "of those written, how many took the place of a damaged object"]
    segments_tiered: int
    bytes_tiered: int
    delta_commits: int
    ready_elsewhere: NotRequired[ByName]
    encryption_unknown: Annotated[int, "partitions of which no manifest shows whether the plugin encrypts"]
    finding_count: Annotated[int, "of all; `findings` has the first few"]
    error_count: Annotated[int, "of all; `errors` has the first few"]
    seconds: dict[str, float]
    report: str


class DecodedSegments(TypedDict):
    """All that `decode` read."""

    segments: int
    bytes: int
    size: ForPeople
    batches: int
    stale_segments: Annotated[int, "whose rows were deleted: their batches are not in the log any more"]


class DecodeSummary(TypedDict):
    """What was not decoded."""

    damage_count: NotRequired[Annotated[int, "of all; `findings` has the first thousand"]]
    legacy_count: NotRequired[Annotated[int, "sound segments that end with entries of magic 0 or 1"]]


class MaintainedTable(TypedDict):
    """A table of `maintain tables`."""

    table: str
    rows: int
    superseded: int
    files: int
    bytes: int
    size: ForPeople


class VerdictTotals(TypedDict):
    """Segments with one verdict."""

    segments: int
    bytes: int


class _Totals(TypedDict):
    worst: Verdict | None
    level: Level
    segments: int
    bytes: int
    tiered_segments: int
    tiered_bytes: int
    ready_segments: int
    ready_bytes: int
    waiting_segments: int
    waiting_bytes: int
    never_tiered_segments: int
    never_tiered_bytes: int
    findings: int
    waiting_since: Annotated[int | None, "ms"]
    recent_bytes: Annotated[int, "of segments whose newest record is at most 7 days older than the run"]
    verdicts: dict[str, VerdictTotals]
    size: ForPeople
    tiered: ForPeople
    ready: ForPeople
    waiting: ForPeople


class ReportedTopic(_Totals):
    """A topic of `report --by topic`."""

    topic: str
    partitions: int


class ReportedPartition(_Totals):
    """A partition of `report`."""

    name: str
    log_dir: str
    topic: str
    partition: int
    topic_id: str | None
    log_start_offset: int
    last_stable_offset: int | None
    high_watermark: int | None
    blocked_at: Annotated[int | None, "base offset of the first segment that waits"]
    blocked_by: Verdict | None
    reason: str | None
    next_step: str | None


class ReportedSegment(TypedDict):
    """A segment of `report --by segment`."""

    name: str
    log_dir: str
    topic: str
    partition: int
    topic_id: str | None
    base_offset: int
    next_base_offset: int | None
    size_bytes: int
    max_timestamp: Annotated[int, "ms"]
    verdict: Verdict
    reason: str
    next_step: str
    snapshot: SnapshotVerdict
    snapshot_provenance: Provenance | None
    high_watermark: int | None
    last_stable_offset: int | None
    log_start_offset: int
    finding_count: int
    compared: SnapshotVerdict | None
    size: ForPeople


class ReportSummary(TypedDict):
    """Copies in remote storage that nobody needs."""

    unneeded_copies: NotRequired[list[str]]


class ListedRun(TypedDict):
    """A run of `runs list`; times are ms, bytes those of segment files."""

    run: int
    run_id: str
    tool: str
    started_at: int
    finished_at: int
    segments_decoded: int
    bytes_decoded: int
    partitions_carried: int
    snapshots_written: int
    segments_tiered: int
    bytes_tiered: int
    errors: int


class ShownRun(ListedRun):
    """A run of `runs show`, with the settings that it was given."""

    settings: dict[str, object]


class Setting(TypedDict):
    """A setting of `config`, as it would be written."""

    command: str
    setting: str
    value: str | None
    source: str
    variable: str


class VersionResult(TypedDict):
    """What this is."""

    tiersnap: str
    python: str
