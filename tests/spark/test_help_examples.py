"""The examples in the help of the commands that need Spark, typed as they stand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.command import tiersnap
from tests.unit.commands.test_help import ELSEWHERE, EXAMPLES, in_world, world

pytestmark = [pytest.mark.spark, pytest.mark.nightly]
__all__ = ["world"]  # the fixture
# In the order in which they need each other: the report commands read what a run has recorded.
TYPED = sorted(
    ((command, example) for command, example in EXAMPLES if command in ELSEWHERE - {"demo"}),
    key=lambda each: (each[0] != "run", each[0]),
)


def test_examples_of_commands_on_spark_work_as_they_stand(
    spark: SparkSession, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "world"
    shutil.copytree(world, root, ignore=shutil.ignore_patterns("warehouse", "tiers"))
    for disk in ("broker-1", "broker-2"):
        shutil.copytree(root / ("data" if disk == "broker-1" else "disk-2"), root / disk)
    monkeypatch.chdir(root)
    for command, example in TYPED:
        ran = tiersnap(*in_world(example.replace("/mnt/", f"{root}/"), root), output="table")
        assert ran.exit_code in (0, 4, 6), (command, example, ran.err)
