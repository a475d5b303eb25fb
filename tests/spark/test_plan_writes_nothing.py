"""Plans of the commands on Spark: `run`, `decode` and `maintain tables` without --apply leave every file as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.command import Ran, tiersnap
from tests.reference.untouched import as_written
from tests.spark.small_fleet import write_fleet

pytestmark = pytest.mark.spark


def _run(folder: Path, *words: str) -> Ran:
    places = ("--remote", folder / "remote", "--warehouse", folder / "warehouse", "--report", folder / "report")
    return tiersnap("run", "--source", folder / "logs", "--leave-to-broker", "none", *places, *words)


def _files(folder: Path) -> dict[Path, tuple[int, ...]]:
    """Everything but the log directory and the report, which every run writes."""
    return as_written(
        path for path in folder.rglob("*") if not {"logs", "report"} & set(path.relative_to(folder).parts)
    )


def _verdicts(done: Ran) -> dict[str, int]:
    return {row["verdict"]: row["segments"] for row in done.rows}


def test_plan_of_run_writes_nothing_and_no_upload_writes_tables_alone(spark: SparkSession, tmp_path: Path) -> None:
    write_fleet(tmp_path / "logs", 2)
    planned = _run(tmp_path)
    assert "nothing was written; next: " in planned.err
    assert not (tmp_path / "warehouse").exists() and not (tmp_path / "remote").exists()

    kept = _run(tmp_path, "--apply", "--no-upload")
    assert _verdicts(kept) == _verdicts(planned) == {"MISSING_SNAPSHOT": 2, "GAP_BEFORE": 4, "ACTIVE_SEGMENT": 2}
    assert "nothing was written to remote storage; next: " in kept.err and "--no-upload" not in kept.err
    assert (tmp_path / "warehouse/readiness/_delta_log").is_dir() and not (tmp_path / "remote").exists()

    assert _verdicts(_run(tmp_path, "--apply")) == {"UPLOADED": 6, "ACTIVE_SEGMENT": 2}
    before = _files(tmp_path)
    idle = _run(tmp_path)  # the tables have what it needs
    assert "decoded nothing" in idle.err and "replayed nothing" in idle.err
    assert _verdicts(idle) == {"UPLOADED": 6, "ACTIVE_SEGMENT": 2}

    write_fleet(tmp_path / "logs", 3)  # another partition, and new times of all files
    grown = _run(tmp_path)
    assert "decoded 12 segments" in grown.err
    assert _verdicts(grown) == {"UPLOADED": 6, "MISSING_SNAPSHOT": 1, "GAP_BEFORE": 2, "ACTIVE_SEGMENT": 3}
    assert _files(tmp_path) == before


def test_plans_of_decode_and_maintain_tables_write_nothing(spark: SparkSession, tmp_path: Path) -> None:
    logs, warehouse = write_fleet(tmp_path / "logs", 1), tmp_path / "warehouse"
    decode = ("decode", "--source", logs, "--warehouse", warehouse)
    assert tiersnap(*decode).rows[0]["segments"] == 4
    assert not warehouse.exists()
    assert tiersnap(*decode, "--apply").rows[0]["batches"] == 8
    assert _run(tmp_path, "--apply", "--no-upload").exit_code == 0
    write_fleet(logs, 1)
    assert _run(tmp_path, "--apply", "--no-upload").exit_code == 0  # decodes and replays are superseded now
    before = _files(tmp_path)
    assert tiersnap(*decode).rows[0]["segments"] == 4
    maintained = tiersnap("maintain", "tables", "--warehouse", warehouse)
    assert sum(row["superseded"] for row in maintained.rows) > 0 and "nothing was deleted" in maintained.err
    assert _files(tmp_path) == before
