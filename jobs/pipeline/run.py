"""The main job: a list of stages, DataFrame -> DataFrame, on whatever session is given."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.one_run import only_run
from tiersnap.jobs.pipeline.outcome import Outcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.presence.observe import Observe
from tiersnap.remote_storage.snapshot_sink import StoredSnapshots
from tiersnap.remote_storage.stores.conditions import check_conditions
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.upload.tier_partition import Tierer
from tiersnap.remote_storage.upload.tier_rows import TIERED
from tiersnap.remote_storage.upload.tier_task import READY, TierTask
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import NotALogDirError, UsageError
from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.report import RunInfo
from tiersnap.snapshot.spark import carrying, changes, decoding, judging, listing, remote, summary, tiering
from tiersnap.snapshot.spark.discover import discover
from tiersnap.snapshot.spark.warehouse import Warehouse, newest
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, RUNS
from tiersnap.snapshot.tasks.carry_partition import CarryPartition
from tiersnap.snapshot.tasks.decode_segments import DecodeSegments
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.list_partitions import ListPartitions

MOST_TOLD = 20
Talk = Callable[[str], None]


def run(
    spark: SparkSession, settings: RunSettings, *, store: ObjectStore | None = None, talk: Talk = lambda _: None
) -> Outcome:
    """List, decode, carry, judge, tier; without `settings.apply` nothing reaches remote storage.

    Args:
        store: remote storage, where it is not the one that the settings name.
        talk: hears of each stage.

    Raises:
        TransientError: another run is at work on the warehouse.
        UsageError: two sources hold the same partition.
        SourceNotFoundError, NotALogDirError: a source is none.
    """
    with only_run(settings.warehouse):
        return _Run(spark, settings, store or open_store(settings.remote, settings.s3), talk).run()


class _Run:
    """One run; the methods are its stages."""

    def __init__(self, spark: SparkSession, settings: RunSettings, store: ObjectStore, talk: Talk) -> None:
        self._spark, self._settings, self._store, self._talk = spark, settings, store, talk
        self._layout = open_layout(settings.layout)
        self._warehouse = Warehouse(spark, settings.warehouse)
        self._options_digest = settings.carry.digest(place=store.uri if settings.apply else None)
        self._outcome = Outcome()
        self._number = 0
        self._is_store_checked = False

    def run(self) -> Outcome:
        """All stages."""
        with self._timed("list"):
            listed = self._list().persist()
            changed = self._changes(listed).persist()
            totals = self._totals(changed)
        with self._timed("decode"):
            self._decode(changed, totals)
        with self._timed("carry"):
            self._carry(listed, changed, totals)
        with self._timed("remote"):
            self._remember_remote(listed)
        facts = self._facts(listed)
        with self._timed("verdicts"):
            judged = self._judge(facts).persist()
            self._count_verdicts(judged)
        with self._timed("tier"):
            is_tiered = self._tier(judged, listed)
        with self._timed("report"):
            if is_tiered:
                judged.unpersist()
                judged = self._judge(facts).persist()
                self._count_verdicts(judged)
            self._report(judged)
        for persisted in (judged, changed, listed):
            persisted.unpersist()
        self._outcome.commits = self._warehouse.commits
        return self._outcome

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._outcome.seconds[stage] = time.monotonic() - started

    def _list(self) -> DataFrame:
        found, findings = discover(self._settings.sources, self._settings.topics)
        self._outcome.findings = [str(finding) for finding in findings[:MOST_TOLD]]
        self._outcome.finding_count = len(findings)
        look = Observe(self._store, self._layout, self._settings.now)
        return listing.list_partitions(
            listing.folders(self._spark, found), ListPartitions(self._settings.topic_ids, look)
        )

    def _changes(self, listed: DataFrame) -> DataFrame:
        return changes.partition_changes(
            listed,
            self._warehouse.read("segments"),
            self._warehouse.read("partitions"),
            self._warehouse.read("remote_log_segments"),
            options_digest=self._options_digest,
            check_crc=self._settings.check_crc,
        )

    def _totals(self, changed: DataFrame) -> Row:
        """Counts of what was listed and is to be done; the number of this run."""
        totals: Row = changed.agg(
            F.count("*").alias("partitions"),
            *(F.sum(name).alias(name) for name in ("segment_count", "decode_count", "decode_bytes", "finding_count")),
            F.count_if("is_changed").alias("changed"),
            F.count_distinct("topic", "partition").alias("distinct"),
        ).collect()[0]
        if not totals.segment_count and not totals.finding_count:
            raise NotALogDirError(
                f"{', '.join(self._settings.sources)}: no segments in any of the partitions",
                hint="name one entry of log.dirs, not the folder above it",
            )
        if totals.distinct < totals.partitions:
            self._refuse_replicas(changed, totals.partitions - totals.distinct)
        self._number = self._warehouse.newest_run() + 1
        self._outcome.partitions, self._outcome.segments = totals.partitions, totals.segment_count
        self._talk(f"listed {totals.segment_count} segments of {totals.partitions} partitions")
        return totals

    def _refuse_replicas(self, changed: DataFrame, count: int) -> None:
        twice = changed.groupBy("topic", "partition").count().where("count > 1").first()
        name = f"{twice.topic}-{twice.partition}" if twice is not None else ""
        raise UsageError(
            f"{name} is in more than one source: {count} partitions are",
            hint="two replicas of a partition would be tiered twice: give the leaders' log directories only",
        )

    def _decode(self, changed: DataFrame, totals: Row) -> None:
        if not totals.decode_count:
            self._talk("decoded nothing: no segment is new or has changed")
            return
        weight = totals.decode_bytes + totals.decode_count * decoding.SEGMENT_OVERHEAD_BYTES
        bytes_each = decoding.task_bytes(weight)
        rows = decoding.decode(
            decoding.wanted_segments(changed),
            DecodeSegments(self._settings.check_crc, self._number),
            tasks=max(1, -(-weight // bytes_each)),
            bytes_each=bytes_each,
        )
        self._warehouse.append("segments", rows, run_id=self._settings.run_id)
        self._outcome.segments_decoded, self._outcome.bytes_decoded = totals.decode_count, totals.decode_bytes
        self._talk(f"decoded {totals.decode_count} segments that were new or had changed")

    def _carry(self, listed: DataFrame, changed: DataFrame, totals: Row) -> None:
        if not totals.changed:
            self._talk("carried nothing: no partition has changed")
            return
        if self._settings.apply:
            self._check_store()
        tables = self._warehouse.read("segments"), self._warehouse.read("partitions")
        carry = self._settings.carry
        sink = StoredSnapshots(self._store, self._settings.run_id, carry.replace) if self._settings.apply else None
        task = CarryPartition(self._settings.carry, sink, self._number, self._settings.now)
        rows = carrying.carry(carrying.partition_input(listed, changed, *tables), task)
        self._warehouse.append("partitions", rows, run_id=self._settings.run_id)
        self._outcome.partitions_carried = totals.changed
        self._note_carried()
        self._talk(f"carried {totals.changed} partitions, wrote {self._outcome.snapshots_written} snapshots")

    def _check_store(self) -> None:
        """See that remote storage keeps the conditions that claims rest on, before the first write of this run."""
        if not self._is_store_checked:
            check_conditions(self._store, ObjectKeys())
            self._is_store_checked = True

    def _note_carried(self) -> None:
        """What this run's facts say of its own work."""
        facts = self._warehouse.read("partitions").where(F.col("run") == self._number)
        counts = facts.agg(
            F.count_if(F.col("written_by") == self._number).alias("written"),
            F.count_if(F.col("kind") == str(FactKind.FINDING)).alias("findings"),
            F.count_if(F.col("kind") == str(FactKind.ERROR)).alias("errors"),
            F.every(F.coalesce("is_transient", F.lit(True))).alias("is_transient"),
        ).collect()[0]
        self._outcome.snapshots_written = counts.written
        self._outcome.finding_count += counts.findings
        self._outcome.error_count += counts.errors
        self._outcome.is_transient &= counts.is_transient
        if counts.findings or counts.errors:
            kinds = [str(FactKind.FINDING), str(FactKind.ERROR)]
            few = facts.where(F.col("kind").isin(kinds)).orderBy(*PARTITION_KEY, "kind", "part").limit(2 * MOST_TOLD)
            for row in few.select("kind", "finding_kind", "path", "message").collect():
                if row.kind == FactKind.ERROR:
                    self._outcome.errors.append(row.message)
                else:
                    self._outcome.findings.append(f"{row.finding_kind}: {row.path}: {row.message}")

    def _remember_remote(self, listed: DataFrame) -> None:
        """Bring `remote_log_segments` to what was found."""
        table = self._warehouse.read("remote_log_segments")
        differences = remote.differences(listed, table, run=self._number).persist()
        if differences.count():
            self._warehouse.append("remote_log_segments", differences, run_id=self._settings.run_id)
        differences.unpersist()

    def _facts(self, listed: DataFrame) -> DataFrame:
        """The newest facts of what is listed."""
        facts = newest(self._warehouse.read("partitions"), PARTITION_KEY)
        return facts.join(listed.select(*PARTITION_KEY), on=list(PARTITION_KEY), how="left_semi")

    def _judge(self, facts: DataFrame) -> DataFrame:
        carry = self._settings.carry
        task = JudgePartition(carry.replace, self._settings.now, carry.producer_expiration)
        return judging.verdicts(facts, self._warehouse.read("remote_log_segments"), task)

    def _count_verdicts(self, judged: DataFrame) -> None:
        counts = summary.verdict_counts(judged).collect()
        self._outcome.verdicts = {Verdict(row.verdict): row.segments for row in counts}

    def _tier(self, judged: DataFrame, listed: DataFrame) -> bool:
        """Copy what is READY; whether there was any."""
        if not self._settings.apply or not self._outcome.verdicts.get(Verdict.READY):
            return False
        self._check_store()
        tierer = Tierer(self._settings.run_id, self._settings.now, warehouse=self._settings.warehouse)
        ready = tiering.ready_segments(judged, listed, READY)
        if self._settings.until is not None:
            ready = tiering.ending_before(ready, self._settings.until)
            if ready.isEmpty():
                return False
        done = tiering.tier(ready, TierTask(self._store, self._layout, tierer), TIERED)
        rows = remote.tiered_rows(done, run=self._number)
        self._warehouse.append("remote_log_segments", rows, run_id=self._settings.run_id)
        self._note_tiered()
        return True

    def _note_tiered(self) -> None:
        rows = self._warehouse.read("remote_log_segments").where((F.col("run") == self._number) & F.col("is_ours"))
        finished = F.col("state") == SegmentState.COPY_SEGMENT_FINISHED.name
        counts = rows.agg(
            F.count_if(finished & (F.col("bytes") > 0)).alias("segments"),
            F.sum(F.when(finished, F.col("bytes")).otherwise(0)).alias("bytes"),
            F.count_if(F.col("error").isNotNull()).alias("errors"),
            F.every(F.coalesce("is_transient", F.lit(True)) | F.col("error").isNull()).alias("is_transient"),
        ).collect()[0]
        self._outcome.segments_tiered, self._outcome.bytes_tiered = counts.segments, counts.bytes
        self._outcome.error_count += counts.errors
        if counts.errors:
            self._outcome.is_transient &= counts.is_transient
            failed = rows.where("error is not null").orderBy("topic", "partition", "start_offset").limit(MOST_TOLD)
            self._outcome.errors += [row.error for row in failed.select("error").collect()]
        self._talk(f"tiered {counts.segments} segments")

    def _report(self, readiness: DataFrame) -> None:
        outcome, settings = self._outcome, self._settings
        if self._warehouse.commits:
            self._record()
        outcome.info = RunInfo(
            run_id=settings.run_id,
            started_at=settings.now,
            finished_at=int(time.time() * 1000),
            source=", ".join(settings.sources),
            remote=settings.remote,
            warehouse=settings.warehouse,
            version=__version__,
            applied=settings.apply,
            segments_decoded=outcome.segments_decoded,
            bytes_decoded=outcome.bytes_decoded,
            snapshots_written=outcome.snapshots_written,
            segments_tiered=outcome.segments_tiered,
            bytes_tiered=outcome.bytes_tiered,
            delta_commits=self._warehouse.commits,
        )
        outcome.report = summary.to_report(readiness.drop("copy"), outcome.info)

    def _record(self) -> None:
        """One row in `runs`."""
        outcome, settings = self._outcome, self._settings
        row = {
            "run": self._number,
            "run_id": settings.run_id,
            "tool": f"tiersnap {__version__}",
            "settings": json.dumps(settings.as_dict(), default=str),
            "started_at": settings.now,
            "finished_at": int(time.time() * 1000),
            **{name: getattr(outcome, name) for name in RUNS.names if hasattr(outcome, name)},
            "errors": outcome.error_count,
        }
        rows = self._spark.createDataFrame(pa.Table.from_pylist([row], schema=RUNS))
        self._warehouse.append("runs", rows, run_id=settings.run_id)
