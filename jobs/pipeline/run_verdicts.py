"""The last stages of a run: judges the listed segments, uploads the READY ones, publishes, and deletes leftovers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import counts, publishing, summary, tiering, verdicts
from tiersnap.jobs.pipeline.known import newest_facts
from tiersnap.jobs.pipeline.remote_states import tiered_rows
from tiersnap.jobs.pipeline.run_context import RunContext
from tiersnap.jobs.pipeline.sweeping import sweep_listed, sweep_whole_store
from tiersnap.jobs.pipeline.totals import RunTotals
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.remote_storage.stores.paced_store import in_shares
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_task import READY, TIERED, TierTask
from tiersnap.snapshot.gate.copy_task import BesideBrokers
from tiersnap.snapshot.gate.verdict import TO_UPLOAD, Verdict
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY
from tiersnap.snapshot.units import count_of

pc: Any = pyarrow.compute  # the stubs reject a comparison of a column with a plain value


@dataclass(frozen=True)
class VerdictCounts:
    """Counts of the verdicts of a run's listed segments.

    Attributes:
        groups: rows of summary.verdict_groups.
        changed: PARTITION_KEY of the partitions with verdicts that differ from the table `readiness`.
    """

    groups: pa.Table
    changed: pa.Table


@dataclass(frozen=True)
class Judging:
    """A judge of the listed partitions of a run. Each method reads the tables in their current state."""

    run: RunContext
    listed: DataFrame
    task: JudgePartition

    @classmethod
    def of(cls, run: RunContext, listed: DataFrame, totals: RunTotals) -> Judging:
        """Return the Judging of the partitions `listed`. If remote segments were listed, read the store's clock."""
        settings = run.settings
        beside = BesideBrokers(left_for=settings.left_for, tasks=run.given.copy_tasks)
        if totals.copy_count and settings.left_for is not None:
            beside = replace(beside, store_now=run.store.now())
        expiry = settings.replay.broker_expiry(settings.now)
        task = JudgePartition(settings.replay.replace, expiry, run.is_bounded, beside, mends_indexes=True)
        return cls(run, listed, task)

    def judged(self, among: DataFrame) -> DataFrame:
        """Return the judged segments (schema JUDGED) of the partitions `among` (rows of PARTITION_KEY)."""
        read = self.run.warehouse.read
        return verdicts.verdicts(read("partitions"), read("remote_log_segments"), among, self.task)

    def beside_stored(self, among: DataFrame) -> DataFrame:
        """Return the judged segments of the partitions `among` (PARTITION_KEY), each with its `readiness` row."""
        stored = verdicts.current(self.run.warehouse.read("readiness"), among)
        return verdicts.beside_stored(self.judged(among), stored)

    def counts(self) -> VerdictCounts:
        """Count the verdicts, and store the counts in the outcome. The first call also stores the findings."""
        outcome, among = self.run.outcome, self.listed.select(*PARTITION_KEY)
        findings = newest_facts(self.run.warehouse.read("partitions"), among, [FactKind.FINDING])
        # If the partitions are few, count each sequence of equal segments now. Else the report reads what it shows.
        groups_of = summary.verdict_runs if outcome.partitions <= summary.DETAILS else summary.verdict_groups
        news = F.count_if(verdicts.is_news()).alias("news")
        judged = groups_of(self.beside_stored(among), self.run.settings.now, sums=(news,))
        rows = judged.unionByName(counts.of_findings(findings), allowMissingColumns=True).toArrow()
        groups = rows.filter(pc.is_valid(rows["verdict"])).drop_columns(["finding_kind", "news"])
        if not outcome.verdicts:
            counts.count_findings(outcome, rows.filter(pc.is_valid(rows["finding_kind"])).to_pylist(), findings)
        outcome.verdicts = {Verdict(each): sums for each, sums in summary.segments_by(groups, "verdict").items()}
        ready = _to_upload(groups)
        elsewhere, collected = summary.segments_by(ready, "log_dir"), self.run.collected
        outcome.ready_elsewhere = {collected[each]: elsewhere[each] for each in elsewhere if each in collected}
        return VerdictCounts(groups, _partitions_of(rows.filter(pc.greater(rows["news"], 0))))


def _partitions_of(groups: pa.Table) -> pa.Table:
    """Return the distinct partitions of the groups (PARTITION_KEY)."""
    return groups.select(PARTITION_KEY).group_by(list(PARTITION_KEY)).aggregate([])


def _to_upload(groups: pa.Table) -> pa.Table:
    """Return the groups whose verdict lets `--apply` upload the segments."""
    return groups.filter(pc.is_in(groups["verdict"], value_set=pa.array(sorted(TO_UPLOAD), pa.string())))


def remember_verdicts(judging: Judging, found: VerdictCounts) -> None:
    """Append the changed verdicts to the table `readiness`."""
    if found.changed.num_rows:
        run = judging.run
        beside = judging.beside_stored(run.spark.createDataFrame(found.changed))
        run.append("readiness", verdicts.news(beside, run=run.number, now=run.settings.now))


def tier(judging: Judging, groups: pa.Table) -> bool:
    """Upload the READY segments whose files this run can read. Return whether there was a segment to upload."""
    run, settings, outcome = judging.run, judging.run.settings, judging.run.outcome
    if not settings.uploads or not outcome.ready_here:
        return False
    names = publishing.without_refused(run, _partitions_of(_to_upload(groups)), judging.listed)
    if not names.num_rows:
        return False
    here = judging.listed
    if run.collected:
        here = here.where(~F.col("log_dir").isin(list(run.collected)))
    ready = tiering.ready_segments(judging.judged(run.spark.createDataFrame(names)), here, READY)
    if settings.until is not None:
        ready = tiering.ending_before(ready, settings.until)
    tasks, store = in_shares(run.store, settings.rate, min(names.num_rows, run.most_tasks))
    kept = tiering.in_steps(ready, tasks, whole_partitions=run.is_bounded)
    ready = run.warehouse.keep("ready", kept, kept.schema)
    steps = sorted(row.step for row in ready.select("step").distinct().collect())
    if not steps:  # the segments end after `until`, or their partitions' remote segments could not be listed
        return False
    tierer = Tierer(settings.run_id, settings.now, warehouse=settings.warehouse)
    task = TierTask(replace(run.location, store=store), tierer)
    for step in steps:
        wanted = ready.where(F.col("step") == step)
        if step:
            wanted = tiering.without_failed(wanted, run.warehouse.read("remote_log_segments"), run=run.number)
        done = tiering.tier(wanted.select(*READY.names), task, TIERED, tasks=tasks)
        run.append("remote_log_segments", tiered_rows(done, run=run.number))
    counts.count_tiered(outcome, run.warehouse.read("remote_log_segments"), run.number)
    run.talk(f"uploaded {count_of(outcome.counts.segments_uploaded, 'segment')}")
    return True


def publish(judging: Judging, groups: pa.Table) -> bool:
    """Publish the UPLOADED segments from the driver, one topic at a time; return whether a record was written."""
    run = judging.run
    if run.given.publisher is None:
        return False
    done = publishing.publish(run, groups, judging.listed)
    counts.count_published(run.outcome, done, apply=run.settings.uploads)
    return done.records > 0


def sweep(judging: Judging) -> None:
    """Delete the leftovers of killed runs and ended copy attempts from remote storage."""
    run = judging.run
    if run.settings.uploads:
        sweep_whole_store(run.store, run.settings.topics, run.talk)
    if run.settings.uploads and run.outcome.has_leftovers:
        sweep_listed(judging.listed, run.location, run.talk)
