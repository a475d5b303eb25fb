"""The end of a run: its row in the table `runs`, and its report."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa

from tiersnap.jobs.pipeline import checking, counts, summary
from tiersnap.jobs.pipeline.run_context import RunContext
from tiersnap.jobs.pipeline.run_verdicts import Judging
from tiersnap.jobs.pipeline.totals import RunTotals
from tiersnap.jobs.pipeline.warehouse import unrecorded_runs
from tiersnap.jobs.telemetry.host_report import disks_below
from tiersnap.snapshot import __version__
from tiersnap.snapshot.log.places import located
from tiersnap.snapshot.report.model import with_remote_checks
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.tables.spark_made_tables import RUNS


def record(run: RunContext, totals: RunTotals, *, has_more: bool) -> None:
    """Append rows to `runs`: the row of this run if it changed anything, and the rows of earlier runs that were killed.

    Args:
        run: the run.
        totals: sums of the listing.
        has_more: whether the run appends rows to other tables after this call.
    """
    collected, settings = run.given.found.collected_log_dirs, run.settings
    replicas_without_producers = summary.KnownReplicasWithoutProducers.of(
        run.outcome.replicas_without_producers, totals, settings, run.collected
    )
    kept = {"collected": dict(collected), "replicas_without_producers": replicas_without_producers.rows()}
    rows = list(unrecorded_runs(run.warehouse, totals.unrecorded, settings, kept, collected))
    for row in rows:
        run.talk(
            f"run {row['run_id']} failed or was killed before it wrote its row into the table runs; the row is "
            "added now"
        )
    if run.warehouse.commits or replicas_without_producers.has_changed or has_more:
        rows.append(counts.row_of_runs(run.outcome, settings, run.number, **kept))
    if rows:
        run.append("runs", run.spark.createDataFrame(pa.Table.from_pylist(rows, schema=RUNS)))


def report(judging: Judging, groups: pa.Table) -> None:
    """Set `info` and `report` in the outcome of the run."""
    run, outcome, settings = judging.run, judging.run.outcome, judging.run.settings
    outcome.counts = replace(outcome.counts, delta_commits=run.warehouse.commits)
    outcome.info = RunInfo(
        run_id=settings.run_id,
        started_at=settings.now,
        finished_at=int(time.time() * 1000),
        source=", ".join(settings.sources),
        remote=located(settings.remote),
        warehouse=settings.warehouse,
        version=__version__,
        applied=settings.uploads,
        ready_elsewhere=outcome.ready_elsewhere,
        sources=settings.sources,
        collected=run.given.found.collected_log_dirs,
        disks=disks_below(set(settings.sources) - set(run.collected)),
        **vars(outcome.counts),
        options=settings.options,
    )
    made = summary.to_report(groups, judging.judged, outcome.info, run.spark)
    made = with_remote_checks(made, checking.verified(run.warehouse))
    outcome.report = replace(made, replicas_without_producers=tuple(outcome.replicas_without_producers))
