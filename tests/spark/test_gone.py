"""What is not where it was is said once, and not again at every run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.run import run as run_job
from tiersnap.jobs.pipeline.settings import RunSettings

pytestmark = [pytest.mark.spark, pytest.mark.nightly]
IDS = {"orders": "lZ6vvmajTWKDBUTV6SQAtQ", "payments": "5GXaOJXiRzOuReKRIUWzvw"}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for topic, topic_id in IDS.items():
        segments = {base: [data_batch(base, 5, 1, 0, base)] for base in (0, 5)}
        write_partition(tmp_path / "logs", topic, 0, segments, topic_id=topic_id, high_watermark=10, indexes=True)
    return tmp_path / "logs"


def run(spark: SparkSession, logs: Path, **more: object) -> RunOutcome:
    places = (str(logs),), str(logs.parent / "remote"), str(logs.parent / "warehouse")
    return run_job(spark, RunSettings(*places, apply=True, no_upload=True, **more))  # type: ignore[arg-type]


def reported(logs: Path) -> set[str]:
    return {row["name"] for row in tiersnap("report", "--warehouse", logs.parent / "warehouse").rows}


def test_a_partition_that_is_gone_leaves_the_report_and_comes_back_with_its_folder(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    with (logs / "orders-0" / f"{5:020d}.snapshot").open("wb") as file:
        file.truncate(5 << 30)
    run(spark, logs)
    assert reported(logs) == {"orders-0", "payments-0"}
    shutil.move(logs / "payments-0", tmp_path / "elsewhere")
    again = run(spark, logs, topic="orders")
    assert again.counts.delta_commits == 0, "it did not look for the other, and what it cannot read is no news"
    assert reported(logs) == {"orders-0", "payments-0"}
    run(spark, logs)
    assert reported(logs) == {"orders-0"}
    assert run(spark, logs).counts.delta_commits == 0, "said once"
    shutil.move(tmp_path / "elsewhere", logs / "payments-0")
    run(spark, logs)
    assert reported(logs) == {"orders-0", "payments-0"}
    assert run(spark, logs).counts.delta_commits == 0


def test_the_settings_of_the_last_run_fill_the_commands_of_the_report(spark: SparkSession, logs: Path) -> None:
    run(spark, logs, options={"run": ("--layout", "local-tiered-storage")})
    (settings,) = DeltaTable(str(logs.parent / "warehouse" / "runs")).to_pyarrow_table()["settings"].to_pylist()
    assert json.loads(settings)["options"] == {"run": ["--layout", "local-tiered-storage"]}
    rows = tiersnap("report", "--warehouse", logs.parent / "warehouse", "--by", "segment").rows
    text = json.dumps(rows)
    assert f"--source {logs}" in text
    assert "--layout local-tiered-storage" in text
