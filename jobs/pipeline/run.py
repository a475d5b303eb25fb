"""The main job: a list of stages, DataFrame -> DataFrame, on whatever session is given."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.host_report import disks_below
from tiersnap.jobs.pipeline import (
    carrying,
    changes,
    counted,
    decoding,
    judging,
    listing,
    remote,
    summary,
    tiering,
    unread,
)
from tiersnap.jobs.pipeline.before_spark import RunInput, Session, run_input, started
from tiersnap.jobs.pipeline.gone import gone_partitions
from tiersnap.jobs.pipeline.history import unrecorded_runs
from tiersnap.jobs.pipeline.kept import Keep, kept
from tiersnap.jobs.pipeline.one_run import only_run
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.sweep import sweep_listed, sweep_whole_store
from tiersnap.jobs.pipeline.topic_ids import unknown_topics
from tiersnap.jobs.pipeline.totals import totals_of
from tiersnap.jobs.pipeline.warehouse import Warehouse, newest
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.inventory.observe import Observe
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.paced_store import in_shares
from tiersnap.remote_storage.upload.snapshot_sink import StoredSnapshots
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_rows import TIERED
from tiersnap.remote_storage.upload.tier_task import READY, TierTask
from tiersnap.snapshot import __version__
from tiersnap.snapshot.log.findings import exit_code_of
from tiersnap.snapshot.log.places import located
from tiersnap.snapshot.readiness.copy_task import BesideBrokers
from tiersnap.snapshot.readiness.verdict import Verdict
from tiersnap.snapshot.replay.replay_options import Scan
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, RUNS
from tiersnap.snapshot.tasks.carry_partition import CarryPartition
from tiersnap.snapshot.tasks.decode_segments import DecodeSegments
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.list_partitions import ListPartitions
from tiersnap.snapshot.units import count_of, human_bytes

_log = logging.getLogger(__name__)
Talk = Callable[[str], None]


def run(
    spark: SparkSession | Session,
    settings: RunSettings,
    *,
    store: ObjectStore | None = None,
    cluster: Cluster | None = None,
    talk: Talk = lambda _: None,
) -> RunOutcome:
    """List, decode, carry, judge, tier; without `settings.apply` nothing reaches remote storage.

    Args:
        spark: the session, or a function that starts it, which is called once all that needs no Spark was checked.
        store: remote storage, where it is not the one that the settings name.
        cluster: asked whether copy tasks work, and who leads, where there are several replicas of a partition and the
            settings name no leaders.
        talk: hears of each stage.

    Raises:
        TransientError: another run is at work on the warehouse.
        UsageError: two sources hold the same partition; a source is of another cluster than `cluster`.
        SourceNotFoundError, NotALogDirError: a source is none; see `run_input` for what else is refused.
    """
    given = run_input(settings, store, cluster)
    with only_run(settings.warehouse, settings.run_id, settings.s3) as check, kept() as keep:
        warehouse = Warehouse(started(spark), settings.warehouse, check)
        return _Run(warehouse, settings, given, keep, talk).run()


class _Run:
    """One run; the methods are its stages."""

    def __init__(self, warehouse: Warehouse, settings: RunSettings, given: RunInput, keep: Keep, talk: Talk) -> None:
        self._given, self._keep = given, keep
        self._spark, self._settings, self._store, self._talk = warehouse.spark, settings, given.store, talk
        self._layout = open_layout(settings.layout)
        self._warehouse = warehouse
        self._options_digest = settings.carry.digest(place=given.store.uri if settings.apply else None)
        self._look = Observe(self._store, self._layout, refuses_plaintext=not settings.allow_plaintext)
        self._beside = BesideBrokers(left_for=settings.left_for, tasks=given.copy_tasks)
        self._outcome = RunOutcome()
        self._number = 0
        self._unrecorded = range(0)
        self._is_bounded = settings.carry.scan is Scan.WINDOW
        self._collected: dict[str, str] = {}
        self._is_first = not warehouse.exists("partitions")
        self._collected_log_dirs: dict[str, str] = {}
        self._leaders: DataFrame | None = None

    def run(self) -> RunOutcome:
        """All stages."""
        with self._timed("list"):
            found = self._keep(self._list())
            listed = self._led(found)
            changed = self._keep(self._changes(listed))
            totals = self._totals(changed)
            if totals.copy_count and self._settings.left_for is not None:
                self._beside = replace(self._beside, store_now=self._store.now())
            counted.count_listed(self._outcome, listed, self._store.uri)
        with self._timed("decode"):
            has_read = self._decode(changed, totals)
        with self._timed("carry"):
            count = totals.changed
            if has_read:
                changed.unpersist()
                changed = self._keep(self._changes(listed))
                count = changed.where("is_changed").count()
            if totals.unread_count:
                before, changed = changed, self._keep(self._look_again(listed, changed))
                count = changed.where("is_changed").count()
                before.unpersist()
            self._carry(listed, changed, count)
        with self._timed("remote"):
            self._remember_remote(listed, totals.copy_count)
            self._remember_gone(listed, found)
        facts = self._facts(listed)
        with self._timed("verdicts"):
            counted.count_findings(self._outcome, facts)
            judged = self._keep(self._judge(facts))
            self._count_verdicts(judged)
        with self._timed("tier"):
            is_tiered = self._tier(judged, listed)
            self._sweep(listed)
        counted.count_doubt(self._outcome)
        with self._timed("report"):
            if is_tiered:
                judged.unpersist()
                judged = self._keep(self._judge(facts))
                self._count_verdicts(judged)
            self._report(judged)
        self._outcome.counts = replace(self._outcome.counts, delta_commits=self._warehouse.commits)
        return self._outcome

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._outcome.seconds[stage] = time.monotonic() - started
        _log.info("stage %s took %.1f s", stage, self._outcome.seconds[stage])

    def _list(self) -> DataFrame:
        found, leaders = self._given.found, self._given.leaders
        self._collected, self._collected_log_dirs = found.collected, found.collected_log_dirs
        self._outcome.findings = list(found.findings[: counted.MOST_TOLD])
        ids = self._settings.topic_ids
        self._outcome.unknown_topics = unknown_topics(ids, self._given.topics, self._settings.topics)
        self._outcome.finding_count = len(found.findings)
        self._outcome.take_findings(exit_code_of(found.findings))
        listed = listing.list_partitions(
            listing.folders(self._spark, found.folders),
            ListPartitions(
                self._settings.topic_ids,
                self._look,
                since=self._settings.carry.since(self._settings.now),
                wants_start=self._is_first,
            ),
        )
        if self._settings.leaders:
            return listing.led(listed, self._settings.leaders)
        if leaders is not None:
            self._leaders = self._spark.createDataFrame(leaders)
        return listed

    def _led(self, found: DataFrame) -> DataFrame:
        """What was listed without the replicas that do not lead, where the cluster was asked; some must be left."""
        if self._leaders is None:
            return found
        counted.count_unled(self._outcome, listing.unled(found, self._leaders))
        led = self._keep(listing.led_by_cluster(found, self._leaders))
        if self._outcome.errors and led.isEmpty():
            raise self._outcome.errors[0]
        return led

    def _changes(self, listed: DataFrame) -> DataFrame:
        return changes.partition_changes(
            listed,
            self._warehouse.read("segments"),
            self._warehouse.read("partitions"),
            self._warehouse.read("remote_log_segments"),
            options_digest=self._options_digest,
            check_crc=self._settings.check_crc,
        )

    def _look_again(self, listed: DataFrame, changed: DataFrame) -> DataFrame:
        """At snapshot files that could not be read: neither their size nor their time says when they can be."""
        return unread.answered(changed, unread.unread_snapshots(changed, listed, self._warehouse.read("partitions")))

    def _totals(self, changed: DataFrame) -> Row:
        """Counts of what was listed and is to be done; the number of this run."""
        totals = totals_of(changed, self._settings.sources)
        newest, recorded = self._warehouse.newest_runs()
        self._unrecorded = range(recorded + 1, newest + 1)
        self._number = self._warehouse.number = newest + 1
        self._outcome.partitions, self._outcome.segments = totals.partitions, totals.segment_count
        self._outcome.encryption_unknown = totals.unknown_encryption
        self._talk(f"listed {count_of(totals.segment_count, 'segment')} of {count_of(totals.partitions, 'partition')}")
        if totals.left_out_count:
            why = "remote storage holds them" + (", or they lie before the scan window" if self._is_bounded else "")
            self._talk(
                f"left out {count_of(totals.left_out_count, 'segment')} ({human_bytes(totals.left_out_bytes)}): {why}"
            )
        return totals

    def _decode(self, changed: DataFrame, totals: Row) -> bool:
        """Decode what is wanted; whether something may have been read that could not be read before."""
        if not totals.decode_count:
            self._talk("decoded nothing: no segment is new or has changed")
            return False
        task = DecodeSegments(self._settings.check_crc, self._number)
        work = decoding.Work(totals.decode_count, totals.decode_bytes)
        rows = decoding.decode(decoding.wanted_segments(changed), task, work)
        if totals.retry_count == totals.decode_count:
            rows = self._keep(rows)  # no version for what is as it was
            if rows.isEmpty():
                self._talk(f"decoded nothing: {count_of(totals.retry_count, 'segment')} cannot be read, as before")
                return False
        self._warehouse.append("segments", rows, run_id=self._settings.run_id)
        self._outcome.counts = replace(
            self._outcome.counts, segments_decoded=totals.decode_count, bytes_decoded=totals.decode_bytes
        )
        self._talk(f"decoded {count_of(totals.decode_count, 'segment')}, new or changed")
        return bool(totals.retry_count)

    def _carry(self, listed: DataFrame, changed: DataFrame, count: int) -> None:
        """Carry the partitions that have changed, so many."""
        if not count:
            self._talk("carried nothing: no partition has changed")
            return
        tables = self._warehouse.read("segments"), self._warehouse.read("partitions")
        carry = self._settings.carry
        sink = StoredSnapshots(self._store, self._settings.run_id, carry.replace) if self._settings.apply else None
        task = CarryPartition(carry, sink, self._number, self._settings.now, self._look)
        rows = carrying.carry(carrying.partition_input(listed, changed, *tables, is_bounded=self._is_bounded), task)
        self._warehouse.append("partitions", rows, run_id=self._settings.run_id)
        counted.count_carried(self._outcome, self._warehouse.read("partitions"), self._number)
        self._talk(
            f"carried {count_of(count, 'partition')}, wrote "
            f"{count_of(self._outcome.counts.snapshots_written, 'snapshot')}"
        )

    def _remember_remote(self, listed: DataFrame, copies: int) -> None:
        """Bring `remote_log_segments` to what was found: a first run may have nothing to say."""
        if not copies and not self._warehouse.exists("remote_log_segments"):
            return
        table = self._warehouse.read("remote_log_segments")
        differences = self._keep(remote.differences(listed, table, run=self._number))
        if differences.count():
            self._warehouse.append("remote_log_segments", differences, run_id=self._settings.run_id)

    def _remember_gone(self, listed: DataFrame, found: DataFrame) -> None:
        """Say of partitions that are not where they were that they are gone: a report of the tables leaves them out."""
        if self._is_first:
            return
        settings, partitions = self._settings, self._warehouse.read("partitions")
        there = listed.select(*PARTITION_KEY)
        if self._leaders is not None:
            # Of a partition that nobody is known to lead nobody knows that it is led elsewhere.
            unled = listing.unled(found, self._leaders)
            left_alone = found.join(unled, on=["topic", "partition"], how="left_semi")
            there = there.unionByName(left_alone.select(*PARTITION_KEY))
        gone = self._keep(
            gone_partitions(partitions, there, sources=settings.sources, topics=settings.topics, run=self._number)
        )
        count = gone.count()
        if count:
            self._warehouse.append("partitions", gone, run_id=settings.run_id)
            why = ", or led elsewhere," if settings.leaders or self._leaders is not None else ""
            self._talk(f"{count_of(count, 'partition is', 'partitions are')} gone{why} since an earlier run")

    def _facts(self, listed: DataFrame) -> DataFrame:
        """The newest facts of what is listed."""
        facts = newest(self._warehouse.read("partitions"), PARTITION_KEY)
        return facts.join(listed.select(*PARTITION_KEY), on=list(PARTITION_KEY), how="left_semi")

    def _judge(self, facts: DataFrame) -> DataFrame:
        carry = self._settings.carry
        task = JudgePartition(
            carry.replace, self._settings.now, carry.producer_expiration, self._is_bounded, self._beside
        )
        return judging.verdicts(facts, self._warehouse.read("remote_log_segments"), task)

    def _count_verdicts(self, judged: DataFrame) -> None:
        counts = summary.verdict_counts(judged).collect()
        self._outcome.verdicts = {Verdict(row.verdict): row.segments for row in counts}
        if self._collected:
            is_elsewhere = (F.col("verdict") == str(Verdict.READY)) & F.col("log_dir").isin(list(self._collected))
            rows = judged.where(is_elsewhere).groupBy("log_dir").count().collect()
            self._outcome.ready_elsewhere = {self._collected[row.log_dir]: row["count"] for row in rows}

    def _tier(self, judged: DataFrame, listed: DataFrame) -> bool:
        """Copy what is READY and lies in a source; whether there was any."""
        ready_here = self._outcome.verdicts.get(Verdict.READY, 0) - sum(self._outcome.ready_elsewhere.values())
        if not self._settings.apply or not ready_here:
            return False
        tierer = Tierer(self._settings.run_id, self._settings.now, warehouse=self._settings.warehouse)
        here = listed.where(~F.col("log_dir").isin(list(self._collected))) if self._collected else listed
        ready = tiering.ready_segments(judged, here, READY)
        if self._settings.until is not None:
            ready = tiering.ending_before(ready, self._settings.until)
        if ready.isEmpty():  # they end too late, or nobody knows what remote storage holds of their partitions
            return False
        tasks, store = in_shares(self._store, self._settings.rate, tiering.most_tasks(ready))
        done = tiering.tier(ready, TierTask(store, self._layout, tierer), TIERED, tasks=tasks)
        rows = remote.tiered_rows(done, run=self._number)
        self._warehouse.append("remote_log_segments", rows, run_id=self._settings.run_id)
        counted.count_tiered(self._outcome, self._warehouse.read("remote_log_segments"), self._number)
        self._talk(f"tiered {count_of(self._outcome.counts.segments_tiered, 'segment')}")
        return True

    def _sweep(self, listed: DataFrame) -> None:
        """Remove what killed runs and ended attempts left in remote storage, also where nothing was tiered."""
        if self._settings.apply:
            sweep_whole_store(self._store, self._settings.topics, self._talk)
        if self._settings.apply and self._outcome.has_leftovers:
            sweep_listed(listed, self._store, self._layout, self._talk)

    def _record(self) -> None:
        """Write the run's row of `runs` if it changed something, and those of earlier runs that were killed first."""
        collected = self._collected_log_dirs
        rows = list(unrecorded_runs(self._warehouse, self._unrecorded, self._settings, collected))
        for row in rows:
            self._talk(f"run {row['run_id']} was killed before it was recorded: tiersnap report runs shows it now")
        if self._warehouse.commits:
            rows.append(counted.row_of_runs(self._outcome, self._settings, self._number, collected=dict(collected)))
        if rows:
            made = self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=RUNS))
            self._warehouse.append("runs", made, run_id=self._settings.run_id)

    def _report(self, readiness: DataFrame) -> None:
        outcome, settings = self._outcome, self._settings
        self._record()
        outcome.info = RunInfo(
            run_id=settings.run_id,
            started_at=settings.now,
            finished_at=int(time.time() * 1000),
            source=", ".join(settings.sources),
            remote=located(settings.remote),
            warehouse=settings.warehouse,
            version=__version__,
            applied=settings.apply,
            ready_elsewhere=outcome.ready_elsewhere,
            sources=settings.sources,
            collected=self._collected_log_dirs,
            disks=disks_below(set(settings.sources) - set(self._collected)),
            **vars(replace(outcome.counts, delta_commits=self._warehouse.commits)),
            options=settings.options,
        )
        outcome.report = summary.to_report(readiness.drop("copy"), outcome.info)
