"""The main job: a list of stages, DataFrame -> DataFrame, on whatever session is given."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.host_report import disks_below
from tiersnap.jobs.pipeline import (
    changes,
    checking,
    counts,
    decoding,
    listing,
    publishing,
    replaying,
    schemas,
    summary,
    tiering,
)
from tiersnap.jobs.pipeline.batches import sized_for
from tiersnap.jobs.pipeline.before_spark import RunInput, Session, run_input, started
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.session import spoken
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.tiering import sweep_listed, sweep_whole_store
from tiersnap.jobs.pipeline.totals import RunTotals, asked, of_changes, of_listing, refuse
from tiersnap.jobs.pipeline.warehouse import Warehouse, unrecorded_runs
from tiersnap.jobs.text_files import unknown_topics
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.inventory.observe import Observe
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.publish.tell_brokers import TellBrokers
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.paced_store import in_shares
from tiersnap.remote_storage.upload.stored_snapshots import StoredSnapshots
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_task import READY, TIERED, TierTask
from tiersnap.snapshot import __version__
from tiersnap.snapshot.gate.copy_task import BesideBrokers
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.places import located
from tiersnap.snapshot.replay.expiry import Scan
from tiersnap.snapshot.report.model import with_remote_checks
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, RUNS
from tiersnap.snapshot.tasks.decode_segments import DecodeSegments
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.list_partitions import ListPartitions
from tiersnap.snapshot.tasks.replay_partition import ReplayPartition
from tiersnap.snapshot.units import count_of, human_bytes

pc: Any = pyarrow.compute  # its stubs take no plain value beside a column
_log = logging.getLogger(__name__)

_NUMBERED = ("segments", "partitions", "remote_log_segments", "runs")
Talk = Callable[[str], None]


def run(
    spark: SparkSession | Session,
    settings: RunSettings,
    *,
    store: ObjectStore | None = None,
    cluster: Cluster | None = None,
    publishes: Callable[[ObjectStore], TellBrokers | None] = lambda _: None,
    talk: Talk = lambda _: None,
) -> RunOutcome:
    """List, decode, replay, judge, tier; without `settings.apply` nothing reaches remote storage.

    Args:
        spark: the session, or a function that starts it, which is called once all that needs no Spark was checked.
        store: remote storage, where it is not the one that the settings name.
        cluster: asked whether copy tasks work and, if there are several replicas and no named leaders, who leads.
        publishes: returns what tells brokers of uploaded segments, by remote storage; None if nothing does.
        talk: hears of each stage.

    Raises:
        TransientError: another run is at work on the warehouse.
        UsageError: two sources hold the same partition; a source is of another cluster; the workers lack the package.
        SourceNotFoundError, NotALogDirError: a source is none; see `run_input` for what else is refused.
    """
    given = run_input(settings, store, cluster, publishes)
    with spoken("the run failed"), only_run(settings.warehouse, settings.run_id, settings.stores) as check:
        warehouse = Warehouse(started(spark), settings.warehouse, check)
        with sized_for(warehouse.spark, len(given.found.folders)) as tasks:
            return _Run(warehouse, settings, given, tasks, talk).run()


class _Run:
    """One run; the methods are its stages."""

    def __init__(self, warehouse: Warehouse, settings: RunSettings, given: RunInput, tasks: int, talk: Talk) -> None:
        self._given, self._most_tasks = given, tasks
        self._spark, self._settings, self._store, self._talk = warehouse.spark, settings, given.store, talk
        self._location = open_location(given.store, settings.layout)
        self._warehouse = warehouse
        self._options_digest = settings.replay.digest(place=given.store.uri if settings.apply else None)
        self._look = Observe(self._location, refuses_plaintext=not settings.allow_plaintext)
        self._beside = BesideBrokers(left_for=settings.left_for, tasks=given.copy_tasks)
        self._outcome = RunOutcome()
        self._number, self._unrecorded, self._forgetful = 0, range(0), summary.KnownForgetful()
        self._is_bounded = settings.replay.scan is Scan.WINDOW
        self._is_first = not warehouse.exists("partitions")
        self._collected, self._collected_log_dirs = given.found.collected, given.found.collected_log_dirs
        self._leaders: DataFrame | None = None

    def run(self) -> RunOutcome:
        """All stages."""
        with self._timed("list"):
            found = self._list()
            listed = self._led(found)
            changed = self._changes(listed)
            totals = self._totals(found, listed, changed)
        with self._timed("decode"):
            has_decoded = self._decode(changed, totals)
        with self._timed("replay"):
            if has_decoded or totals.changed or totals.unread_count:
                self._replay(listed, has_reread=has_decoded and totals.retry_count > 0, totals=totals)
            else:
                self._talk("replayed nothing: no partition has changed")
        with self._timed("remote"):
            self._remember_remote(listed, totals)
            self._remember_gone(found, listed, totals)
        with self._timed("verdicts"):
            groups = self._verdicts(listed)
        with self._timed("tier"):
            groups = self._verdicts(listed) if self._tier(groups, listed) else groups
            self._sweep(listed)
        with self._timed("publish"):
            groups = self._verdicts(listed) if self._publish(groups, listed) else groups
        with self._timed("report"):
            counts.count_doubt(self._outcome, totals.doubted, self._store.uri)
            self._report(groups)
        self._outcome.counts = replace(self._outcome.counts, delta_commits=self._warehouse.commits)
        return self._outcome

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._outcome.seconds[stage] = time.monotonic() - started
        _log.info("stage %s took %.1f s", stage, self._outcome.seconds[stage])

    def _list(self) -> DataFrame:
        """LISTED rows of all replicas, or of those that the settings name as leaders."""
        found, leaders, ids = self._given.found, self._given.leaders, self._settings.topic_ids
        self._outcome.findings = list(found.findings[: counts.MOST_TOLD])
        self._outcome.unknown_topics = unknown_topics(ids, self._given.topics, self._settings.topics)
        self._outcome.finding_count = len(found.findings)
        self._outcome.kinds |= {each.finding_kind for each in found.findings if not each.is_gone}
        listed = listing.list_partitions(
            listing.folders(self._spark, found.folders, told=self._given.told, records=self._given.records),
            ListPartitions(
                self._settings.topic_ids,
                self._look,
                since=self._settings.replay.since(self._settings.now),
                wants_start=self._is_first,
                living=self._settings.replay.broker_expiry(self._settings.now),
            ),
        )
        self._replicas = listed = self._warehouse.keep("listed", listed, schemas.LISTED)
        if self._settings.leaders:
            return listing.led(listed, self._settings.leaders)
        if leaders is not None:
            self._leaders = self._spark.createDataFrame(leaders)
        return listed

    def _led(self, found: DataFrame) -> DataFrame:
        """Return the listing without replicas that do not lead, if the cluster was asked; refuse if none is left."""
        if self._leaders is None:
            return found
        counts.count_unled(self._outcome, listing.unled(found, self._leaders))
        led = listing.led_by_cluster(found, self._leaders)
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

    def _totals(self, found: DataFrame, listed: DataFrame, changed: DataFrame) -> RunTotals:
        """Counts of what was listed and is to be done; the number of this run."""
        differences, gone = self._differences(listed), self._gone(found, listed)
        runs = changes.newest_runs(*map(self._warehouse.read, _NUMBERED))
        frames = [
            *(of_changes(changed), of_listing(listed), runs),
            self._replicas.agg(F.count("known").alias("forgetful"), F.count("error").alias("unasked")),
            *(rows.agg(F.count("*").alias(name)) for rows, name in ((differences, "differences"), (gone, "gone"))),
        ]
        totals = asked(frames)
        refuse(totals, changed, self._settings.sources)
        self._unrecorded = range(totals.recorded + 1, totals.newest + 1)
        self._number = self._warehouse.number = totals.newest + 1
        outcome = self._outcome
        outcome.partitions, outcome.segments = totals.partitions, totals.segment_count
        outcome.encryption_unknown, outcome.has_leftovers = totals.unknown_encryption, totals.left > 0
        counts.count_listed(outcome, totals, listed)
        counts.count_forgetful(outcome, totals.forgetful, self._replicas, self._collected)
        self._forgetful = summary.KnownForgetful.of(outcome.forgetful, totals, self._settings, self._collected)
        if totals.copy_count and self._settings.left_for is not None:
            self._beside = replace(self._beside, store_now=self._store.now())
        self._talk(f"listed {count_of(totals.segment_count, 'segment')} of {count_of(totals.partitions, 'partition')}")
        if totals.left_out_count:
            why = "remote storage holds them" + (", or they lie before the scan window" if self._is_bounded else "")
            self._talk(
                f"left out {count_of(totals.left_out_count, 'segment')} ({human_bytes(totals.left_out_bytes)}): {why}"
            )
        return totals

    def _decode(self, changed: DataFrame, totals: RunTotals) -> bool:
        """Decode what is wanted; whether any row was committed."""
        if not totals.decode_count:
            self._talk("decoded nothing: no segment is new or has changed")
            return False
        task = DecodeSegments(self._settings.check_crc, self._number)
        work = decoding.Work(totals.decode_count, totals.decode_bytes)
        rows = decoding.decode(decoding.wanted_segments(changed), task, work)
        if totals.retry_count == totals.decode_count:
            rows = self._warehouse.keep("decoded", rows, schemas.SEGMENTS)  # no version for what is as it was
            if rows.isEmpty():
                self._talk(f"decoded nothing: {count_of(totals.retry_count, 'segment')} cannot be read, as before")
                return False
        self._warehouse.append("segments", rows, run_id=self._settings.run_id)
        self._outcome.counts = replace(
            self._outcome.counts, segments_decoded=totals.decode_count, bytes_decoded=totals.decode_bytes
        )
        self._talk(f"decoded {count_of(totals.decode_count, 'segment')}, new or changed")
        return True

    def _replay(self, listed: DataFrame, totals: RunTotals, *, has_reread: bool) -> None:
        """Replay the partitions that have changed, as the decodes of this run say."""
        changed = self._changes(listed)
        if totals.unread_count or has_reread:
            answers = changes.look(changes.unread_snapshots(changed, listed, self._warehouse.read("partitions")))
            changed = changes.answered(changed, self._warehouse.keep("answered", answers, schemas.ANSWERED))
        rows = changed.where("is_changed").select(*PARTITION_KEY, "start_offset", "segment_count")
        rows = self._warehouse.keep("changed", rows, schemas.CHANGED)
        count, segments = totals.changed, totals.changed_segments
        if totals.unread_count or has_reread:
            found = rows.agg(F.count("*").alias("partitions"), F.sum("segment_count").alias("segments")).collect()[0]
            count, segments = found.partitions, found.segments or 0
        if not count:
            self._talk("replayed nothing: no partition has changed")
            return
        tables = self._warehouse.read("segments"), self._warehouse.read("partitions")
        options = self._settings.replay
        sink = StoredSnapshots(self._store, self._settings.run_id, options.replace) if self._settings.apply else None
        task = ReplayPartition(options, sink, self._number, self._settings.now, self._look)
        wanted = replaying.Changed(rows.select(*PARTITION_KEY, "start_offset"), count, segments)
        given = replaying.partition_input(listed, wanted, *tables, is_bounded=self._is_bounded)
        self._warehouse.append(
            "partitions",
            replaying.replay(given, task, tasks=min(count, self._most_tasks)),
            run_id=self._settings.run_id,
        )
        counts.count_replayed(self._outcome, self._warehouse.read("partitions"), self._number)
        self._talk(
            f"replayed {count_of(count, 'partition')}, wrote "
            f"{count_of(self._outcome.counts.snapshots_written, 'snapshot')}"
        )

    def _differences(self, listed: DataFrame) -> DataFrame:
        return listing.differences(listed, self._warehouse.read("remote_log_segments"), run=self._number)

    def _remember_remote(self, listed: DataFrame, totals: RunTotals) -> None:
        """Bring `remote_log_segments` to what was found."""
        if totals.differences:
            self._warehouse.append("remote_log_segments", self._differences(listed), run_id=self._settings.run_id)

    def _gone(self, found: DataFrame, listed: DataFrame) -> DataFrame:
        """Rows of `partitions` for those that are not where they were: a report of the tables leaves them out."""
        there = listing.still_there(found, listed, self._leaders)
        table, settings = self._warehouse.read("partitions"), self._settings
        return changes.gone_partitions(table, there, sources=settings.sources, topics=settings.topics, run=self._number)

    def _remember_gone(self, found: DataFrame, listed: DataFrame, totals: RunTotals) -> None:
        if totals.gone:
            self._warehouse.append("partitions", self._gone(found, listed), run_id=self._settings.run_id)
            why = ", or led elsewhere," if self._settings.leaders or self._leaders is not None else ""
            self._talk(f"{count_of(totals.gone, 'partition is', 'partitions are')} gone{why} since an earlier run")

    def _judged(self, among: DataFrame) -> DataFrame:
        """JUDGED rows of some partitions (PARTITION_KEY)."""
        settings = self._settings
        expiry = settings.replay.broker_expiry(settings.now)
        task = JudgePartition(settings.replay.replace, expiry, self._is_bounded, self._beside, mends_indexes=True)
        tables = self._warehouse.read("partitions"), self._warehouse.read("remote_log_segments")
        return tiering.verdicts(*tables, among, task)

    def _verdicts(self, listed: DataFrame) -> pa.Table:
        """Rows of summary.verdict_groups; counts of verdicts and, the first time, findings come to the outcome."""
        among, outcome = listed.select(*PARTITION_KEY), self._outcome
        findings = tiering.newest_facts(self._warehouse.read("partitions"), among, [FactKind.FINDING])
        # Of a few partitions the runs come at once, of many those of the partitions that are shown in the end.
        groups_of = summary.verdict_runs if outcome.partitions <= summary.DETAILS else summary.verdict_groups
        judged = groups_of(self._judged(among), self._settings.now)
        rows = judged.unionByName(counts.of_findings(findings), allowMissingColumns=True).toArrow()
        is_verdict = pc.is_valid(rows["verdict"])
        groups = rows.filter(is_verdict).drop_columns(["finding_kind", "is_gone"])
        if not outcome.verdicts:
            counts.count_findings(outcome, rows.filter(pc.invert(is_verdict)).to_pylist(), findings)
        outcome.verdicts = {Verdict(each): sums for each, sums in summary.segments_by(groups, "verdict").items()}
        ready = groups.filter(pc.equal(groups["verdict"], str(Verdict.READY)))
        elsewhere = summary.segments_by(ready, "log_dir")
        outcome.ready_elsewhere = {
            self._collected[each]: elsewhere[each] for each in elsewhere if each in self._collected
        }
        return groups

    def _tier(self, groups: pa.Table, listed: DataFrame) -> bool:
        """Copy what is READY and lies in a source; whether there was any."""
        if not self._settings.apply or not self._outcome.ready_here:
            return False
        tierer = Tierer(self._settings.run_id, self._settings.now, warehouse=self._settings.warehouse)
        is_ready = pc.equal(groups["verdict"], str(Verdict.READY))
        names = groups.filter(is_ready).select(PARTITION_KEY).group_by(list(PARTITION_KEY)).aggregate([])
        here = listed.where(~F.col("log_dir").isin(list(self._collected))) if self._collected else listed
        ready = tiering.ready_segments(self._judged(self._spark.createDataFrame(names)), here, READY)
        if self._settings.until is not None:
            ready = tiering.ending_before(ready, self._settings.until)
        ready = self._warehouse.keep("ready", ready, schemas.of_arrow(READY))
        if ready.isEmpty():  # they end too late, or nobody knows what remote storage holds of their partitions
            return False
        tasks, store = in_shares(self._store, self._settings.rate, min(names.num_rows, self._most_tasks))
        done = tiering.tier(ready, TierTask(replace(self._location, store=store), tierer), TIERED, tasks=tasks)
        rows = listing.tiered_rows(done, run=self._number)
        self._warehouse.append("remote_log_segments", rows, run_id=self._settings.run_id)
        counts.count_tiered(self._outcome, self._warehouse.read("remote_log_segments"), self._number)
        self._talk(f"uploaded {count_of(self._outcome.counts.segments_uploaded, 'segment')}")
        return True

    def _publish(self, groups: pa.Table, listed: DataFrame) -> bool:
        """Tell brokers of uploaded segments, topic by topic, from the driver; whether a record was written."""
        if self._given.teller is None:
            return False
        done = publishing.publish(self._given, self._settings, self._warehouse, groups, listed, self._number)
        counts.count_published(self._outcome, done, apply=self._settings.apply)
        return done.records > 0

    def _sweep(self, listed: DataFrame) -> None:
        """Remove what killed runs and ended attempts left in remote storage, also where nothing was tiered."""
        if self._settings.apply:
            sweep_whole_store(self._store, self._settings.topics, self._talk)
        if self._settings.apply and self._outcome.has_leftovers:
            sweep_listed(listed, self._location, self._talk)

    def _record(self) -> None:
        """Write the run's row of `runs` if it changed something, and those of earlier runs that were killed first."""
        collected, settings = self._collected_log_dirs, self._settings
        kept = {"collected": dict(collected), "forgetful": self._forgetful.rows()}
        rows = list(unrecorded_runs(self._warehouse, self._unrecorded, settings, kept, collected))
        for row in rows:
            self._talk(f"run {row['run_id']} failed or was killed before it was recorded: the table runs has it now")
        if self._warehouse.commits or self._forgetful.has_changed:
            rows.append(counts.row_of_runs(self._outcome, settings, self._number, **kept))
        if rows:
            made = self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=RUNS))
            self._warehouse.append("runs", made, run_id=settings.run_id)

    def _report(self, groups: pa.Table) -> None:
        self._record()
        outcome, settings = self._outcome, self._settings
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
        made = summary.to_report(groups, self._judged, outcome.info, self._spark)
        made = with_remote_checks(made, checking.verified(self._warehouse))
        outcome.report = replace(made, forgetful=tuple(outcome.forgetful))
