"""What a run did, counted in the rows that it committed: attempts of tasks that were lost are not among them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import failure, names_of_damage
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, RUNS

MOST_TOLD = 20


def count_unanswered(outcome: RunOutcome, listed: DataFrame) -> None:
    """Add the partitions of LISTED rows of which nobody knows what remote storage holds: nothing of them is tiered."""
    unanswered = listed.where("remote_error is not null")
    counts = unanswered.agg(F.count("*").alias("errors"), F.every("is_transient").alias("is_transient")).collect()[0]
    if not counts.errors:
        return
    outcome.error_count += counts.errors
    outcome.is_transient &= counts.is_transient
    few = unanswered.orderBy(*PARTITION_KEY).limit(MOST_TOLD).select("remote_error", "is_transient")
    outcome.errors += [failure(row.remote_error, is_transient=row.is_transient) for row in few.collect()]


def count_carried(outcome: RunOutcome, partitions: DataFrame, run: int) -> None:
    """Add what the carry of run number `run` wrote and found, by its rows in the table `partitions`."""
    facts = partitions.where(F.col("run") == run)
    counts = facts.agg(
        F.count_if(F.col("written_by") == run).alias("written"),
        F.count_if(F.col("kind") == str(FactKind.FINDING)).alias("findings"),
        F.count_if(F.col("kind") == str(FactKind.ERROR)).alias("errors"),
        F.every(F.coalesce("is_transient", F.lit(True))).alias("is_transient"),
    ).collect()[0]
    outcome.counts.snapshots_written = counts.written
    outcome.finding_count += counts.findings
    outcome.error_count += counts.errors
    outcome.is_transient &= counts.is_transient
    if not counts.findings and not counts.errors:
        return
    kinds = [str(FactKind.FINDING), str(FactKind.ERROR)]
    few = facts.where(F.col("kind").isin(kinds)).orderBy(*PARTITION_KEY, "kind", "part").limit(2 * MOST_TOLD)
    for row in few.select("kind", "finding_kind", "path", "position", "message", "is_transient").collect():
        if row.kind == FactKind.ERROR:
            outcome.errors.append(failure(row.message, is_transient=bool(row.is_transient)))
        else:
            outcome.findings.append(Finding(FindingKind(row.finding_kind), row.path, row.position, row.message))


def count_tiered(outcome: RunOutcome, remote_log_segments: DataFrame, run: int) -> None:
    """Add what run number `run` tiered, by its rows in the table `remote_log_segments`."""
    rows = remote_log_segments.where((F.col("run") == run) & F.col("is_ours"))
    finished = F.col("state") == SegmentState.COPY_SEGMENT_FINISHED.name
    counts = rows.agg(
        F.count_if(finished & (F.col("bytes") > 0)).alias("segments"),
        F.sum(F.when(finished, F.col("bytes")).otherwise(0)).alias("bytes"),
        F.count_if(F.col("error").isNotNull()).alias("errors"),
        F.every(F.coalesce("is_transient", F.lit(True)) | F.col("error").isNull()).alias("is_transient"),
        F.count_if(F.col("error_type").isin(*sorted(names_of_damage()))).alias("damaged"),
    ).collect()[0]
    outcome.counts.segments_tiered, outcome.counts.bytes_tiered = counts.segments, counts.bytes
    outcome.error_count += counts.errors
    if counts.errors:
        outcome.is_transient &= counts.is_transient
        outcome.is_damaged |= counts.damaged > 0
        failed = rows.where("error is not null").orderBy("topic", "partition", "start_offset").limit(MOST_TOLD)
        outcome.errors += [
            failure(row.error, is_transient=bool(row.is_transient), error_type=row.error_type, hint=row.hint)
            for row in failed.select("error", "is_transient", "error_type", "hint").collect()
        ]


def row_of_runs(outcome: RunOutcome, settings: RunSettings, run: int, collected: Mapping[str, str]) -> pa.Table:
    """The run's one row of the table `runs`.

    Args:
        collected: log directories by the URI of the collected source that has their decodes.
    """
    counts = {name: count for name, count in asdict(outcome.counts).items() if name in RUNS.names}
    row = {
        "run": run,
        "run_id": settings.run_id,
        "tool": f"tiersnap {__version__}",
        "settings": json.dumps({**settings.as_dict(), "collected": dict(collected)}, default=str),
        "started_at": settings.now,
        "finished_at": int(time.time() * 1000),
        "partitions_carried": outcome.partitions_carried,
        **counts,
        "errors": outcome.error_count,
    }
    return pa.Table.from_pylist([row], schema=RUNS)
