"""`spark-submit` of the project's own file on a standalone cluster: a master and two workers, each a process."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.spark.clusters import Processes, environment, standalone, submit
from tests.spark.small_fleet import BASES, copies, leftovers, snapshots, write_fleet

pytestmark = [pytest.mark.spark, pytest.mark.nightly]
EVERY_COPY = [f"{number}/{base:020d}" for number in range(3) for base in BASES[:-1]]
HELD_SECONDS = 15


def words(source: Path, remote: Path, folder: Path) -> list[str]:
    places = ["--source", str(source), "--remote", str(remote), "--warehouse", str(folder / "warehouse")]
    return [*places, "--report", str(folder / "report"), "--apply"]


def speculation(events: Path) -> dict[str, str]:
    """A second attempt at a task that takes longer than five seconds, of a stage of a single task, too."""
    events.mkdir()
    return {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1",
        "spark.speculation.minTaskRuntime": "5s",
        "spark.speculation.task.duration.threshold": "5s",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }


@dataclass(eq=False)
class WorkerThatDies(threading.Thread):
    """Holds up a copy that is under way until Spark has begun it a second time, and then ends one of the two workers.

    What it holds is the lock of the remote folder, without which no attempt can finish or take over a claim.
    """

    processes: Processes
    remote: Path
    held: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        end = time.monotonic() + 600
        while not list(self.remote.glob("claims/orders-*/*/*.json")):
            if time.monotonic() > end:
                return
            time.sleep(0.005)
        with (self.remote / ".tiersnap-unfinished" / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.held.append(time.time())
            time.sleep(HELD_SECONDS)
            self.processes.kill("worker-1")
            self.held.append(time.time())


def attempts_begun(events: Path, since: float, until: float) -> list[bool]:
    """Of each attempt at a task that began in between: whether it was a second one beside the first."""
    begun = []
    for path in events.rglob("*"):
        for line in path.read_text().splitlines() if path.is_file() else ():
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("Event") == "SparkListenerTaskStart":
                info = event["Task Info"]
                if since <= info["Launch Time"] / 1000 <= until:
                    begun.append(info["Speculative"])
    return begun


def test_a_submitted_run_goes_on_when_a_worker_dies_and_ends_as_one_host_alone(tmp_path: Path) -> None:
    """While it copies, two attempts beside each other; one partition's task can never succeed, and is reported."""
    source = write_fleet(tmp_path / "logs")
    hopeless = write_partition(source, "hopeless", 0, {0: [data_batch(0, 5)], 5: [data_batch(5, 5)]}, indexes=True)
    segment = hopeless / f"{0:020d}.log"
    segment.unlink()
    segment.mkdir()
    remote, alone, events = tmp_path / "remote", tmp_path / "alone", tmp_path / "events"
    with standalone(tmp_path / "cluster") as cluster:
        dying = WorkerThatDies(cluster.processes, remote)
        dying.start()
        done = submit(cluster.url, *words(source, remote, tmp_path), conf=speculation(events))
        dying.join(timeout=60)
    host = tiersnap("tier", source, "--remote", alone, "--apply")
    assert "hopeless-0" in done.stdout + done.stderr, done.stderr[-3000:]
    assert done.returncode == host.exit_code, done.stderr[-3000:]
    report = json.loads((tmp_path / "report" / "readiness.json").read_text())
    assert report["run"]["segments_uploaded"] == len(EVERY_COPY), "also those that the lost worker had sent"
    assert "worker-1" not in cluster.processes.running, "it was killed while the run was at work"
    assert dying.held, "a copy was begun"
    assert True in attempts_begun(events, *dying.held), "while it was held up, it was begun a second time"
    assert snapshots(remote) == snapshots(alone)
    assert copies(remote) == EVERY_COPY, "each once"
    assert leftovers(remote) == []


def test_run_on_a_master_brings_deltas_jars_to_the_cluster(tmp_path: Path) -> None:
    """No spark-submit and no setting: as a user types it."""
    source = write_fleet(tmp_path / "logs")
    remote, alone = tmp_path / "remote", tmp_path / "alone"
    command = [sys.executable, "-m", "tests.reference.tiersnap", "run"]
    with standalone(tmp_path / "cluster", workers=1) as cluster:
        done = subprocess.run(
            [*command, "--master", cluster.url, *words(source, remote, tmp_path)],
            env=environment(), capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
    host = tiersnap("tier", source, "--remote", alone, "--apply")
    assert done.returncode == host.exit_code == 0, done.stderr[-3000:]
    assert snapshots(remote) == snapshots(alone)
    assert copies(remote) == EVERY_COPY
