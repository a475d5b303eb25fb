"""`tiersnap report`: the readiness of a warehouse, as a table and as a page."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.command import Group, command
from tiersnap.jobs.commands.report_diff import report_diff
from tiersnap.jobs.commands.report_runs import report_run, report_runs
from tiersnap.jobs.option_types import LocalPath, clock
from tiersnap.jobs.options import now_option, producer_expiration_option, warehouse_option
from tiersnap.jobs.output import Output, of_row
from tiersnap.jobs.sentences import ForPeople
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.snapshot.readiness.verdict import Level, Verdict
    from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict
    from tiersnap.snapshot.report.run_info import RunInfo

GRAINS = ("segment", "partition", "topic")


@dataclass(frozen=True)
class VerdictTotals:
    """Segments with one verdict."""

    segments: int
    bytes: int


@dataclass(frozen=True)
class _Topic:
    topic: str
    partitions: int


@dataclass(frozen=True)
class _Partition:
    name: str
    log_dir: str
    topic: str
    partition: int
    topic_id: str | None


@dataclass(frozen=True)
class _Totals:
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
    waiting_since: Annotated[int | None, Meta(description="ms")]
    recent_bytes: Annotated[
        int, Meta(description="of segments whose newest record is at most 7 days older than the run")
    ]
    verdicts: dict[str, VerdictTotals]
    size: ForPeople
    tiered: ForPeople
    ready: ForPeople
    waiting: ForPeople


@dataclass(frozen=True)
class ReportedTopic(_Totals, _Topic):
    """A topic of `report --by topic`."""

    COLUMNS: ClassVar = ("topic", "worst", "partitions", "segments", "size", "tiered", "ready", "waiting", "findings")


@dataclass(frozen=True)
class ReportedPartition(_Totals, _Partition):
    """A partition of `report`."""

    COLUMNS: ClassVar = (
        *("name", "worst", "segments", "size", "tiered", "waiting", "blocked_at", "reason", "next_step"),
    )
    log_start_offset: int
    last_stable_offset: int | None
    high_watermark: int | None
    blocked_at: Annotated[int | None, Meta(description="base offset of the first segment that waits")]
    blocked_by: Verdict | None
    reason: str | None
    next_step: str | None


@dataclass(frozen=True)
class ReportedSegment(_Partition):
    """A segment of `report --by segment`."""

    COLUMNS: ClassVar = ("name", "base_offset", "size", "verdict", "snapshot", "reason", "next_step")
    base_offset: int
    next_base_offset: int | None
    size_bytes: int
    max_timestamp: Annotated[int, Meta(description="ms")]
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


@dataclass(frozen=True)
class ReportSummary:
    """Copies in remote storage that nobody needs."""

    unneeded_copies: list[str] | UnsetType = UNSET


@command(
    *(ReportedPartition, ReportedTopic, ReportedSegment),
    summary=ReportSummary,
    cls=Group,
    invoke_without_command=True,
)
@warehouse_option
@click.option("--source", help="Named in the commands that clear a verdict.  [default: that of the last run]")
@click.option("--remote", help="Remote location in the commands that clear a verdict.  [default: that of the last run]")
@click.option("--by", "grain", type=click.Choice(GRAINS), default="partition", show_default=True)
@click.option("--to", "folder", type=LocalPath(file_okay=False), help="Also write the page, JSON and CSV here.")
@click.option("--replace", is_flag=True, help="Judge as a run with --replace does.")
@producer_expiration_option
@now_option
def report(
    output: Output,
    warehouse: str,
    source: str | None,
    remote: str | None,
    grain: str,
    folder: Path | None,
    replace: bool,
    producer_expiration: int | None,
    now: int,
) -> int:
    """Show where every segment stands: verdict, reason, and the command that clears it; no Java.

    Facts are those of the last run, verdicts are of now.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return ExitCode.OK
    import pyarrow as pa

    from tiersnap.jobs.delta_tables import audit, copies, failover, last_run, readiness
    from tiersnap.jobs.host_report import disks_below
    from tiersnap.snapshot.readiness.copy_task import LEFT_FOR_MS, BesideBrokers
    from tiersnap.snapshot.report.exactly_once import ExactlyOnce
    from tiersnap.snapshot.report.of_last_run import last_run_info
    from tiersnap.snapshot.report.rows import partition_rows, segment_rows, topic_rows
    from tiersnap.snapshot.report.summary import summarise
    from tiersnap.snapshot.report.write import write_report
    from tiersnap.snapshot.tables.remote_log_segments import unneeded
    from tiersnap.snapshot.tables.schemas import READINESS
    from tiersnap.snapshot.tasks.judge_partition import JudgePartition

    last = last_run(warehouse)
    beside = BesideBrokers(now, last.get("settings", {}).get("left_for", LEFT_FOR_MS))
    judge = JudgePartition(replace, now, producer_expiration, beside=beside)
    rows = pa.Table.from_batches(readiness(warehouse, judge), schema=READINESS)
    info = last_run_info(last, warehouse, source, remote, at=clock(), now=now)
    info = dataclasses.replace(info, disks=disks_below(set(info.sources) - set(info.collected)))
    summary = summarise(rows, info)
    left = list(unneeded(copies(warehouse)))
    named = [f"{row['topic']}-{row['partition']} at {row['start_offset']}: {row['segment_id']}" for row in left]
    members = ReportSummary(named) if named else None
    if grain == "segment":
        found = (of_row(ReportedSegment, row) for row in segment_rows(rows, info))
        output.rows(ReportedSegment, found, summary=members)
    elif grain == "topic":
        output.rows(ReportedTopic, (of_row(ReportedTopic, row) for row in topic_rows(summary)), summary=members)
    else:
        by_partition = (of_row(ReportedPartition, row) for row in partition_rows(summary))
        output.rows(ReportedPartition, by_partition, summary=members)
    if left:
        output.talk(
            f"{count_of(len(left), 'copy was', 'copies were')} never finished, or hold what others hold; what no "
            f"cluster knows goes with {_remove_orphans(info)}"
        )
    if folder is not None:
        write_report(summary, folder, ExactlyOnce(audit(warehouse), failover(warehouse)))
        output.talk(f"wrote {folder}/index.html, readiness.json, readiness.csv and what they point to")
    return ExitCode.OK


def _remove_orphans(info: RunInfo) -> str:
    """Return the command, as far as it is known."""
    kept = info.options.get("maintain remove-orphans", ())
    place = shlex.quote(info.remote) if info.remote else "REMOTE"
    server = "" if "--bootstrap-server" in kept else "--bootstrap-server HOST:PORT"
    words = ["tiersnap maintain remove-orphans --remote", place, shlex.join(kept), server]
    return " ".join(word for word in words if word)


for each in (report_diff, report_runs, report_run):
    report.add_command(each)
