"""What Spark moves: payload columns go to the task that folds them, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.small_fleet import write_fleet
from tiersnap.jobs.pipeline import changes, known, replaying, verdicts
from tiersnap.jobs.pipeline.run import run
from tiersnap.jobs.pipeline.schemas import LISTED
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


def plan_of(rows: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    rows.explain("formatted")
    return capsys.readouterr().out


def test_run_moves_payload_to_the_replay_alone(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, warehouse = write_fleet(tmp_path / "logs"), Warehouse(spark, str(tmp_path / "warehouse"))
    run(spark, RunSettings((str(logs),), str(tmp_path / "remote"), warehouse.uri, apply=True))
    tables = [warehouse.read(name) for name in ("segments", "partitions", "remote_log_segments")]
    listed = spark.read.schema(LISTED).parquet(warehouse.path("scratch/listed"))
    found = changes.partition_changes(listed, *tables, options_digest="", check_crc=True)
    among = listed.select(*PARTITION_KEY)
    judged = verdicts.verdicts(tables[1], tables[2], among, JudgePartition(False, BrokerExpiry(1, None)))
    for rows in (found, judged, known.newest_runs(*tables, warehouse.read("runs"))):
        assert "deltas" not in plan_of(rows, capsys)

    # A state looks at all segments of its partition: beside the explode that would be for each of them.
    exploded = re.findall(r"\) Generate.*\n(?:Input .*\n)?Arguments: (.*)", plan_of(found, capsys))
    assert exploded and all("partition_state#" in each for each in exploded), exploded

    one = found.where("partition = 0").select(*PARTITION_KEY, "start_offset")
    plan = plan_of(replaying.partition_input(listed, replaying.Changed(one, 1, 4), *tables[:2]), capsys)
    assert "deltas" in plan
    moved = re.findall(r"\) (?:Broadcast)?Exchange\nInput \[\d+\]: \[(.*)\]", plan)
    assert moved
    assert not [each for each in moved if re.search("deltas|state#|decode#|fact#", each)], "keys and runs alone"
