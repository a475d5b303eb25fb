"""`spark.read.format("delta")` as docs/warehouse.md shows it, and the metrics of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.command import tiersnap
from tests.reference.small_log import file_of, write_small_log
from tests.unit.test_warehouse_readers import EXAMPLES

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


def test_sparks_reader_shows_suspects_and_states_and_a_run_leaves_its_metrics(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_small_log(tmp_path / "logs")
    for offset in (10, 15):  # what the log at 5 says is less than what it says at 10 and 15
        file_of(folder, offset, ".snapshot").write_bytes(file_of(folder, 5, ".snapshot").read_bytes())
    common = ("--source", tmp_path / "logs", "--warehouse", tmp_path / "tiersnap-warehouse")
    metrics = tmp_path / "tiersnap.prom"
    ran = tiersnap(
        "run",
        *common,
        "--remote",
        tmp_path / "remote",
        "--apply",
        "--metrics-file",
        metrics,
        "--report",
        tmp_path / "report",
    )
    assert ran.exit_code == 4, ran.err
    assert 'tiersnap_segments{command="run",topic="orders",verdict="UPLOADED"} 1' in metrics.read_text().splitlines()
    assert 'tiersnap_last_run_segments_uploaded{command="run"} 1' in metrics.read_text().splitlines()
    capsys.readouterr()
    # The JVM does not go where this process goes, so the place is a whole path.
    example = EXAMPLES["Spark"].replace("tiersnap-warehouse/", f"{tmp_path}/tiersnap-warehouse/")
    exec(compile(example, "docs/warehouse.md, Spark", "exec"), {"spark": spark})
    shown = capsys.readouterr().out
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines() if "orders" in line]
    assert sorted(line[:3] for line in lines if len(line) == 4) == [["orders", "0", "10"], ["orders", "0", "15"]]
    assert ["orders", "COPY_SEGMENT_FINI...", "1"] in lines
    runs = DeltaTable(tmp_path / "tiersnap-warehouse" / "runs").to_pyarrow_table()
    assert runs["segments_uploaded"].to_pylist() == [1]
