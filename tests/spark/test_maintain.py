"""`tiersnap maintain tables`: nothing that a reader asks for goes, everything else does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.reference.command import assert_said, tiersnap
from tests.reference.fleet_run import Runner, arrow_table
from tests.reference.living_log import LivingLog
from tests.reference.schemas import assert_follows_schema
from tiersnap.jobs.pipeline.maintenance import maintain, superseded_segments
from tiersnap.jobs.pipeline.newest import current_facts, newest
from tiersnap.jobs.pipeline.remote_states import current
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.remote_storage.errors import LeaseLostError
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.tables.all_tables import TABLES
from tiersnap.snapshot.tables.schema_parts import SEGMENT_KEY

pytestmark = [pytest.mark.spark, pytest.mark.nightly]
NAMES = ("segments", "partitions", "remote_log_segments")


def read(warehouse: Warehouse) -> list[list[str]]:
    """What a run, and a report, read of the tables."""
    segments, partitions, remote = (warehouse.read(name) for name in NAMES)
    asked = newest(segments, SEGMENT_KEY), current_facts(partitions), current(remote)
    return [sorted(repr(row.asDict(recursive=True)) for row in rows.collect()) for rows in asked]


def frame(spark: SparkSession, rows: list[dict], name: str) -> DataFrame:
    schema = TABLES[name]
    return spark.createDataFrame(arrow_table(name, rows), of_arrow(schema))


def test_what_readers_ask_for_stays_and_all_else_goes(spark: SparkSession, tmp_path: Path) -> None:
    log = LivingLog(tmp_path / "logs", 3)
    runner = Runner(tmp_path, log.log_dir)
    for _ in range(4):
        log.roll_and_append()
        log.high_watermark = log.end
        log.write_checkpoints()
        runner()
    first = log.bases()[0]
    for path in (log.log_dir / "orders-0").glob(f"{first:020d}.*"):
        path.unlink()
    runner()
    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    for name in NAMES:
        warehouse.append(name, frame(spark, getattr(runner.tables, name), name), run_id="before")
    before = read(warehouse)
    gone = [row for row in before[0] if f"'base_offset': {first}," in row]
    assert gone

    planned = {each.table: each for each in maintain(warehouse, apply=False)}
    assert read(warehouse) == before
    done = {each.table: each for each in maintain(warehouse, apply=True)}

    assert {table: each.superseded for table, each in done.items()} == {
        table: each.superseded for table, each in planned.items()
    }
    assert read(warehouse) == [[row for row in before[0] if row not in gone], *before[1:]]
    for name, rows in zip(NAMES, read(warehouse), strict=True):
        assert warehouse.read(name).count() == len(rows), name
        assert done[name].rows == len(getattr(runner.tables, name))
    assert [each.superseded for each in maintain(warehouse, apply=False)] == [0, 0, 0]


def test_files_that_a_killed_commit_left_go_once_nobody_can_be_at_them(spark: SparkSession, tmp_path: Path) -> None:
    log = LivingLog(tmp_path / "logs", 3)
    runner = Runner(tmp_path, log.log_dir)
    runner(apply=False)
    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    rows = frame(spark, runner.tables.partitions, "partitions").coalesce(1)
    warehouse.append("partitions", rows, run_id="run")
    folder = Path(warehouse.path("partitions"))
    committed = set(folder.glob("*.parquet"))

    def killed(age_days: int) -> set[Path]:
        """A commit that died between its files and the log."""
        before = set(folder.glob("*.parquet"))
        rows.write.mode("append").parquet(str(folder))
        left = set(folder.glob("*.parquet")) - before
        for path in left:
            os.utime(path, (time.time() - age_days * 86_400,) * 2)
        return left

    old, young = killed(8), killed(1)
    assert old and young
    before = sorted(repr(row) for row in warehouse.read("partitions").collect())
    assert len(before) == len(runner.tables.partitions)
    list(maintain(warehouse, apply=False))
    assert set(folder.glob("*.parquet")) == committed | old | young, "a plan deletes nothing"
    list(maintain(warehouse, apply=True))
    assert set(folder.glob("*.parquet")) == committed | young
    assert sorted(repr(row) for row in warehouse.read("partitions").collect()) == before


@pytest.mark.parametrize("apply", [False, True])
def test_a_time_in_which_readers_may_be_at_files_is_refused_before_anything_is_done(
    spark: SparkSession, tmp_path: Path, apply: bool
) -> None:
    log = LivingLog(tmp_path / "logs", 3)
    runner = Runner(tmp_path, log.log_dir)
    runner(apply=False)
    runner(apply=False)
    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    warehouse.append("partitions", frame(spark, runner.tables.partitions, "partitions"), run_id="run")
    before = sorted((tmp_path / "warehouse").rglob("*"))
    with pytest.raises(UsageError, match="--vacuum-after 1d") as caught:
        list(maintain(warehouse, apply=apply, vacuum_after_hours=24))
    assert "retentionDurationCheck" in caught.value.hint
    assert sorted((tmp_path / "warehouse").rglob("*")) == before


def test_maintenance_that_lost_its_lease_changes_no_table(spark: SparkSession, tmp_path: Path) -> None:
    log = LivingLog(tmp_path / "logs", 3)
    runner = Runner(tmp_path, log.log_dir)
    runner(apply=False)

    def check() -> None:
        raise LeaseLostError("another run has taken over the lock of this warehouse")

    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    warehouse.append("partitions", frame(spark, runner.tables.partitions, "partitions"), run_id="run")
    before = sorted((tmp_path / "warehouse").rglob("*"))
    with pytest.raises(LeaseLostError):
        list(maintain(Warehouse(spark, str(tmp_path / "warehouse"), check), apply=True))
    assert sorted((tmp_path / "warehouse").rglob("*")) == before


def test_a_replay_that_came_to_no_end_says_of_no_segment_that_it_is_gone(spark: SparkSession) -> None:
    key = "log_dir string, topic string, partition int"
    decodes = [("/logs", "orders", number, base, 1) for number in (0, 1) for base in (0, 10)]
    facts = [("/logs", "orders", number, "REPLAYED", None, None, 0, 2, False) for number in (0, 1)]
    facts.append(("/logs", "orders", 1, "SEGMENT", None, 10, 0, 2, False))
    segments = spark.createDataFrame(decodes, f"{key}, base_offset long, run long")
    of_fact = "kind string, snapshot_offset long, base_offset long, part int, run long, has_ended boolean"
    partitions = spark.createDataFrame(facts, f"{key}, {of_fact}")
    gone = superseded_segments(segments, partitions).collect()
    assert [(row.partition, row.base_offset) for row in gone] == [(1, 0)]


def test_what_delta_lake_prints_is_not_in_the_json(spark: SparkSession, tmp_path: Path) -> None:
    """In a process of its own, because what a JVM prints goes past what a test replaces."""
    log = LivingLog(tmp_path / "logs", 1)
    runner = Runner(tmp_path, log.log_dir)
    runner()
    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    for name in NAMES:
        warehouse.append(name, frame(spark, getattr(runner.tables, name), name), run_id="before")
    words = ["--output", "json", "maintain", "tables", "--warehouse", str(tmp_path / "warehouse"), "--apply"]
    command = [sys.executable, "-m", "tests.reference.tiersnap", *words, "--master", "local[1]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert_follows_schema(done.stdout, "json", command="maintain tables")
    assert "Deleted" in done.stderr, "or Delta Lake prints no more of it, and this test asserts nothing"


def test_a_place_without_a_warehouse_is_refused_and_made_by_no_plan(spark: SparkSession, tmp_path: Path) -> None:
    log, place = LivingLog(tmp_path / "logs", 1), tmp_path / "mistyped"
    assert '"segments": ' in tiersnap("decode", "--source", str(log.log_dir), "--warehouse", str(place)).out
    assert not place.exists()
    assert_said(tiersnap("maintain", "tables", "--warehouse", str(place), "--apply"), 2, "the folder does not exist")
    assert not place.exists()
