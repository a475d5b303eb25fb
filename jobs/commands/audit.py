"""`tiersnap audit`: what the headers of batches say of exactly-once, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import click
from msgspec import UNSET, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.commands.decode import DamageCount, LegacyCount, damage_counts, of_damage
from tiersnap.jobs.pipeline.spark_options import SparkRequest, spark_options
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.report.exactly_once import AuditRow
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.units import count_of, utc

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.audit.job import AuditOutcome


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A finding of `audit`: a row of the table `audit_findings`, which docs/warehouse.md explains."""

    COLUMNS: ClassVar = (
        *("kind", "harm", "judgement", "confidence", "rule", "topic", "partition", "time", "producer_id"),
        *("before_epoch", "producer_epoch", "transactional_id", "before_last_offset", "first_offset"),
        *("before_last_sequence", "first_sequence", "distance", "batches", "segment_file", "position"),
    )
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
        """Return `timestamp` in ISO 8601."""
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
    """Counts of all findings, shown or not; `findings` of the result is what is wrong with the log directories."""

    findings_by_kind: dict[str, int]
    findings_by_harm: dict[str, int]
    damage_count: DamageCount | UnsetType = UNSET
    legacy_count: LegacyCount | UnsetType = UNSET


@command(AuditFinding, summary=AuditSummary)
@click.option("--source", "sources", multiple=True, help="A log directory to decode now: path, file:, s3: or hdfs:.")
@click.option(
    "--warehouse",
    help="Folder of Delta tables: audit the table record_batches that `tiersnap decode` wrote.  [default: "
    "tiersnap-warehouse, without --source]",
)
@click.option("--to", help="Warehouse to whose table audit_findings all findings are appended.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Findings to print, the worst first."
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
    """Say where a log breaks exactly-once: duplicates, gaps, zombies, holes; by headers alone, no key and no value.

    tiersnap audit --source /var/lib/kafka/data
    tiersnap audit --source /var/lib/kafka/data --topic orders --to page

    One row a finding, with the offsets on both sides, the number of the rule, and a judgement: whether records are
    lost, or a broker only forgot a producer that retention or expiry took from it. Exit code 5 if any finding says
    that records were lost or doubled, that a fenced producer or coordinator wrote, or that a transaction holds what is
    not its own; and where a log is damaged, for nothing is known of what lies behind.
    """
    from tiersnap.jobs.pipeline.audit.job import AuditSettings
    from tiersnap.jobs.pipeline.audit.job import audit as audit_headers
    from tiersnap.jobs.pipeline.session import LONG_WORK
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.places import located, places_of

    if sources and warehouse is not None:
        raise UsageError("--source and --warehouse are two inputs: give one", hint="--to says where findings go")
    settings = AuditSettings(
        sources=places_of(sources),
        warehouse=None if sources else located(warehouse or "tiersnap-warehouse"),
        to=None if to is None else located(to),
        topic=topic,
        check_crc=check_crc,
        producer_expiration=producer_expiration,
        limit=limit,
        stores=stores,
    )
    done = audit_headers(partial(spark.session, java_options=LONG_WORK), settings)
    summary = AuditSummary(done.counts, done.harms, *damage_counts(done.damage))
    output.rows(AuditFinding, Rows(AuditFinding).read_dicts(done.rows), summary=summary, findings=done.damage.findings)
    output.talk(*of_damage(done.damage), *_lines(done))
    return exit_code_of(done.problems())


def _lines(done: AuditOutcome) -> Iterator[str]:
    total, shown, unread, unknown = done.total, len(done.rows), done.unread, done.unknown_partitions
    if not (total or done.damage.counts or done.cut_segments):
        yield "no findings"
    if total > shown:
        yield f"{count_of(total - shown, 'finding')} more: --limit {total} prints them, --to URI keeps them"
    if unread:
        lie = count_of(unread, "finding lies", "findings lie")
        yield f"{lie} where nothing was decoded: tiersnap scan LOGDIR --segments says why"
    if done.cut_segments:
        were = count_of(done.cut_segments, "segment was", "segments were")
        yield (
            f"{were} decoded in part, nothing is known of what lies behind: tiersnap decode --source LOGDIR says why"
        )
    if unknown:
        yield (
            f"{count_of(unknown, 'partition is', 'partitions are')} taken as not compacted and whole, for no run has "
            "replayed them; tiersnap audit --source LOGDIR looks at the disk"
        )
