"""`tiersnap audit`: find violations of exactly-once in batch headers, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import UNSET, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.output import Output, Paragraph
from tiersnap.jobs.commands.decode import DamageCount, LegacyCount, damage_counts, of_damage
from tiersnap.jobs.pipeline.spark_options import SparkRequest, spark_options
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind
from tiersnap.snapshot.members import members
from tiersnap.snapshot.report.exactly_once import AuditRow
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.units import count_of, utc

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.audit.job import AuditOutcome


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A finding of `audit`. docs/warehouse.md explains the fields, which are columns of the table `audit_findings`."""

    log_dir: str
    finding: AuditRow
    rule: str
    producer_epoch: int | None
    before_epoch: int | None
    before_first_offset: int | None
    before_first_sequence: int | None
    before_last_sequence: int | None
    first_sequence: int | None
    last_sequence: int | None
    distance: int | None
    is_same: bool | None
    batches: int
    confidence: str | None
    before_producer_id: int | None
    transactional_id: str | None
    segment_base_offset: int | None
    position: int | None
    timestamp: int | None

    @property
    def time(self) -> str | None:
        """Return `timestamp` in ISO 8601, UTC."""
        return utc(self.timestamp)

    @property
    def segment_file(self) -> str | None:
        """Return the path of the segment's log file."""
        if self.segment_base_offset is None:
            return None
        folder = f"{self.finding.topic}-{self.finding.partition}"
        return f"{self.log_dir}/{folder}/{self.segment_base_offset:020d}.log"


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """Counts of all findings, including findings beyond --limit."""

    findings_by_kind: dict[str, int]
    findings_by_harm: dict[str, int]
    damage_count: DamageCount | UnsetType = UNSET
    legacy_count: LegacyCount | UnsetType = UNSET


# A sentence for each kind of finding. `before` and `after` are the offsets of the earlier and the later batch.
_SAID: dict[AuditKind, str] = {
    AuditKind.DUPLICATE_EXACT: "The batch at {before} is in the log again at {after}.",
    AuditKind.DUPLICATE_PARTIAL: (
        "The batch at {after} repeats records of earlier batches. The earlier batches end at {before}."
    ),
    AuditKind.DUPLICATE_RENUMBERED: (
        "The records of producer {before_producer_id} at {before} are in the log again at {after} "
        "(confidence {confidence})."
    ),
    AuditKind.BACKWARD: "The batch at {after} begins at sequence {first_sequence}, although the producer had "
    "already reached sequence {before_last_sequence}.",
    AuditKind.SEQUENCE_RESET: "The batch at {after} begins at sequence 0 again, although the producer had already "
    "reached sequence {before_last_sequence}.",
    AuditKind.GAP: (
        "{distance} sequences are missing before {after}: the batch at {before} ends with sequence "
        "{before_last_sequence}, and the later batch begins with {first_sequence}."
    ),
    AuditKind.BUMP_NONZERO: (
        "The first batch of epoch {producer_epoch}, at {after}, begins at sequence {first_sequence}."
    ),
    AuditKind.FIRST_WRITE_LOST: "The producer's first batch, at {after}, begins at sequence {first_sequence}.",
    AuditKind.EPOCH_REGRESSION: "The batch at {after} has epoch {producer_epoch}, although the producer had already "
    "reached epoch {before_epoch}.",
    AuditKind.ZOMBIE_WRITE: "The batch at {after} has epoch {producer_epoch}, although the marker at {before} had "
    "ended that epoch.",
    AuditKind.ZOMBIE_MARKER: "The marker at {after} belongs to a fenced producer or coordinator.",
    AuditKind.NON_TRANSACTIONAL_IN_TRANSACTION: (
        "The batch at {after} is not transactional, although its producer has an open transaction."
    ),
    AuditKind.EPOCH_RAISED_IN_TRANSACTION: "The batch at {after} raises the producer epoch, although a transaction "
    "of the producer is open.",
    AuditKind.OFFSET_GAP: "{distance} offsets are missing before {after}.",
    AuditKind.FENCED: "A coordinator aborted the producer's transaction. A new instance of the producer continues "
    "at {after}.",
    AuditKind.OPEN_TRANSACTION: "The transaction that began at offset {first_offset} is open at the end of the log.",
    AuditKind.OUT_OF_ORDER_TIMESTAMPS: (
        "The batch at {after} is {distance} ms older than the previous batch of its producer; batches out of order: "
        "{batches}."
    ),
    AuditKind.LOG_START_WENT_BACK: (
        "The log starts at offset {first_offset}. In an earlier leader epoch another replica's log started at "
        "{before_first_offset}, which is higher."
    ),
}


def _paragraph(row: AuditFinding) -> Paragraph:
    """Return a finding as text, with the file of its batch and the position in the file."""
    found = row.finding
    heading = f"{found.harm} {found.kind} {found.topic}-{found.partition}"
    if found.producer_id is not None:
        heading += f", producer {found.producer_id} epoch {row.producer_epoch}"
    if row.transactional_id:
        heading += f" ({row.transactional_id})"
    places = {
        "before": _place(row.before_first_offset, found.before_last_offset),
        "after": _place(found.first_offset, found.last_offset),
    }
    said = _SAID[AuditKind(found.kind)].format(**members(row), **places)
    if found.judgement:
        said += f" {found.judgement}."
    if row.segment_file is not None:
        said += f" {row.segment_file}, byte {row.position}, {row.time}."
    return Paragraph(heading, said)


def _place(first: int | None, last: int | None) -> str:
    """Return the offsets `first` to `last` (inclusive) as text."""
    if first is None:
        return f"offset {last}"
    if last is None or first == last:
        return f"offset {first}"
    return f"offsets {first} to {last}"


@command(AuditFinding, summary=AuditSummary)
@click.option(
    "--source", "sources", multiple=True, help="Log directory to decode: a path, file:, s3: or hdfs:; repeatable."
)
@click.option(
    "--warehouse",
    help="Folder of Delta tables. audit reads the table record_batches, which `tiersnap decode` wrote.  [default "
    "without --source: tiersnap-warehouse]",
)
@click.option("--to", help="Append all findings to the table audit_findings of this warehouse.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Number of findings to print, the worst first.",
)
@opt.topic_option
@opt.crc_option
@opt.producer_expiration_option
@opt.store_options
@spark_options
def audit(
    output: Output,
    sources: tuple[str, ...],
    warehouse: str | None,
    to: str | None,
    limit: int,
    topic: opt.TopicPattern,
    check_crc: bool,
    producer_expiration: int | None,
    stores: opt.StoreSettings,
    spark: SparkRequest,
) -> int:
    """List violations of exactly-once: duplicates, gaps, zombies and holes. Read batch headers, no keys or values.

    tiersnap audit --source /var/lib/kafka/data
    tiersnap audit --source /var/lib/kafka/data --topic orders --to page

    A finding has the offsets of the one or two batches that it is about, the number of the rule, and a judgement. The
    judgement shows whether records were lost, or whether a broker only dropped an old producer after retention or
    expiration.

    The exit code is 5 if records are lost or duplicated, if a fenced producer or coordinator wrote, if a producer with
    an open transaction wrote non-transactional records, or if a log is damaged. Records after the damage are not
    audited.
    """
    from tiersnap.jobs.pipeline.audit.job import AuditSettings
    from tiersnap.jobs.pipeline.audit.job import audit as audit_headers
    from tiersnap.jobs.pipeline.session import LONG_WORK
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.places import located, places_of

    if sources and warehouse is not None:
        raise UsageError(
            "--source and --warehouse both name an input: give only one", hint="--to names the warehouse for the output"
        )
    tables = None
    if not sources:
        tables = located(warehouse or "tiersnap-warehouse")
    settings = AuditSettings(
        sources=places_of(sources),
        warehouse=tables,
        to=None if to is None else located(to),
        topic=topic,
        check_crc=check_crc,
        producer_expiration=producer_expiration,
        limit=limit,
        stores=stores,
    )
    done = audit_headers(partial(spark.session, java_options=LONG_WORK), settings)
    summary = AuditSummary(done.counts, done.harms, *damage_counts(done.damage))
    output.rows(
        AuditFinding,
        Rows(AuditFinding).read_dicts(done.rows),
        paragraph=_paragraph,
        summary=summary,
        findings=done.damage.findings,
    )
    output.talk(*of_damage(done.damage), *_lines(done))
    return exit_code_of(done.problems())


def _lines(done: AuditOutcome) -> Iterator[str]:
    total, shown, unread, unknown = done.total, len(done.rows), done.unread, done.unknown_partitions
    if not (total or done.damage.counts or done.cut_segments):
        yield "no findings"
    if total > shown:
        yield f"{count_of(total - shown, 'finding')} more: --limit {total} prints them, --to URI stores them in a table"
    if unread:
        are = count_of(unread, "finding is", "findings are")
        yield f"{are} about segments that were not decoded; to see why: tiersnap scan LOGDIR --segments"
    if done.cut_segments:
        were = count_of(done.cut_segments, "segment was", "segments were")
        yield f"{were} decoded and audited only in part; to see why: tiersnap decode --source LOGDIR"
    if unknown:
        yield (
            f"{count_of(unknown, 'partition is', 'partitions are')} assumed to be complete and not compacted, "
            "because no run has replayed them; to read the log directory instead: tiersnap audit --source LOGDIR"
        )
