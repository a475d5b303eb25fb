"""`spark-submit` of the project's own file on a standalone cluster: a master and two workers, each a process."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.spark.clusters import standalone, submit
from tests.spark.small_fleet import BASES, copies, leftovers, snapshots, write_fleet

pytestmark = pytest.mark.spark
EVERY_COPY = [f"{number}/{base:020d}" for number in range(3) for base in BASES[:-1]]


def words(source: Path, remote: Path, folder: Path) -> list[str]:
    places = ["--source", str(source), "--remote", str(remote), "--warehouse", str(folder / "warehouse")]
    return [*places, "--report", str(folder / "report"), "--apply"]


def test_a_submitted_run_goes_on_when_a_worker_dies_and_ends_as_one_host_alone(tmp_path: Path) -> None:
    """With one partition whose task can never succeed: it is reported, and the others finish."""
    source = write_fleet(tmp_path / "logs")
    hopeless = write_partition(source, "hopeless", 0, {0: [data_batch(0, 5)], 5: [data_batch(5, 5)]}, indexes=True)
    segment = hopeless / f"{0:020d}.log"
    segment.unlink()
    segment.mkdir()
    remote, alone = tmp_path / "remote", tmp_path / "alone"
    with standalone(tmp_path / "cluster") as cluster:
        kill = threading.Thread(target=_kill_when_at_work, args=(cluster.processes, tmp_path / "cluster" / "work-1"))
        kill.start()
        conf = {"spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.multiplier": "1"}
        done = submit(cluster.url, *words(source, remote, tmp_path), conf=conf)
        kill.join(timeout=60)
    host = tiersnap("tier", source, "--remote", alone, "--apply")
    assert "hopeless-0" in done.stdout + done.stderr, done.stderr[-3000:]
    assert done.returncode == host.exit_code
    assert (tmp_path / "report" / "index.html").is_file()
    assert "worker-1" not in cluster.processes.running, "it was killed while the run was at work"
    assert snapshots(remote) == snapshots(alone)
    assert copies(remote) == EVERY_COPY, "each once"
    assert leftovers(remote) == []


def _kill_when_at_work(processes: object, folder: Path) -> None:
    """Kill the second worker with its executor once that has run for a while."""
    end = time.monotonic() + 300
    while time.monotonic() < end and not list(folder.glob("app-*/*/stderr")):
        time.sleep(0.2)
    time.sleep(15)
    processes.kill("worker-1")  # type: ignore[attr-defined]
