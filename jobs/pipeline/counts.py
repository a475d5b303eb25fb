"""Counts of a run, from the rows that it committed. Rows of failed task attempts are not committed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.before_spark import unled_error
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.publish.publish import Published
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import (
    FAILURES,
    RECORDED,
    CorruptDataError,
    TiersnapError,
    TransientError,
    UnfinishedError,
    failure,
    names_of,
)
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
from tiersnap.snapshot.gate.lost_ranges import lost_error
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.places import located
from tiersnap.snapshot.masking import masked_uri
from tiersnap.snapshot.replay.remote_listing import LostRange, place_error
from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY
from tiersnap.snapshot.tables.spark_made_tables import RUNS

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.totals import RunTotals

MOST_TOLD = 20
_FORGOTTEN = Rows(LostProducers).names
_ALL = 2**62  # rank of a replica that lost no producers, above every number of producers


def count_listed(outcome: RunOutcome, counts: RunTotals, listed: DataFrame) -> None:
    """Add an error for each partition whose remote segments could not be listed. The run does not tier it."""
    if _count_failures(outcome, counts):
        unanswered = listed.where("error is not null")
        few = unanswered.orderBy(*PARTITION_KEY).limit(MOST_TOLD).select("error", *RECORDED)
        outcome.errors += map(_failure, few.collect())


def count_replicas_without_producers(
    outcome: RunOutcome, count: int, replicas: DataFrame, collected: Collection[str]
) -> None:
    """Add the replicas that lost active producers, the worst first, each with the replica that should lead instead.

    The replica with the most active producers should lead. A replica is left out of this comparison if it comes from a
    collected folder, or if its remote segments could not be listed.

    Args:
        outcome: the counts to add to.
        count: number of replicas that lost producers.
        replicas: the listed partitions (schema LISTED).
        collected: URIs of the sources that are collected folders.
    """
    outcome.replicas_without_producers_count = count
    if not count:
        return
    is_checked = ~F.col("log_dir").isin(list(collected)) & F.col("error").isNull()
    knows = F.when(is_checked, F.coalesce("known", F.lit(_ALL)))
    best = F.max_by("log_dir", knows).alias("best"), F.count(knows).alias("count")
    found = replicas.where("known is not null")
    found = found.join(replicas.groupBy("topic", "partition").agg(*best), on=["topic", "partition"])
    lead = F.expr("if(count > 1, best, null)").alias("lead")
    worst = found.select("log_dir", "topic", "partition", *_FORGOTTEN, lead)
    worst = worst.orderBy(F.expr("living - known").desc(), "topic", "partition", "log_dir").limit(MOST_TOLD)
    outcome.replicas_without_producers = [ReplicaWithoutProducers(**row.asDict()) for row in worst.collect()]


def count_doubt(outcome: RunOutcome, doubted: str | None, place: str) -> None:
    """Record an error if the remote location lacks the start of a partition, and the run has no other error.

    If the run has another error, that error may have hidden remote segments.

    Args:
        outcome: the counts to add to.
        doubted: TOPIC-PARTITION; None if no partition lacks its start.
        place: URI of the remote location.
    """
    if doubted is not None and not outcome.error_count:
        outcome.errors.append(place_error(doubted, place))
        outcome.error_codes[outcome.errors[-1].exit_code] += 1


def count_lost(
    outcome: RunOutcome, count: int, listed: DataFrame, location: Sequence[str], collected: Collection[str]
) -> None:
    """Add an error for each partition whose remote log lacks offsets below the first local segment.

    Args:
        outcome: the counts to add to.
        count: number of these partitions.
        listed: the listed partitions (schema LISTED).
        location: the options of the remote location, as words of a command.
        collected: URIs of the sources that are collected folders; a printed command does not name them.
    """
    if not count:
        return
    outcome.lost_count = count
    outcome.error_codes[CorruptDataError.exit_code] += count
    few = listed.where(F.size("lost") > 0).orderBy(*PARTITION_KEY).limit(MOST_TOLD)
    for row in few.select(*PARTITION_KEY, "lost").collect():
        log_dir = "" if row.log_dir in collected else masked_uri(row.log_dir)
        lost = [LostRange(*each) for each in row.lost]
        outcome.errors.append(lost_error(f"{row.topic}-{row.partition}", lost, location, log_dir))


def count_unled(outcome: RunOutcome, unled: DataFrame) -> None:
    """Add an error for each partition in `unled`. The run skips it, because its leader's replica is unknown."""
    leader = F.when(F.col("leader") < 0, -1).otherwise(F.col("leader") * 0).alias("leader")
    counts = unled.groupBy(leader).count().collect()
    for row in counts:
        outcome.error_codes[unled_error("", 0, row.leader).exit_code] += row["count"]
    if counts:
        few = unled.orderBy("topic", "partition").limit(MOST_TOLD).collect()
        outcome.errors += [unled_error(f"{row.topic}-{row.partition}", row.replica_count, row.leader) for row in few]


def count_swept(swept: DataFrame) -> tuple[int, int, str]:
    """Return the number of deleted objects, the number of partitions with a failure, and the first failure's text.

    Args:
        swept: rows of SweepTask.
    """
    why = F.when(F.col("failure").isNotNull(), F.concat_ws(": ", "partition", "failure"))
    sums = F.sum("objects").alias("objects"), F.count("failure").alias("failed"), F.min(why).alias("why")
    counts = swept.agg(*sums).collect()[0]
    return int(counts.objects or 0), int(counts.failed), counts.why or ""


def failures(is_error: Column) -> tuple[Column, ...]:
    """Return aggregates that count errors by kind. The aggregated rows must have the columns RECORDED.

    Args:
        is_error: condition that a row contains an error.
    """
    is_transient = F.coalesce("is_transient", F.lit(False))
    counts = [F.count_if(is_error).alias("errors"), F.count_if(is_error & is_transient).alias("transient")]
    for column, kind in FAILURES.items():
        is_of_kind = F.col("error_type").isin(*sorted(names_of(kind)))
        counts.append(F.count_if(is_error & ~is_transient & is_of_kind).alias(column))
    return tuple(counts)


def _count_failures(outcome: RunOutcome, counts: RunTotals | Row) -> bool:
    """Add counts of `failures` to `outcome.error_codes`. Return whether the counts contain an error."""
    by_code = Counter({TransientError.exit_code: counts.transient})
    by_code.update({kind.exit_code: getattr(counts, column) for column, kind in FAILURES.items()})
    by_code[UnfinishedError.exit_code] += counts.errors - by_code.total()
    outcome.error_codes += by_code
    return bool(counts.errors)


def _failure(row: Row) -> TiersnapError:
    return failure(row.error, is_transient=bool(row.is_transient), error_type=row.error_type, hint=row.hint)


def count_decoded(outcome: RunOutcome, segments: DataFrame, run: int, collected: Collection[str]) -> None:
    """Add the number and bytes of the segments that a run decoded.

    Args:
        outcome: the counts to add to.
        segments: the table.
        run: number of the run.
        collected: URIs of the sources that are collected folders; their bytes are not counted.
    """
    rows = segments.where((F.col("run") == run) & (F.col("part") == 0))
    size = F.when(~F.col("log_dir").isin(list(collected)), F.col("size_bytes")).otherwise(0)
    counts = rows.agg(F.count("*").alias("segments"), F.sum(size).alias("bytes")).collect()[0]
    outcome.counts = replace(outcome.counts, segments_decoded=counts.segments, bytes_decoded=counts.bytes or 0)


def count_replayed(outcome: RunOutcome, partitions: DataFrame, run: int) -> None:
    """Add the partitions, written snapshots and errors of a run's replays.

    Args:
        outcome: the counts to add to.
        partitions: the table.
        run: number of the run.
    """
    facts, is_written = partitions.where((F.col("run") == run) & ~F.col("has_ended")), F.col("written_by") == run
    counts = facts.agg(
        F.count_if(F.col("kind") == str(FactKind.REPLAYED)).alias("partitions"),
        F.count_if(is_written).alias("written"),
        F.count_if(is_written & F.col("is_mended")).alias("mended"),
        *failures(F.col("kind") == str(FactKind.ERROR)),
    ).collect()[0]
    outcome.partitions_replayed = counts.partitions
    outcome.counts = replace(outcome.counts, snapshots_written=counts.written, snapshots_mended=counts.mended)
    if _count_failures(outcome, counts):
        failed = facts.where(F.col("kind") == str(FactKind.ERROR)).orderBy(*PARTITION_KEY, "part").limit(MOST_TOLD)
        outcome.errors += map(_failure, failed.select("error", *RECORDED).collect())


def of_findings(findings: DataFrame) -> DataFrame:
    """Return `finding_kind` and `segments`, the number of findings of that kind.

    Args:
        findings: rows of the kind FINDING in the table `partitions`.
    """
    return findings.groupBy("finding_kind").agg(F.count("*").alias("segments"))


def count_findings(outcome: RunOutcome, counts: Sequence[Mapping[str, Any]], findings: DataFrame) -> None:
    """Add the current findings of the listed partitions. A finding of an earlier run is current until it is repaired.

    Args:
        outcome: the counts to add to.
        counts: rows of `of_findings(findings)`.
        findings: rows of the kind FINDING in the table `partitions`.
    """
    outcome.finding_count += sum(row["segments"] for row in counts)
    outcome.kinds |= {FindingKind(row["finding_kind"]) for row in counts}
    if counts:
        few = findings.orderBy(*PARTITION_KEY, "part").limit(MOST_TOLD)
        outcome.findings += map(finding_of, few.collect())


def count_tiered(outcome: RunOutcome, remote_log_segments: DataFrame, run: int) -> None:
    """Add the uploaded segments and the upload errors of a run.

    Args:
        outcome: the counts to add to.
        remote_log_segments: the table.
        run: number of the run.
    """
    rows = remote_log_segments.where((F.col("run") == run) & F.col("is_ours"))
    finished, has_failed = F.col("state") == SegmentState.COPY_SEGMENT_FINISHED.name, F.col("error").isNotNull()
    counts = rows.agg(
        F.count_if(finished & (F.col("object_bytes") > 0)).alias("segments"),
        F.count_if(finished & (F.col("object_bytes") == 0)).alias("finished"),
        F.sum(F.when(finished, F.col("object_bytes")).otherwise(0)).alias("bytes"),
        *failures(has_failed),
    ).collect()[0]
    outcome.counts = replace(outcome.counts, segments_uploaded=counts.segments, bytes_uploaded=counts.bytes or 0)
    outcome.copies_finished = counts.finished
    if _count_failures(outcome, counts):
        failed = rows.where(has_failed).orderBy("topic", "partition", "base_offset").limit(MOST_TOLD)
        outcome.errors += map(_failure, failed.select("error", *RECORDED).collect())


def count_published(outcome: RunOutcome, done: Published, *, apply: bool) -> None:
    """Add the result of publishing. If `apply` is False, the result is a plan, and no segment counts as published."""
    outcome.published = done
    if apply:
        outcome.counts = replace(outcome.counts, segments_published=len(done.segment_ids))
    add_errors(outcome, done.errors)


def finding_of(row: Row) -> Finding:
    """Return the Finding in a row that has the columns of Finding."""
    return Finding(FindingKind(row.finding_kind), row.path, row.position, row.message)


def add_errors(outcome: RunOutcome, errors: Sequence[TiersnapError]) -> None:
    """Count errors by exit code, and keep the first ones to print."""
    outcome.errors += errors[: max(0, MOST_TOLD - len(outcome.errors))]
    outcome.error_codes.update(each.exit_code for each in errors)


def row_of_runs(outcome: RunOutcome, settings: RunSettings, run: int, **kept: object) -> dict[str, object]:
    """Return the row of the table `runs` for a run that finishes now.

    Args:
        outcome: the counts.
        settings: the settings to store.
        run: number of the run.
        kept: further values to store in the column `settings`.
    """
    counts = {name: count for name, count in asdict(outcome.counts).items() if name in RUNS.names}
    kept_settings = {**settings.as_dict(), "remote": masked_uri(located(settings.remote)), **kept}
    return {
        "run": run,
        "run_id": settings.run_id,
        "tool": f"tiersnap {__version__}",
        "settings": json.dumps(kept_settings, default=str),
        "started_at": settings.now,
        "finished_at": int(time.time() * 1000),
        "partitions_replayed": outcome.partitions_replayed,
        **counts,
        "errors": outcome.error_count,
    }
