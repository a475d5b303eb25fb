"""The stages over DataFrames say row for row what the joins in plain Python say, as logs live."""

from __future__ import annotations

import copy
import os
import random
import shutil
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from tests.reference import fleet_joins as reference
from tests.reference.aging_log import NOW, AgingLog
from tests.reference.command import tiersnap
from tests.reference.fleet_joins import Row, Tables
from tests.reference.fleet_run import Ran, Runner, arrow_table, as_table
from tests.reference.living_log import STEPS, LivingLog, live
from tests.reference.log_builder import TIMESTAMP, data_batch, leader_epochs_text, write_partition
from tests.reference.logs import DAY
from tests.reference.no_finish import NoFinish
from tests.reference.poisoned_tier import poisoned_tier
from tests.reference.tiered import aiven
from tests.unit.test_scan_window import brokers_files
from tiersnap.jobs.pipeline import (
    changes,
    decoding,
    known,
    leading,
    listing,
    remote_states,
    replaying,
    tiering,
    verdicts,
)
from tiersnap.jobs.pipeline.before_spark import LEADERS
from tiersnap.jobs.pipeline.collected_headers import collected_batches
from tiersnap.jobs.pipeline.counts import (
    MOST_TOLD,
    count_doubt,
    count_findings,
    count_lost,
    count_tiered,
    count_unled,
    of_findings,
)
from tiersnap.jobs.pipeline.decoding import DecodeSegments
from tiersnap.jobs.pipeline.listing import ListPartitions
from tiersnap.jobs.pipeline.newest import newest
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.replaying import ReplayPartition
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.totals import asked, of_listing
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.upload.stored_snapshots import StoredSnapshots
from tiersnap.remote_storage.upload.tier_task import READY
from tiersnap.snapshot.errors import ExitCode, TransientError, UnfinishedError
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.log.findings import DELETED, NOT_DAMAGED, Finding, FindingKind
from tiersnap.snapshot.replay.expiry import BrokerExpiry, ReplayOptions, Scan
from tiersnap.snapshot.replay.remote_listing import LostRange
from tiersnap.snapshot.replay.replay_start import is_continued
from tiersnap.snapshot.tables.all_tables import TABLES
from tiersnap.snapshot.tables.decodes import SEGMENTS
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.listed import LISTED, LISTED_ROWS
from tiersnap.snapshot.tables.readiness import READINESS, STORED_VERDICTS
from tiersnap.snapshot.tables.remote_log_segments import REMOTE_LOG_SEGMENTS
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

pytestmark = pytest.mark.spark

LOGS = 10
# One change in each of the logs between two runs.
ROUNDS = 2
OPTIONS = ReplayOptions(None, TIMESTAMP + DAY // 2, DAY)


@pytest.fixture
def logs(tmp_path: Path) -> list[LivingLog]:
    found = []
    for number in range(LOGS):
        topic_id = urlsafe_b64encode(uuid.UUID(int=(4 << 76) + (8 << 60) + number).bytes).decode()[:22]
        log = LivingLog(tmp_path / f"logs{number}", number, topic_id=topic_id, is_tiered=number % 2 == 1)
        for _ in range(3):
            log.roll_and_append()
        log.high_watermark = log.end
        log.write_checkpoints()
        found.append(log)
    return found


def plain(rows: list[Row], schema: pa.Schema, *without: str) -> list[Row]:
    """Rows with every column, by their keys."""
    found = pa.Table.from_pylist(rows, schema=schema).to_pylist()
    kept = [{name: value for name, value in row.items() if name not in without} for row in found]
    return sorted(kept, key=repr)


def facts_of(rows: list[Row]) -> list[Row]:
    """Facts by their keys, without the run that put an object."""
    return sorted(({**row, "written_by": None} for row in as_table("partitions", rows)), key=repr)


def collected(frame: DataFrame, schema: pa.Schema, *without: str) -> list[Row]:
    return plain(frame.toArrow().select(schema.names).to_pylist(), schema, *without)


class Stages:
    """The stages of one run over the tables that were there before it."""

    def __init__(
        self,
        spark: SparkSession,
        before: Tables,
        after: Tables,
        ran: Ran,
        number: int,
        options: ReplayOptions = OPTIONS,
        look: Observe | None = None,
    ) -> None:
        self.spark, self.before, self.after, self.ran, self.number = spark, before, after, ran, number
        self.look = look
        self.options, self.is_bounded = options, options.scan is Scan.WINDOW
        self.listed = self.frame(ran.listed, LISTED).persist()

    def frame(self, rows: list[Row], schema: pa.Schema) -> DataFrame:
        return self.spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema), of_arrow(schema))

    def table(self, tables: Tables, name: str) -> DataFrame:
        return self.spark.createDataFrame(arrow_table(name, getattr(tables, name)), of_arrow(TABLES[name]))

    def findings(self) -> DataFrame:
        table = self.table(self.after, "partitions")
        return known.newest_facts(table, self.listed.select(*PARTITION_KEY), [FactKind.FINDING])

    def judged(self, copies: DataFrame, now: int) -> DataFrame:
        task = JudgePartition(False, BrokerExpiry(now, DAY), self.is_bounded)
        return verdicts.verdicts(self.table(self.after, "partitions"), copies, self.listed.select(*PARTITION_KEY), task)

    def check_changes(self, place: str | None) -> DataFrame:
        tables = (self.table(self.before, name) for name in ("segments", "partitions", "remote_log_segments"))
        frame = changes.partition_changes(
            self.listed, *tables, options_digest=self.options.digest(place=place), check_crc=True
        ).persist()
        observed = [{**row, "wanted": row["wanted"] or []} for row in frame.toArrow().to_pylist()]
        assert sorted(observed, key=repr) == sorted(self.ran.changes, key=repr)
        return frame

    def check_decodes(self, changed: DataFrame) -> None:
        task = DecodeSegments(check_crc=True, run=self.number)
        frame = decoding.decode(decoding.wanted_segments(changed), task, decoding.Work(segments=8, bytes=1 << 30))
        expected = [row for row in self.after.segments if row["run"] == self.number]
        assert collected(frame, SEGMENTS) == plain(expected, SEGMENTS)

    def check_facts(self, changed: DataFrame, runner: Runner) -> None:
        """What was put lies there by now, so it is not put by this replay."""
        tables = self.table(self.after, "segments"), self.table(self.before, "partitions")
        sink = StoredSnapshots(runner.store, f"run-{runner.runs}")
        task = ReplayPartition(self.options, sink, self.number, runner.runs, self.look)
        wanted = changed.where("is_changed").select(*PARTITION_KEY, "start_offset")
        replayed = replaying.Changed(wanted, wanted.count(), segments=1)
        rows = replaying.partition_input(self.listed, replayed, *tables, is_bounded=self.is_bounded)
        frame = replaying.replay(rows, task)
        observed = frame.toArrow().to_pylist()
        assert facts_of(observed) == facts_of(self.ran.appended)

    def check_differences(self) -> list[Row]:
        table = self.table(self.before, "remote_log_segments")
        expected = reference.differences(self.ran.listed, self.before.remote_log_segments, run=self.number)
        frame = remote_states.differences(self.listed, table, run=self.number)
        assert collected(frame, REMOTE_LOG_SEGMENTS) == plain(expected, REMOTE_LOG_SEGMENTS)
        return expected

    def check_ready(self, found: list[Row], now: int) -> None:
        readiness = self.judged(self.frame(self.before.remote_log_segments + found, REMOTE_LOG_SEGMENTS), now)
        frame = tiering.ready_segments(readiness, self.listed, READY)
        assert collected(frame, READY) == plain(self.ran.ready, READY)

    def check_verdicts(self, now: int) -> None:
        judged = self.judged(self.table(self.after, "remote_log_segments"), now)
        assert collected(judged, READINESS) == plain(self.ran.readiness, READINESS)
        stored = verdicts.current(self.table(self.before, "readiness"), self.listed)
        news = verdicts.news(verdicts.beside_stored(judged, stored), run=self.number, now=now)
        expected = [row for row in self.after.readiness if row["run"] == self.number]
        assert collected(news, STORED_VERDICTS) == plain(expected, STORED_VERDICTS)


def test_every_stage_says_what_the_joins_in_plain_python_say(
    spark: SparkSession, tmp_path: Path, logs: list[LivingLog]
) -> None:
    sources = tuple(str(log.log_dir) for log in logs)
    runner, choice = Runner(tmp_path, tmp_path), random.Random(5)
    tiered = decoded = continued = 0
    for number in range(ROUNDS + 1):
        if number:
            for place, log in enumerate(logs):
                retention = ["retain"] if log.is_tiered and number > 1 else []
                for step in ("roll_and_append", choice.choice(STEPS), *retention):
                    live(log, step, tmp_path / f"oracle{number}-{place}-{step}")
        if number == 2:
            lose_a_snapshot_and_a_copy(runner)
        before = copy.deepcopy(runner.tables)
        run = before.next_run()
        ran = runner(sources=sources)
        stages = Stages(spark, before, runner.tables, ran, run, look=Observe(aiven(runner.store)))
        continued += sum(
            is_continued(each.on_disk(""), each.remote.copies) is True for each in LISTED_ROWS.read_dicts(ran.listed)
        )
        changed = stages.check_changes(runner.store.uri)
        stages.check_decodes(changed)
        stages.check_facts(changed, runner)
        stages.check_ready(stages.check_differences(), runner.runs)
        stages.check_verdicts(runner.runs)
        tiered, decoded = tiered + ran.segments_uploaded, decoded + len(ran.decoded)
        changed.unpersist()
        stages.listed.unpersist()
    assert continued > 2, "local retention took the beginning of some"
    assert tiered > LOGS
    assert decoded > 4 * LOGS


def test_a_bounded_scan_says_so_too(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(4):
        log = AgingLog(seed, 8 + seed * 5)
        folder = log.write(tmp_path / f"logs{seed}")
        if seed % 2:  # else nothing proves what is open before the window
            brokers_files(log, folder, log.segments)
    sources = tuple(str(tmp_path / f"logs{seed}") for seed in range(4))
    options = ReplayOptions(7 * DAY, NOW, DAY, scan=Scan.WINDOW)
    runner, before = Runner(tmp_path, tmp_path), Tables()
    ran = runner(sources=sources, expiration=7 * DAY, as_of=NOW, scan=Scan.WINDOW)
    assert all(row["window_offset"] for row in ran.listed)
    assert ran.verdicts["UNKNOWN_TRANSACTIONS"] and ran.verdicts["UPLOADED"]
    stages = Stages(spark, before, runner.tables, ran, 1, options)
    changed = stages.check_changes(runner.store.uri)
    stages.check_decodes(changed)
    stages.check_facts(changed, runner)
    stages.check_ready(stages.check_differences(), runner.runs)
    stages.check_verdicts(runner.runs)


def test_a_first_run_over_a_log_that_is_tiered_starts_behind_what_is_there(
    spark: SparkSession, tmp_path: Path, logs: list[LivingLog]
) -> None:
    sources = tuple(str(log.log_dir) for log in logs[:3])
    earlier = Runner(tmp_path, tmp_path)
    assert earlier(sources=sources).segments_uploaded
    for log in logs[:3]:
        log.roll_and_append()
        log.high_watermark = log.end
        log.write_checkpoints()
    poisoned = poisoned_tier(tmp_path / "at", "churn-0", rebuilt=5, local_from=7, remote=Path(earlier.remote))
    runner = Runner(tmp_path / "new", tmp_path, remote=earlier.remote, runs=10)
    ran = runner(sources=(*sources, str(poisoned.logs)))
    started = [row["topic"] for row in ran.listed if row["snapshot_offset"] is not None]
    assert len(started) == 3
    assert all(change["left_out_count"] for change in ran.changes if change["topic"] in started)
    of_files = {
        row["snapshot_offset"]: row for row in ran.facts if row["topic"] == "churn" and row["kind"] == "BOUNDARY"
    }
    assert {offset: row["lacking"] for offset, row in of_files.items()} == {804: 326, 919: 325, 937: 325}
    stages = Stages(spark, Tables(), runner.tables, ran, 1, look=Observe(aiven(runner.store)))
    changed = stages.check_changes(runner.store.uri)
    stages.check_decodes(changed)
    stages.check_facts(changed, runner)
    stages.check_ready(stages.check_differences(), runner.runs)
    stages.check_verdicts(runner.runs)


@pytest.mark.nightly
def test_what_was_found_lost_or_was_taken_on_trust_is_looked_at_again(spark: SparkSession, tmp_path: Path) -> None:
    batches = {base: [data_batch(base, 10, base, 0, 0)] for base in (0, 10, 20)}
    folder = write_partition(tmp_path / "logs", "orders", 0, batches, high_watermark=30, indexes=True)
    epochs = folder / "leader-epoch-checkpoint"
    text = epochs.read_text()
    epochs.write_text(leader_epochs_text([(0, 30)]))  # so that nothing is tiered yet
    runner = Runner(tmp_path, tmp_path / "logs")
    runner(check_crc=False)

    def check_next() -> Ran:
        before = copy.deepcopy(runner.tables)
        ran = runner()
        Stages(spark, before, runner.tables, ran, before.next_run()).check_changes(runner.store.uri).unpersist()
        return ran

    assert len(check_next().decoded) == 3, "no checksum was compared"
    runner.store.delete([next(key for key in runner.objects() if f"{20:020d}.snapshot" in key)])
    epochs.write_text(text)
    assert "was deleted" in check_next().errors[0]
    ran = check_next()
    assert ran.changes[0]["is_changed"]
    assert ran.changes[0]["start_offset"] is None, "from its beginning"
    assert ran.segments_uploaded == 1


def test_what_one_run_could_not_know_or_did_not_see_is_told_alike(spark: SparkSession, tmp_path: Path) -> None:
    batches = {base: [data_batch(base, 10, base, 0, 0)] for base in (0, 10, 20, 30)}
    folder = write_partition(tmp_path / "logs", "orders", 0, batches, high_watermark=40, indexes=True)
    high_watermarks = tmp_path / "logs" / "replication-offset-checkpoint"
    runner = Runner(tmp_path, tmp_path / "logs")
    remote, away = Path(runner.remote), tmp_path / "away"

    def check_next(*, apply: bool = True) -> Ran:
        before = copy.deepcopy(runner.tables)
        ran = runner(apply=apply)
        stages = Stages(spark, before, runner.tables, ran, before.next_run(), look=Observe(aiven(runner.store)))
        stages.check_changes(runner.store.uri if apply else None).unpersist()
        stages.check_differences()
        stages.check_verdicts(runner.runs)
        stages.listed.unpersist()
        return ran

    for offset, expected in (
        (25, {"ABOVE_LSO": 1, "ACTIVE_SEGMENT": 1, "UPLOADED": 2}),
        (40, {"ACTIVE_SEGMENT": 1, "UPLOADED": 3}),
    ):
        high_watermarks.write_text(f"0\n1\norders 0 {offset}\n")
        found = check_next()
        assert found.verdicts == expected
    remote.rename(away)
    assert "UPLOADED" not in check_next(apply=False).verdicts
    shutil.rmtree(remote, ignore_errors=True)
    away.rename(remote)
    assert check_next().verdicts == found.verdicts
    runner.store.delete([key for key in runner.objects() if f"{20:020d}-" in key])
    path = folder / f"{20:020d}.log"
    before = path.stat()
    path.write_bytes(data_batch(20, 10, 77, 0, 0))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "changed since tiersnap decoded it" in check_next().errors[0]
    assert check_next().decoded == [("orders", 20)]


@pytest.mark.nightly
def test_copies_are_those_of_the_topic_also_where_another_one_was_given_its_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10)}
    for topic in ("orders", "payments"):
        write_partition(tmp_path / "logs", topic, 0, batches, high_watermark=20, indexes=True, topic_id=None)
    runner, one_id = Runner(tmp_path, tmp_path / "logs"), "lZ6vvmajTWKDBUTV6SQAtQ"
    runner(topic_ids={"payments": one_id})
    before = copy.deepcopy(runner.tables)
    ran = runner(topic_ids={"payments": one_id, "orders": one_id}, apply=False)
    assert ran.verdicts == {"ACTIVE_SEGMENT": 2, "UPLOADED": 1, "MISSING_SNAPSHOT": 1}
    stages = Stages(spark, before, runner.tables, ran, before.next_run(), look=Observe(aiven(runner.store)))
    stages.check_differences()
    stages.check_verdicts(runner.runs)


@pytest.mark.parametrize("was_counted", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_a_copy_that_nobody_finished_is_ready_and_finished_alike(
    spark: SparkSession, tmp_path: Path, was_counted: bool
) -> None:
    batches = {base: [data_batch(base, 10, base, 0, 0)] for base in (0, 10, 20)}
    write_partition(tmp_path / "logs", "orders", 0, batches, high_watermark=30, indexes=True)
    runner = Runner(tmp_path, tmp_path / "logs")
    runner(store=NoFinish(runner.store, 1))  # type: ignore[arg-type]
    rows = runner.tables.remote_log_segments
    finished = [{**row, "state": "COPY_SEGMENT_FINISHED"} for row in rows if row["state"] == "COPY_SEGMENT_STARTED"]
    rows[:] = finished if was_counted else []  # as of a run that was killed before its commit
    for ready in (2, 0):
        before = copy.deepcopy(runner.tables)
        ran = runner()
        stages = Stages(spark, before, runner.tables, ran, before.next_run(), look=Observe(aiven(runner.store)))
        found = stages.check_differences()
        stages.check_ready(found, runner.runs)
        stages.check_verdicts(runner.runs)
        stages.listed.unpersist()
        assert (ran.errors, len(ran.ready), ran.commits > 0) == ([], ready, ready > 0)
        assert [(row["state"], row["is_ours"]) for row in found] == [("COPY_SEGMENT_STARTED", True)] * (ready > 0)
        outcome = RunOutcome()
        count_tiered(outcome, stages.table(runner.tables, "remote_log_segments"), before.next_run())
        assert (outcome.copies_finished, outcome.counts.segments_uploaded) == (ready // 2, ready // 2)


def lose_a_snapshot_and_a_copy(runner: Runner) -> None:
    keys = sorted(runner.objects())
    runner.store.delete([max(key for key in keys if key.endswith(".rsm-manifest"))])
    runner.store.delete([next(key for key in reversed(keys) if key.endswith(".snapshot"))])


@pytest.mark.nightly
def test_run_counts_findings_as_other_commands_do(spark: SparkSession) -> None:
    key = {"log_dir": "/logs", "topic": "orders", "partition": 0}
    every = [Finding(kind, "/logs/orders-0/x", -1, "said") for kind in FindingKind]
    gone = [Finding(FindingKind.DELETED_FILE, "/logs/orders-0/x", -1, DELETED)]
    for found in ([], gone, [each for each in every if each.finding_kind in NOT_DAMAGED], every):
        rows = [
            {**key, "kind": "FINDING", "part": part, "run": 1, "has_ended": False,
             "finding_kind": str(each.finding_kind), "path": each.path,
             "position": each.position, "message": each.message}
            for part, each in enumerate(found)
        ]  # fmt: skip
        outcome = RunOutcome()
        findings = spark.createDataFrame(arrow_table("partitions", rows))
        count_findings(outcome, of_findings(findings).collect(), findings)
        assert (outcome.finding_count, outcome.findings) == (len(found), found[:MOST_TOLD])
        settings = RunSettings(("/logs",), "/remote", "/warehouse", apply=True)
        assert exit_code_of(outcome.problems(settings)) is exit_code_of(found)


@pytest.mark.nightly
def test_run_doubts_a_place_that_holds_nothing_of_any_log(spark: SparkSession) -> None:
    settings = RunSettings(("/logs",), "/remote", "/warehouse", apply=True)
    for lacking, code in (([None, True], 4), ([True, False], 0), ([None, None], 0)):
        rows = [
            {"log_dir": "/logs", "topic": "orders", "partition": number, "lacks_beginning": lacks}
            for number, lacks in enumerate(lacking)
        ]
        outcome = RunOutcome()
        columns = pa.schema([each.with_nullable(True) for each in LISTED])  # the others are not looked at
        listed = spark.createDataFrame(pa.Table.from_pylist(rows, columns))
        count_doubt(outcome, asked([of_listing(listed)]).doubted, "s3://elsewhere/")
        assert exit_code_of(outcome.problems(settings)) == code
        said = "orders-1: the log begins in remote storage, but s3://elsewhere/ has no segment of it"
        assert [str(each.message) for each in outcome.errors] == ([said] if code else [])


@pytest.mark.nightly
def test_run_names_the_partitions_that_lost_offsets(spark: SparkSession) -> None:
    lost = [LostRange(0, 10)._asdict(), LostRange(20, 30)._asdict()]
    rows = [
        {"log_dir": log_dir, "topic": "orders", "partition": number, "lost": ranges}
        for number, (log_dir, ranges) in enumerate([("/logs", None), ("/logs", []), ("/logs", lost), ("/sent", lost)])
    ]
    columns = pa.schema([each.with_nullable(True) for each in LISTED])  # the others are not looked at
    listed = spark.createDataFrame(pa.Table.from_pylist(rows, columns))
    outcome, settings = RunOutcome(), RunSettings(("/logs", "/sent"), "/remote", "/warehouse", apply=True)
    count_lost(outcome, asked([of_listing(listed)]).lost, listed, ["/remote", "--layout", "aiven"], {"/sent"})
    assert (outcome.error_count, exit_code_of(outcome.problems(settings))) == (2, ExitCode.DATA_CORRUPT)
    assert not outcome.may_end_better, "no plan names --apply for them"
    said = "no complete remote segment of this log has the offsets 0 to 9, 20 to 29"
    assert [(each.message, each.hint) for each in outcome.errors] == [
        (f"orders-2: {said}", "tiersnap verify /logs --remote /remote --layout aiven --depth metadata"),
        (f"orders-3: {said}", "tiersnap verify --remote /remote --layout aiven"),
    ]


@pytest.mark.nightly
def test_findings_stay_until_what_they_are_about_is_mended(spark: SparkSession, tmp_path: Path) -> None:
    segments = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10)}
    damaged = write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=20) / f"{0:020d}.log"
    write_partition(tmp_path / "logs", "sound", 0, segments, high_watermark=20)
    sound = damaged.read_bytes()
    damaged.write_bytes(sound[:-1] + b"?")
    runner = Runner(tmp_path, tmp_path / "logs")

    def told() -> tuple[int, list[str]]:
        ran = runner()
        findings = Stages(spark, runner.tables, runner.tables, ran, runner.tables.next_run()).findings()
        outcome = RunOutcome()
        count_findings(outcome, of_findings(findings).collect(), findings)
        return outcome.finding_count, [each.path for each in outcome.findings]

    first = told()
    assert first == (1, [str(damaged)])
    assert told() == first, "a run that replays nothing says it as well"
    damaged.write_bytes(sound)
    assert told() == (0, [])


@pytest.mark.nightly
def test_listing_sees_folders_as_they_are_beside_a_cached_one(spark: SparkSession, tmp_path: Path) -> None:
    """A killed client of Spark Connect leaves its cache in the server, where the next run's plan would be equal."""
    segments = {0: [data_batch(0, 10)], 10: [data_batch(10, 10)]}
    folder = write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=20)
    to = tmp_path / "to"
    collect = ("collect", folder.parent, "--to", to, "--headers", "--apply")
    assert tiersnap(*collect).exit_code == 0
    for bases, left in (((0, 10), True), ((0, 10, 20), False)):
        frames = [
            listing.listed_segments(
                listing.list_partitions(listing.folders(spark, [(str(source), folder.name)]), ListPartitions())
            )
            for source in (folder.parent, to)
        ]
        frames.append(collected_batches(spark, str(to)))
        if left:
            frames = [frame.persist() for frame in frames]
        assert [frame.count() for frame in frames] == [len(bases)] * 3
        (folder / f"{20:020d}.log").write_bytes(data_batch(20, 10))
        assert tiersnap(*collect).exit_code == 0


@pytest.mark.nightly
def test_the_newest_decodes_and_states_are_those_of_the_greatest_run(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("a", 2, 1), ("a", 3, 2), ("a", 3, 3), ("b", 1, 4)], "key string, run long, value long"
    )
    assert sorted(row.value for row in newest(rows, ["key"]).select(col("value")).collect()) == [2, 3, 4]


@pytest.mark.nightly
def test_of_several_replicas_the_leader_s_is_taken_and_none_is_lost_without_one(spark: SparkSession) -> None:
    replicas = [("a", "x", 0), ("b", "x", 0), ("c", "x", 0), ("a", "y", 0), ("b", "z", 0), ("c", "z", 0)]
    rows = spark.createDataFrame(replicas, "log_dir string, topic string, partition int")
    kept = {(row.log_dir, row.topic) for row in leading.led(rows, ["a"]).collect()}
    assert kept == {("a", "x"), ("a", "y"), ("b", "z"), ("c", "z")}


@pytest.mark.nightly
def test_of_several_replicas_the_cluster_s_leader_is_taken_and_none_without_one_which_is_said(
    spark: SparkSession,
) -> None:
    replicas = {"x": "abc", "alone": "a", "z": "bc", "unled": "ab", "elsewhere": "abc", "unknown": "ac"}
    rows = spark.createDataFrame(
        [(log_dir, topic, 0) for topic, log_dirs in replicas.items() for log_dir in log_dirs],
        "log_dir string, topic string, partition int",
    )
    told = [("x", 2, ["b", "b2"]), ("alone", 4, ["d"]), ("z", 3, ["c"]), ("unled", -1, []), ("elsewhere", 9, [])]
    leaders = spark.createDataFrame(
        pa.Table.from_pylist(
            [dict(zip(LEADERS.names, (topic, 0, *of_it), strict=True)) for topic, *of_it in told], LEADERS
        )
    )
    kept = {(row.log_dir, row.topic) for row in leading.led_by_cluster(rows, leaders).collect()}
    assert kept == {("b", "x"), ("a", "alone"), ("c", "z")}
    outcome = RunOutcome()
    count_unled(outcome, leading.unled(rows, leaders))
    said = [(type(error), error.message.split(";")[0]) for error in outcome.errors]
    assert said == [
        (UnfinishedError, "elsewhere-0: broker 9 is the leader, and no source is a log directory of that broker"),
        (UnfinishedError, "unknown-0: the cluster does not have the partition"),
        (TransientError, "unled-0: the partition has no leader now"),
    ]
    assert outcome.error_codes == {ExitCode.PARTIAL: 2, ExitCode.TRANSIENT: 1}
    assert "2 replicas" in outcome.errors[2].message
    passing = RunOutcome()
    count_unled(passing, leading.unled(rows, leaders).where("topic = 'unled'"))
    assert passing.error_codes == {ExitCode.TRANSIENT: 1}
