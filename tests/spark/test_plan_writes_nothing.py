"""Plans of the commands on Spark: `run`, `decode` and `maintain tables` without --apply leave every file as it was."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Kept:
    """A folder of `logs` after a plan of `run`, and then `run --apply --no-upload`, which wrote `warehouse`."""

    folder: Path
    planned: Ran
    left: list[Path]
    """Files outside `logs` and the report after the plan."""
    kept: Ran


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("planned")
    write_fleet(folder / "logs", 2)
    planned = _run(folder)
    left = sorted(_files(folder))
    return Kept(folder, planned, left, _run(folder, "--apply", "--no-upload"))


def test_plan_of_run_writes_nothing_and_no_upload_writes_tables_alone(kept: Kept) -> None:
    assert "nothing was written; next: " in kept.planned.err
    assert kept.left == []
    assert _verdicts(kept.kept) == _verdicts(kept.planned)
    assert _verdicts(kept.kept) == {"MISSING_SNAPSHOT": 2, "GAP_BEFORE": 4, "ACTIVE_SEGMENT": 2}
    assert "nothing was written to remote storage; next: " in kept.kept.err and "--no-upload" not in kept.kept.err
    assert (kept.folder / "warehouse/readiness/_delta_log").is_dir() and not (kept.folder / "remote").exists()


def test_plans_beside_tables_write_nothing(kept: Kept) -> None:
    folder, logs = kept.folder, kept.folder / "logs"
    before = _files(folder)
    write_fleet(logs, 3)  # another partition, and new times of all files
    grown = _run(folder)
    assert "decoded 12 new or changed segments" in grown.err
    assert _verdicts(grown) == {"MISSING_SNAPSHOT": 3, "GAP_BEFORE": 6, "ACTIVE_SEGMENT": 3}
    assert _files(folder) == before

    warehouse = folder / "decoded"
    decode = ("decode", "--source", logs, "--warehouse", warehouse)
    assert tiersnap(*decode).rows[0]["segments"] == 12
    assert not warehouse.exists()
    assert tiersnap(*decode, "--apply").rows[0]["batches"] == 24
    write_fleet(logs, 3)
    before = _files(folder)
    assert tiersnap(*decode).rows[0]["segments"] == 12
    assert _files(folder) == before


@pytest.mark.nightly
def test_plan_of_a_run_with_nothing_to_do_decodes_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write_fleet(tmp_path / "logs", 2)
    assert _verdicts(_run(tmp_path, "--apply")) == {"UPLOADED": 6, "ACTIVE_SEGMENT": 2}
    before = _files(tmp_path)
    idle = _run(tmp_path)  # the tables have what it needs
    assert "decoded nothing" in idle.err and "replayed nothing" in idle.err
    assert _verdicts(idle) == {"UPLOADED": 6, "ACTIVE_SEGMENT": 2}
    assert _files(tmp_path) == before


@pytest.mark.nightly
def test_plan_of_maintain_tables_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):  # the second run supersedes decodes and replays
        write_fleet(tmp_path / "logs", 1)
        assert _run(tmp_path, "--apply", "--no-upload").exit_code == 0
    before = _files(tmp_path)
    maintained = tiersnap("maintain", "tables", "--warehouse", tmp_path / "warehouse")
    assert sum(row["superseded"] for row in maintained.rows) > 0 and "nothing was deleted" in maintained.err
    assert _files(tmp_path) == before
