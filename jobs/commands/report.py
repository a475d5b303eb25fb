"""`tiersnap report`: print the verdicts in a warehouse, and write the readiness report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.option_types import LocalPath, clock
from tiersnap.jobs.cli.options import now_option, warehouse_option
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.sentences import ForPeople, print_replicas_without_producers
from tiersnap.snapshot.gate.next_steps import REMOVE_ORPHANS
from tiersnap.snapshot.gate.printed_steps import text
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers
from tiersnap.snapshot.report.model import PagePartition, PageTopic, Report, Totals
from tiersnap.snapshot.report.run_info import RunInfo, without_user
from tiersnap.snapshot.report.step_place import place_of, segment_file
from tiersnap.snapshot.tables.segment_verdict import SegmentVerdict
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1 << 14
GRAINS = ("segment", "partition", "topic")


@dataclass(frozen=True, kw_only=True)
class _Topic:
    topic: str
    partitions: int


@dataclass(frozen=True, kw_only=True)
class _Partition:
    name: str
    log_dir: str
    topic: str
    partition: int
    topic_id: str | None


@dataclass(frozen=True, kw_only=True)
class _Totals(Totals):
    size: ForPeople
    tiered: ForPeople
    uploaded: ForPeople
    ready: ForPeople
    waiting: ForPeople


def _totals_of(totals: Totals) -> dict[str, Any]:
    """Return the fields of _Totals by name: numbers, and sizes as text."""
    found = {each.name: getattr(totals, each.name) for each in dataclasses.fields(Totals)}
    found["size"] = human_bytes(totals.bytes)
    for name in ("tiered", "uploaded", "ready", "waiting"):
        found[name] = human_bytes(found[f"{name}_bytes"])
    return found


@dataclass(frozen=True, kw_only=True)
class ReportedTopic(_Totals, _Topic):
    """A topic of `report --by topic`."""

    COLUMNS: ClassVar = (
        "topic",
        "worst",
        "partitions",
        "segments",
        "size",
        "tiered",
        "uploaded",
        "ready",
        "waiting",
        "findings",
    )


@dataclass(frozen=True, kw_only=True)
class ReportedPartition(_Totals, _Partition):
    """A partition of `report`."""

    COLUMNS: ClassVar = (
        *("name", "worst", "segments", "size", "tiered", "uploaded", "waiting", "blocked_at", "reason", "next_step"),
    )
    log_start_offset: int
    last_stable_offset: int | None
    high_watermark: int | None
    blocked_at: Annotated[int | None, Meta(description="base offset of the first waiting segment")]
    blocked_by: Verdict | None
    reason: str | None
    next_step: str | None


SEGMENT_COLUMNS = ("name", "base_offset", "size_bytes", "verdict", "snapshot", "reason", "next_step")


def topic_row(topic: PageTopic) -> ReportedTopic:
    """Return the row for `report --by topic`."""
    return ReportedTopic(topic=topic.topic, partitions=len(topic.partitions), **_totals_of(topic))


def partition_row(partition: PagePartition) -> ReportedPartition:
    """Return the row for `report --by partition`, with the first blocked segment."""
    blocked_at, blocked_by, reason, next_step = None, None, None, None
    for first in partition.blocking[:1]:
        blocked_at, blocked_by, reason, next_step = first.base_offset, first.verdict, first.reason, first.next_step
    return ReportedPartition(
        name=partition.name,
        log_dir=partition.log_dir,
        topic=partition.topic,
        partition=partition.partition,
        topic_id=partition.topic_id,
        **_totals_of(partition),
        log_start_offset=partition.log_start_offset,
        last_stable_offset=partition.last_stable_offset,
        high_watermark=partition.high_watermark,
        blocked_at=blocked_at,
        blocked_by=blocked_by,
        reason=reason,
        next_step=next_step,
    )


def shown_segment(segment: SegmentVerdict, run: RunInfo) -> SegmentVerdict:
    """Return the verdict for output: mask secrets, and insert the locations of the run into the next step."""
    log_dir = without_user(segment.log_dir)
    on_host = run.collected.get(log_dir, log_dir)
    file = segment_file(on_host, segment.topic, segment.partition, segment.segment.base_offset)
    steps = place_of(run, (on_host,)).beside(file).steps(segment.judgement.verdict)
    judgement = dataclasses.replace(segment.judgement, next_step=text(steps))
    return dataclasses.replace(segment, log_dir=log_dir, judgement=judgement)


@dataclass(frozen=True)
class ReportSummary:
    """Incomplete or redundant remote segments, and replicas without producers."""

    unneeded_copies: list[str] | UnsetType = UNSET
    replicas_without_producers: Annotated[
        list[ReplicaWithoutProducers] | UnsetType,
        Meta(description="replicas that lost active producers, as the last runs found them"),
    ] = UNSET


@command(ReportedPartition, ReportedTopic, SegmentVerdict, summary=ReportSummary)
@warehouse_option
@click.option("--source", help="Source to name in the printed commands.  [default: the source of the last run]")
@click.option(
    "--remote", help="Remote location to name in the printed commands.  [default: the location of the last run]"
)
@click.option(
    "--by", "grain", type=click.Choice(GRAINS), default="partition", show_default=True, help="What each row describes."
)
@click.option("--to", "folder", type=LocalPath(file_okay=False), help="Write the page, JSON and CSV to this folder.")
@now_option
def report(
    output: Output,
    warehouse: str,
    source: str | None,
    remote: str | None,
    grain: str,
    folder: Path | None,
    now: int,
) -> int:
    """Show the verdict of every segment, the reason, and the next command. Needs no Java.

    tiersnap report --warehouse s3://lake/tiersnap
    tiersnap report --warehouse s3://lake/tiersnap --by segment --output jsonl
    tiersnap report --warehouse s3://lake/tiersnap --to page

    The verdicts are the newest rows of the table readiness, as the last run wrote them. The exit code follows the
    verdicts, the findings and the replicas without producers, as in `tiersnap scan`.
    """
    import pyarrow as pa

    from tiersnap.jobs.cli.delta_tables import (
        audit,
        copies,
        failover,
        findings,
        last_run,
        readiness,
        remote_checks,
        waiting_trend,
    )
    from tiersnap.jobs.telemetry.host_report import disks_below
    from tiersnap.snapshot.gate.exit_code import OtherProblem, exit_code_of
    from tiersnap.snapshot.gate.verdict import problems_of
    from tiersnap.snapshot.report.exactly_once import ExactlyOnce
    from tiersnap.snapshot.report.model import with_remote_checks
    from tiersnap.snapshot.report.summary import summarise
    from tiersnap.snapshot.report.write import write_report
    from tiersnap.snapshot.tables.readiness import READINESS
    from tiersnap.snapshot.tables.remote_log_segments import unneeded

    last = last_run(warehouse)
    rows = pa.Table.from_batches(readiness(warehouse), schema=READINESS)
    info = last.info(warehouse, source, remote, at=clock(), now=now)
    info = dataclasses.replace(info, disks=disks_below(set(info.sources) - set(info.collected)))
    summary = summarise(rows, info)
    left = list(map(str, unneeded(copies(warehouse))))
    replicas_without_producers = last.settings.replicas_without_producers
    members = None
    if left or replicas_without_producers:
        members = ReportSummary(left or UNSET, list(replicas_without_producers) or UNSET)
    if grain == "segment":
        output.rows(SegmentVerdict, _segments(rows, info), columns=SEGMENT_COLUMNS, summary=members)
    else:
        _show_topics(output, summary, members, by_partition=grain == "partition")
    place = place_of(info)
    print_replicas_without_producers(output, replicas_without_producers, place)
    if left:
        output.talk(
            f"{count_of(len(left), 'remote segment is', 'remote segments are')} incomplete or redundant. Remove those "
            f"that no cluster references: {place.text(REMOVE_ORPHANS)}"
        )
    if folder is not None:
        summary = with_remote_checks(summary, remote_checks(warehouse))
        summary = dataclasses.replace(
            summary, replicas_without_producers=replicas_without_producers, trend=waiting_trend(warehouse)
        )
        write_report(summary, folder, ExactlyOnce(audit(warehouse), failover(warehouse)))
        output.talk(f"wrote {folder}/index.html, readiness.json, readiness.csv and the files that they link to")
    verdicts = {verdict: count.segments for verdict, count in summary.cluster.verdicts.items()}
    without_producers = [OtherProblem.REPLICA_WITHOUT_PRODUCERS] * len(replicas_without_producers)
    return exit_code_of([*problems_of(verdicts), *findings(warehouse), *without_producers])


def _show_topics(output: Output, report: Report, members: ReportSummary | None, *, by_partition: bool) -> None:
    if by_partition:
        partitions = chain.from_iterable(topic.partitions for topic in report.topics)
        output.rows(ReportedPartition, map(partition_row, partitions), summary=members)
    else:
        output.rows(ReportedTopic, map(topic_row, report.topics), summary=members)


def _segments(rows: pa.Table, info: RunInfo) -> Iterator[SegmentVerdict]:
    """Yield the verdicts in the order of topic, log directory, partition and base offset."""
    from tiersnap.snapshot.tables.readiness import VERDICTS

    by_offset = rows.sort_by([(column, "ascending") for column in ("topic", "log_dir", "partition", "base_offset")])
    run = info.without_secrets()
    for segment in VERDICTS.read(by_offset.to_batches(_BATCH_ROWS)):
        yield shown_segment(segment, run)
