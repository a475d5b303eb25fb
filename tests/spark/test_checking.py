"""`tiersnap verify --remote --warehouse`: the table says what a host says, and what it tells is skipped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.fleet_run import Runner, arrow_table
from tests.reference.planned import TOPIC_ID
from tests.reference.poisoned_tier import NOW, PoisonedTier, poisoned_tier
from tests.reference.tiered import aiven, tier
from tiersnap.jobs.cli import delta_tables
from tiersnap.jobs.cli.option_types import parse_time
from tiersnap.jobs.pipeline.checking import CHECK_KEY, compared_snapshots, holding, to_check, verified
from tiersnap.jobs.pipeline.maintenance import superseded_keys
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.verify.check_plan import CheckPlan
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.tables.all_tables import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.nightly]
LOGS = Path(__file__).parents[1] / "data/kafka-3.9.1/logs"
DAY = 86_400_000


def checked(at: PoisonedTier, *more: str | Path) -> Ran:
    return tiersnap("verify", "--remote", at.remote, *NOW, *more)


def rows_of(spark: SparkSession, warehouse: Path) -> list[dict[str, Any]]:
    rows = spark.read.format("delta").load(str(warehouse / "remote_checks"))
    return [row.asDict() for row in rows.orderBy("run", "base_offset").collect()]


def test_verify_on_spark_says_what_a_host_says_and_skips_it_next_time(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    on_host = checked(at).rows
    fleet = checked(at, "--warehouse", warehouse)
    assert_said(fleet, 4, "5 of 7 remote segments are sound")
    found = [{name: value for name, value in row.items() if name != "run"} for row in rows_of(spark, warehouse)]
    assert found == on_host
    assert fleet.rows == [row for row in on_host if row["verdict"] == "SUSPECT"]

    again = checked(at, "--warehouse", warehouse)
    assert_said(again, 4, "5 segments were skipped")
    assert [row["base_offset"] for row in rows_of(spark, warehouse) if row["run"] == 2] == [574, 685]
    later = str(parse_time(NOW[1]) + 31 * DAY)
    assert_said(tiersnap("verify", "--remote", at.remote, "--now", later, "--warehouse", warehouse), 0, "7 of 7")
    assert verified(Warehouse(spark, str(warehouse))) == delta_tables.remote_checks(str(warehouse))
    gone = superseded_keys(Warehouse(spark, str(warehouse)).read("remote_checks"), CHECK_KEY).groupBy("run").count()
    assert {row["run"]: row["count"] for row in gone.collect()} == {1: 7, 2: 2}


def test_to_check_makes_no_more_tasks_than_a_shuffle(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    plan = CheckPlan(aiven(DirectoryStore(tmp_path)), CheckRequest(CheckDepth.METADATA, 0, None))
    plan.partitions.update({TopicIdPartition("orders", TOPIC_ID, number): 1 for number in range(20)})
    tables = Warehouse(spark, str(warehouse))
    compared = compared_snapshots(tables.read("partitions"))
    rows = to_check(spark, plan, holding(tables.read("remote_checks"), now=0, recheck=None), compared)
    assert rows.count() == 20
    assert rows.rdd.getNumPartitions() == 2


def test_verify_on_spark_knows_snapshots_that_a_run_compared(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    shutil.copytree(LOGS, tmp_path / "logs", ignore=shutil.ignore_patterns("__*", "compacted-*", "trimmed-*"))
    remote = DirectoryStore(tmp_path / "tier")
    for folder in sorted((tmp_path / "logs").glob("*-?")):
        tier(folder, remote)
    runner = Runner(tmp_path, tmp_path / "logs")
    runner(apply=False, as_of=None)
    rows = arrow_table("partitions", runner.tables.partitions)
    into = Warehouse(spark, str(warehouse))
    into.append("partitions", spark.createDataFrame(rows, of_arrow(TABLES["partitions"])), run_id="test")
    assert_said(tiersnap("verify", "--remote", remote.root, "--warehouse", warehouse), 0, "19 MATCHES")
    assert {row["compared_with"] for row in rows_of(spark, warehouse)} == {"WAREHOUSE"}

    words = ("--source", tmp_path / "logs", "--remote", remote.root, "--warehouse", warehouse)
    assert_said(tiersnap("run", *words, "--report", tmp_path / "page"), 0)
    page = json.loads((tmp_path / "page/readiness.json").read_text())
    checked = [each["remote_checked"] for topic in page["topics"] for each in topic["partitions"]]
    assert sum(each["verified"] for each in checked if each is not None) == 19
