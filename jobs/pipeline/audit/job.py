"""The job of `tiersnap audit`. It audits the table `record_batches`, or decodes log directories itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import decoding, listing, schemas
from tiersnap.jobs.pipeline.audit import partitions as of_partitions
from tiersnap.jobs.pipeline.audit.audit import audit as audit_batches
from tiersnap.jobs.pipeline.audit.audit import worst_first
from tiersnap.jobs.pipeline.audit.batches import newest_decode
from tiersnap.jobs.pipeline.audit.transactional_ids import transactional_ids
from tiersnap.jobs.pipeline.batches import DecodeBatches, cut_segments, every_segment, known_segments, unread_segments
from tiersnap.jobs.pipeline.before_spark import Discovered, Session, discover, started
from tiersnap.jobs.pipeline.cached import Keep, kept
from tiersnap.jobs.pipeline.damage import Damage, damage
from tiersnap.jobs.pipeline.decoding import work_of
from tiersnap.jobs.pipeline.grouping import of_topics
from tiersnap.jobs.pipeline.listing import ListPartitions
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.jobs.pipeline.session import spoken
from tiersnap.jobs.pipeline.settings import JobSettings
from tiersnap.jobs.pipeline.warehouse import Warehouse, lacks_table
from tiersnap.snapshot.errors import SourceNotFoundError, UsageError
from tiersnap.snapshot.exactly_once.models.audit_rules import UNREAD, Harm
from tiersnap.snapshot.formats.transaction_state import TOPIC
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.gate.next_steps import decode_into

_FINDINGS, _AUDITS = "audit_findings", "audits"
_BATCHES = "record_batches"
# A function that appends the rows to the table of that name.
Append = Callable[[str, DataFrame], None]


@dataclass(frozen=True)
class AuditSettings(JobSettings):
    """The settings of `tiersnap audit`."""

    sources: tuple[str, ...] = ()  # log directories to decode; empty to audit the table record_batches
    warehouse: str | None = None  # URI of the warehouse with the table record_batches; None if `sources` are given
    to: str | None = None  # URI of the warehouse to write audits and audit_findings to; None to write nothing
    topic: re.Pattern[str] | None = None  # matches complete topic names; None for all topics
    producer_expiration: int | None = None  # ms, the broker's producer.id.expiration.ms; None for no expiration
    limit: int = 100  # number of findings to return, the worst first
    now: int = field(default_factory=lambda: int(time.time() * 1000))  # ms since the epoch


@dataclass
class AuditOutcome:
    """The worst findings of an audit, and counts of all findings."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # the worst findings: AUDIT_FINDINGS columns except `run`
    counts: dict[str, int] = field(default_factory=dict)  # number of findings by kind
    harms: dict[str, int] = field(default_factory=dict)  # number of findings by harm
    unread: int = 0  # number of findings about offsets that were not decoded
    cut_segments: int = 0  # warehouse only: segments whose rows end before the end of the file
    unknown_partitions: int = 0  # warehouse only: no run replayed them, so it is unknown whether they are compacted
    # Log directories only. The batches after a damaged position in a segment were not audited.
    damage: Damage = field(default_factory=Damage)

    @property
    def total(self) -> int:
        """Return the number of findings of all kinds."""
        return sum(self.counts.values())

    def problems(self) -> Iterator[Problem]:
        """Yield the problems from which the exit code follows."""
        yield from self.damage.kinds
        if self.harms.keys() - {Harm.NONE}:
            yield OtherProblem.BROKEN_EXACTLY_ONCE
        if self.cut_segments:
            yield OtherProblem.CUT_SEGMENT


def audit(spark: SparkSession | Session, settings: AuditSettings) -> AuditOutcome:
    """Audit, and return the worst findings. If `settings.to` names a warehouse, write all findings to it.

    `spark` is a session, or a function that starts one. The function is called after the sources were found.

    Raises:
        SourceNotFoundError: a source does not exist, or the warehouse has no table `record_batches`.
        NotALogDirError: a source is no log directory.
        UsageError: a source is a folder that `tiersnap collect` wrote.
        TransientError: another run writes to the warehouse `settings.to`.
    """
    found = _discovered(settings)
    with spoken("audit"), only_run(settings.to, settings.run_id, settings.stores) as check, kept() as keep:
        spark = started(spark)
        run, append = _numbered(spark, settings, check)
        return _audit(spark, settings, found, keep, run, append)


@dataclass(frozen=True)
class _Read:
    """The inputs of `audit_batches`. The DataFrame `damaged` has one row (PARTITION_KEY) per damaged position."""

    batches: DataFrame
    partitions: DataFrame
    segments: DataFrame
    ids: DataFrame
    damaged: DataFrame


def _discovered(settings: AuditSettings) -> Discovered | None:
    """Return the partitions of the sources; None if a table is audited."""
    if not settings.sources:
        if lacks_table(warehouse := settings.warehouse or "", _BATCHES):
            raise _no_batches(warehouse)
        return None
    found = discover(settings.sources, settings.topic)
    for uri in found.collected:
        raise UsageError(
            f"{uri}: tiersnap collect wrote this folder without segments, but the audit reads segments",
            hint="run the audit on the broker's host: tiersnap audit --source LOGDIR",
        )
    return found


def _no_batches(warehouse: str) -> SourceNotFoundError:
    return SourceNotFoundError(
        f"{warehouse}: this warehouse has no table {_BATCHES}",
        hint=decode_into(warehouse),
    )


def _audit(
    spark: SparkSession, settings: AuditSettings, found: Discovered | None, keep: Keep, run: int, append: Append
) -> AuditOutcome:
    outcome = AuditOutcome()
    if found is None:
        read = _of_table(spark, settings, keep, outcome)
    else:
        read = _of_sources(spark, settings, found, keep, outcome)
    expiration = settings.producer_expiration
    known = (read.batches, read.partitions, read.segments, read.ids)
    with audit_batches(*known, run=run, expiration=expiration) as audited:
        findings = keep(audited.findings)
        _tell(findings, settings.limit, outcome)
        if outcome.total:
            append(_FINDINGS, findings)
        # The rows of audits are appended last: findings without them prove that the audit was killed.
        listed_at = of_partitions.with_damage(audited.partitions, read.damaged)
        at = F.lit(settings.now).alias("audited_at")
        append(_AUDITS, listed_at.select("*", F.lit(run).cast("long").alias("run"), at))
    return outcome


def _tell(found: DataFrame, limit: int, outcome: AuditOutcome) -> None:
    for row in found.groupBy("kind", "harm", "judgement").count().collect():
        outcome.counts[row.kind] = outcome.counts.get(row.kind, 0) + row["count"]
        outcome.harms[row.harm] = outcome.harms.get(row.harm, 0) + row["count"]
        if row.judgement == UNREAD:
            outcome.unread += row["count"]
    if outcome.total:
        worst = worst_first(found.drop("run")).limit(limit)
        outcome.rows = [row.asDict() for row in worst.collect()]


def _of_sources(
    spark: SparkSession, settings: AuditSettings, found: Discovered, keep: Keep, outcome: AuditOutcome
) -> _Read:
    listed = keep(listing.list_partitions(listing.folders(spark, found.folders), ListPartitions()))
    wanted = every_segment(listed)
    task = DecodeBatches(settings.check_crc, run=0)
    # The audit reads the headers several times. They are a small part of a log, so decode them once and cache them.
    rows = keep(decoding.decode(wanted, task, work_of(wanted), schema=schemas.TABLES[_BATCHES]))
    unread = unread_segments(wanted, known_segments(rows))
    of_logs, damaged = damage(listed, unread, keep, check_crc=settings.check_crc)
    outcome.damage = of_logs.behind(found.findings)
    # __transaction_state is read for every audit, because it has the transactional id of each producer id.
    states = discover(settings.sources, re.compile(TOPIC), may_be_none=True).folders
    ids = transactional_ids(spark, states, check_crc=settings.check_crc)
    segments = listing.listed_segments(listed)
    return _Read(rows, of_partitions.of_listing(listed), segments, ids, damaged)


def _of_table(spark: SparkSession, settings: AuditSettings, keep: Keep, outcome: AuditOutcome) -> _Read:
    warehouse = Warehouse(spark, settings.warehouse or "")
    if not warehouse.exists(_BATCHES):
        raise _no_batches(warehouse.uri)
    decoded = of_topics(warehouse.read(_BATCHES), settings.topic)
    known = keep(known_segments(decoded))
    rows = newest_decode(decoded, known)
    cut = cut_segments(known)
    outcome.cut_segments = cut.count()
    facts = warehouse.read("partitions")
    partitions = keep(of_partitions.of_facts(facts, rows))
    outcome.unknown_partitions = partitions.where("not is_known").count()
    ids = transactional_ids(spark, (), check_crc=settings.check_crc)
    return _Read(rows, partitions, of_partitions.segments_of_facts(facts), ids, cut)


def _numbered(spark: SparkSession, settings: AuditSettings, check: Callable[[], None]) -> tuple[int, Append]:
    """Return the number of this audit and a function that appends rows; 0 and a no-op if nothing is written."""
    if settings.to is None:
        return 0, lambda _table, _rows: None
    warehouse = Warehouse(spark, settings.to, check)
    runs = warehouse.read(_FINDINGS).select("run").unionByName(warehouse.read(_AUDITS).select("run"))
    last = runs.agg(F.max("run").alias("run")).collect()[0].run
    return (last or 0) + 1, lambda table, rows: warehouse.append(table, rows, run_id=settings.run_id)
