"""The upload of a run is committed in steps: ascending, nothing behind a failed segment, and a kill loses one step."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.spark.small_fleet import BASES, copies, snapshots, write_fleet
from tiersnap.jobs.pipeline import tiering
from tiersnap.jobs.pipeline.run import run as run_job
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import TransientError

pytestmark = pytest.mark.spark

CLOSED = BASES[:-1]
FAILS = f"/1/{CLOSED[1]:020d}-"  # the second segment of orders-1
KILLED = """
import os, signal, sys
from tiersnap.jobs.main import main
from tiersnap.jobs.pipeline import tiering
from tiersnap.jobs.pipeline.warehouse import Warehouse

append = Warehouse.append
commits = []

def append_and_end(warehouse, table, rows, **more):
    append(warehouse, table, rows, **more)
    commits.append(table)
    if commits.count("remote_log_segments") == 2:
        os.killpg(0, signal.SIGKILL)

Warehouse.append = append_and_end
tiering.STEP_BYTES = 1
main()
"""


class RefusesOne:
    """A store that fails at the log of one segment; tasks get a copy of it."""

    def __init__(self, folder: Path) -> None:
        self._store = DirectoryStore(folder)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # while it is unpickled, nothing is there yet
            raise AttributeError(name)
        return getattr(self._store, name)

    def put_file_if_absent(self, key: str, *args: Any, **more: Any) -> Any:
        if FAILS in key:
            raise TransientError(f"{key}: no")
        return self._store.put_file_if_absent(key, *args, **more)


def finished(warehouse: Path, version: int | None = None) -> Counter[tuple[int, int]]:
    """How many finished segments `remote_log_segments` has, by partition and base offset."""
    table = DeltaTable(str(warehouse / "remote_log_segments"), version=version)
    rows = table.to_pyarrow_table(filters=[("state", "=", "COPY_SEGMENT_FINISHED")]).to_pylist()
    return Counter((row["partition"], row["base_offset"]) for row in rows)


def added(warehouse: Path) -> Iterator[set[tuple[int, int]]]:
    """What each version of `remote_log_segments` adds."""
    before: set[tuple[int, int]] = set()
    for version in range(DeltaTable(str(warehouse / "remote_log_segments")).version() + 1):
        found = set(finished(warehouse, version))
        yield found - before
        before = found


def settings_of(logs: Path, folder: Path) -> RunSettings:
    return RunSettings((str(logs),), str(folder / "remote"), str(folder / "warehouse"), apply=True)


@pytest.mark.parametrize("is_continued", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_run_commits_in_ascending_steps_and_nothing_behind_a_failed_segment(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_continued: bool
) -> None:
    monkeypatch.setattr(tiering, "STEP_BYTES", 1)
    settings = settings_of(write_fleet(tmp_path / "logs", 2), tmp_path)
    remote, warehouse = tmp_path / "remote", tmp_path / "warehouse"
    outcome = run_job(spark, settings, store=RefusesOne(remote))  # type: ignore[arg-type]
    assert outcome.error_count == 1
    steps = [offsets for offsets in added(warehouse) if offsets]
    assert len(steps) >= len(CLOSED), steps
    assert [base for step in steps for partition, base in sorted(step) if partition == 0] == list(CLOSED)
    assert copies(remote) == [f"0/{base:020d}" for base in CLOSED] + [f"1/{CLOSED[0]:020d}"]
    if is_continued:
        again = run_job(spark, settings_of(tmp_path / "logs", tmp_path))
        assert (again.error_count, again.counts.segments_uploaded) == (0, 2)
        assert copies(remote) == [f"{partition}/{base:020d}" for partition in (0, 1) for base in CLOSED]


def test_partition_with_a_scan_window_is_uploaded_in_one_step(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second step would find no replay of the segments before the window, and ask remote storage for it."""
    monkeypatch.setattr(tiering, "STEP_BYTES", 1)
    rows = [("logs", "orders", partition, base, 9) for partition in range(3) for base in range(4)]
    ready = spark.createDataFrame(
        rows, "log_dir string, topic string, partition int, base_offset bigint, size_bytes bigint"
    )
    split, whole = (
        Counter(row.partition for row in frame.select("partition", "step").distinct().collect())
        for frame in (tiering.in_steps(ready, 2, whole_partitions=each) for each in (False, True))
    )
    assert split == {0: 4, 1: 4, 2: 4}
    assert whole == {0: 1, 1: 1, 2: 1}


@pytest.mark.nightly
def test_run_killed_between_two_steps_is_continued_and_nothing_is_doubled(spark: SparkSession, tmp_path: Path) -> None:
    logs, killed, calm = write_fleet(tmp_path / "logs", 2), tmp_path / "killed", tmp_path / "calm"
    settings = settings_of(logs, killed)
    places = ["--source", str(logs), "--remote", settings.remote, "--warehouse", settings.warehouse]
    command = ["-q", "run", *places, "--report", str(tmp_path / "report"), "--apply"]
    child = subprocess.run([sys.executable, "-c", KILLED, *command], start_new_session=True, timeout=1800)
    assert child.returncode == -signal.SIGKILL
    kept = finished(killed / "warehouse")
    visible = copies(killed / "remote")
    assert 2 <= len(kept) < 6
    assert sorted(f"{partition}/{base:020d}" for partition, base in kept) == visible
    second = run_job(spark, settings)
    assert second.counts.segments_uploaded == 6 - len(kept)
    assert second.counts.segments_decoded == 0, "what the killed run had committed is not done again"
    run_job(spark, settings_of(logs, calm))
    once = Counter({(partition, base): 1 for partition in (0, 1) for base in CLOSED})
    assert finished(killed / "warehouse") == finished(calm / "warehouse") == once
    assert copies(killed / "remote") == copies(calm / "remote")
    assert list(snapshots(killed / "remote").values()) == list(snapshots(calm / "remote").values())
    assert second.verdicts == {"UPLOADED": 6, "ACTIVE_SEGMENT": 2}
    assert run_job(spark, settings).did_nothing
