"""A session that is somebody else's: docs/spark.md's notebook as it stands, and workers with the wrong Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.clusters import DELTA
from tests.spark.small_fleet import BASES, copies, write_fleet
from tiersnap.jobs.pipeline import delta_jars

pytestmark = [pytest.mark.spark, pytest.mark.nightly]
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spark.md"
# What a notebook shows of an error: all that it came from.
_FOREIGN = """
import json, sys, traceback
from pyspark.sql import SparkSession
import tiersnap
logs, folder, conf = sys.argv[1:]
spark = SparkSession.builder.config(map=json.loads(conf)).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
try:
    tiersnap.run(spark, tiersnap.RunSettings((logs,), f"{folder}/remote", f"{folder}/warehouse", apply=True))
except Exception as error:
    print("exit code", int(error.exit_code))
    print("".join(traceback.format_exception(error)))
"""


def test_notebook_of_the_page_runs_as_it_stands(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = write_fleet(tmp_path / "logs", partitions=1)
    _, section = PAGE.read_text(encoding="utf-8").split("\n## Your own session")
    cells = "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))
    for place, own in {
        "/opt/tiersnap/bin/python": sys.executable,
        "/mnt/kafka-volume": logs,
        "s3://bucket/tiers": tmp_path / "remote",
        "/mnt/shared/tiersnap-warehouse": tmp_path / "warehouse",
    }.items():
        assert cells.count(f'"{place}"') == 1
        cells = cells.replace(place, str(own))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    exec(compile(cells, PAGE.name, "exec"), {})
    tiered = len(copies(tmp_path / "remote"))
    assert tiered == len(BASES) - 1
    assert capsys.readouterr().out.endswith(f" {tiered}\n")
    assert (
        json.loads((tmp_path / "tiersnap-report" / "readiness.json").read_text())["run"]["segments_uploaded"] == tiered
    )


def test_session_whose_workers_lack_the_package_gets_one_sentence(tmp_path: Path) -> None:
    logs = write_fleet(tmp_path / "logs", partitions=1)
    venv.create(tmp_path / "bare", with_pip=False)
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": str(tmp_path / "bare" / "bin" / "python"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    conf = {**DELTA, "spark.master": "local[1]", "spark.driver.extraClassPath": ":".join(delta_jars.jars())}
    done = subprocess.run(
        [sys.executable, "-c", _FOREIGN, str(logs), str(tmp_path), json.dumps(conf)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert "exit code 2" in done.stdout, done.stderr
    assert "the run failed: the Python of the Spark workers lacks" in done.stdout
    assert "Caused by" not in done.stdout
    assert len(done.stdout.splitlines()) < 20


def test_run_leaves_its_report_alone_in_the_working_directory(tmp_path: Path) -> None:
    logs, elsewhere = write_fleet(tmp_path / "logs", partitions=1), tmp_path / "elsewhere"
    elsewhere.mkdir()
    words = ["run", "--source", logs, "--remote", tmp_path / "remote", "--warehouse", tmp_path / "warehouse", "--apply"]
    done = subprocess.run(
        [Path(sys.executable).with_name("tiersnap"), *map(str, words)],
        cwd=elsewhere, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [each.name for each in elsewhere.iterdir()] == ["tiersnap-report"]
