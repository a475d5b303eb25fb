"""A warehouse that an earlier version left is written on and maintained as one of today's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.command import assert_said, tiersnap
from tests.reference.recovered import TESTS
from tests.reference.small_log import write_small_log

pytestmark = pytest.mark.spark

TABLES = sorted((TESTS / "golden").glob("tables-*"))


@pytest.mark.parametrize("version", TABLES, ids=lambda path: path.name)
def test_a_run_goes_on_in_the_tables_of_an_earlier_version(spark: SparkSession, tmp_path: Path, version: Path) -> None:
    warehouse, logs = tmp_path / "warehouse", tmp_path / "logs"
    shutil.copytree(version, warehouse)
    logs.mkdir()
    write_small_log(logs, "payments")
    places = ("--remote", tmp_path / "remote", "--warehouse", warehouse)
    assert_said(tiersnap("run", "--source", logs, *places, "--report", tmp_path / "report", "--apply"), 0)
    assert_said(tiersnap("maintain", "tables", "--warehouse", warehouse, "--apply"), 0)
    rows = {row["name"]: row["segments"] for row in tiersnap("report", "--warehouse", warehouse).rows}
    assert rows == {"orders-0": 4, "payments-0": 4}
    assert [row["run"] for row in tiersnap("report", "runs", "--warehouse", warehouse).rows] == [2, 1]
