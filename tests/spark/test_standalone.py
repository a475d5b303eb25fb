"""`spark-submit` of the project's own file on a standalone cluster: a master and two workers, each a process."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.spark.clusters import Processes, environment, free_port, standalone, submit
from tests.spark.small_fleet import BASES, copies, leftovers, snapshots, write_fleet

pytestmark = [pytest.mark.spark, pytest.mark.nightly]
PARTITIONS = 3
EVERY_COPY = [f"{number}/{base:020d}" for number in range(PARTITIONS) for base in BASES[:-1]]
HELD_SECONDS = 25
"""At most: a copy attempt waits 30 s for the lock of its remote folder, and fails then."""


def words(source: Path, remote: Path, folder: Path) -> list[str]:
    places = ["--source", str(source), "--remote", str(remote), "--warehouse", str(folder / "warehouse")]
    return [*places, "--report", str(folder / "report"), "--apply"]


def speculation() -> dict[str, str]:
    """A second attempt at each task that takes longer than five seconds.

    Spark compares a task with that threshold only if an executor has a core for each task of the stage. The upload has
    a task for each partition.
    """
    return {
        "spark.executor.cores": str(PARTITIONS),
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1",
        "spark.speculation.minTaskRuntime": "5s",
        "spark.speculation.task.duration.threshold": "5s",
    }


def user_interface(port: int) -> list[str]:
    """Options of `run`: its own default, without the interface, goes before a setting of spark-submit."""
    return ["--spark-conf", "spark.ui.enabled=true", "--spark-conf", f"spark.ui.port={port}"]


def has_second_attempt(ui_port: int) -> bool:
    """Ask Spark whether two attempts at one task are running. The first one may be slow before its first claim."""
    applications = f"http://127.0.0.1:{ui_port}/api/v1/applications"
    stages = [
        stage
        for application in get_json(applications)
        for stage in get_json(f"{applications}/{application['id']}/stages?status=active&details=true")
    ]
    for stage in stages:
        running = [task for task in stage["tasks"].values() if task["status"] == "RUNNING"]
        indexes = [task["index"] for task in running]
        if any(task["speculative"] and indexes.count(task["index"]) > 1 for task in running):
            return True
    return False


def get_json(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(url, timeout=HELD_SECONDS) as answer:
        return json.load(answer)


def wait_for(happened: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@dataclass(eq=False)
class WorkerThatDies(threading.Thread):
    """Holds up a copy until Spark has begun a second attempt at its task, and then ends one of the two workers.

    It holds the lock of the remote folder. No attempt can finish or take over a claim without that lock.
    """

    processes: Processes
    remote: Path
    ui_port: int
    saw_two_attempts: bool = False

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        if not wait_for(lambda: any(self.remote.glob("claims/orders-*/*/*.json")), 600):
            return
        with (self.remote / ".tiersnap-unfinished" / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.saw_two_attempts = wait_for(lambda: has_second_attempt(self.ui_port), HELD_SECONDS)
            self.processes.kill("worker-1")


def test_a_submitted_run_goes_on_when_a_worker_dies_and_ends_as_one_host_alone(tmp_path: Path) -> None:
    """While it copies, two attempts beside each other; one partition's task can never succeed, and is reported."""
    source = write_fleet(tmp_path / "logs", PARTITIONS)
    hopeless = write_partition(source, "hopeless", 0, {0: [data_batch(0, 5)], 5: [data_batch(5, 5)]}, indexes=True)
    segment = hopeless / f"{0:020d}.log"
    segment.unlink()
    segment.mkdir()
    remote, alone, ui_port = tmp_path / "remote", tmp_path / "alone", free_port()
    with standalone(tmp_path / "cluster", cores=PARTITIONS) as cluster:
        dying = WorkerThatDies(cluster.processes, remote, ui_port)
        dying.start()
        command = [*words(source, remote, tmp_path), *user_interface(ui_port)]
        done = submit(cluster.url, *command, conf=speculation())
        dying.join(timeout=60)
        assert "worker-1" not in cluster.processes.running, "it was killed while the run was at work"
    host = tiersnap("tier", source, "--remote", alone, "--apply")
    assert "hopeless-0" in done.stdout + done.stderr, done.stderr[-3000:]
    assert done.returncode == host.exit_code, done.stderr[-3000:]
    report = json.loads((tmp_path / "report" / "readiness.json").read_text())
    assert report["run"]["segments_uploaded"] == len(EVERY_COPY), "also those that the lost worker had sent"
    assert dying.saw_two_attempts, "Spark ran the held copy's task twice at once"
    assert snapshots(remote) == snapshots(alone)
    assert copies(remote) == EVERY_COPY, "each once"
    assert leftovers(remote) == []


def test_run_on_a_master_brings_deltas_jars_to_the_cluster(tmp_path: Path) -> None:
    """No spark-submit and no setting: as a user types it."""
    source = write_fleet(tmp_path / "logs", PARTITIONS)
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
