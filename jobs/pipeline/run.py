"""The job of `tiersnap run`: a list of stages, each from DataFrame to DataFrame, on any Spark session."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from tiersnap.jobs.pipeline import counts
from tiersnap.jobs.pipeline.before_spark import Session, run_input, started
from tiersnap.jobs.pipeline.cached import kept
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.run_context import RunContext, Talk
from tiersnap.jobs.pipeline.run_listing import changes_of, count_all, list_sources
from tiersnap.jobs.pipeline.run_replay import decode_changed, remember, replay_changed
from tiersnap.jobs.pipeline.run_report import record, report
from tiersnap.jobs.pipeline.run_verdicts import Judging, publish, remember_verdicts, sweep, tier
from tiersnap.jobs.pipeline.session import spoken
from tiersnap.jobs.pipeline.session_settings import sized_for
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.publish.publish_uploads import PublishUploads
from tiersnap.remote_storage.stores.object_store import ObjectStore


def run(
    spark: SparkSession | Session,
    settings: RunSettings,
    *,
    store: ObjectStore | None = None,
    cluster: Cluster | None = None,
    publishes: Callable[[ObjectStore], PublishUploads | None] = lambda _: None,
    talk: Talk = lambda _: None,
) -> RunOutcome:
    """List, decode, replay, judge, tier, publish and report. Without `settings.apply` the run is a plan.

    A plan writes nothing. It caches the rows that it would append, and reads them together with the stored rows.

    Args:
        spark: a session, or a function that starts one. The function is called after all checks that need no Spark.
        settings: settings of the run.
        store: object store of the remote location; None to open the store that the settings name.
        cluster: asked for leaders and copy tasks; None for a run without a cluster.
        publishes: returns the publisher for the store; None to publish nothing.
        talk: called with a sentence about each stage.

    Raises:
        TransientError: another run writes to the warehouse.
        UsageError: two sources contain the same partition; a source belongs to another cluster; Spark's workers lack
            the package tiersnap.
        SourceNotFoundError: a source does not exist.
        NotALogDirError: a source is no log directory. `run_input` lists the other errors.
    """
    given = run_input(settings, store, cluster, publishes)
    of_one = only_run(settings.warehouse, settings.run_id, settings.stores, writes=settings.apply)
    with spoken("the run failed"), of_one as check, kept() as keep:
        warehouse = Warehouse(started(spark), settings.warehouse, check, settings.apply, keep)
        with sized_for(warehouse.spark, len(given.found.folders)) as tasks:
            return _stages(RunContext(warehouse, settings, given, tasks, talk))


def _stages(run: RunContext) -> RunOutcome:
    with run.timed("list"):
        found = list_sources(run)
        changed = changes_of(run, found.listed)
        totals = count_all(run, found, changed)
        judging = Judging.of(run, found.listed, totals)  # reads the store's clock, so call it right after the listing
    with run.timed("decode"):
        has_decoded = decode_changed(run, changed, totals)
    with run.timed("replay"):
        replay_changed(run, found.listed, totals, has_decoded=has_decoded)
    with run.timed("remote"):
        remember(run, found, totals)
    with run.timed("verdicts"):
        verdicts = judging.counts()
    with run.timed("tier"):
        verdicts = judging.counts() if tier(judging, verdicts.groups) else verdicts
        sweep(judging)
    with run.timed("publish"):
        verdicts = judging.counts() if publish(judging, verdicts.groups) else verdicts
    with run.timed("report"):
        counts.count_doubt(run.outcome, totals.doubted, run.store.uri)
        has_news = verdicts.changed.num_rows > 0
        run.outcome.has_rows = has_news or run.warehouse.has_rows or bool(totals.unrecorded)
        if run.settings.apply:
            # Write the row of `runs` before the verdicts. Otherwise the run after a kill would get the same number.
            record(run, totals, has_more=has_news)
            remember_verdicts(judging, verdicts)
        report(judging, verdicts.groups)
    return run.outcome
