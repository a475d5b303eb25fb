"""What goes wrong around a run, in the words of the real Spark: a sentence, an exit code and no traceback."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.reference.command import assert_said, tiersnap
from tests.spark.conftest import Remote
from tests.spark.small_fleet import copies, write_fleet
from tiersnap.jobs.pipeline.run import run as run_job
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.errors import LeaseLostError
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import ExitCode, TransientError

pytestmark = pytest.mark.spark


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_fleet(tmp_path / "logs", partitions=1)


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def words(logs: Path, warehouse: str | Path) -> list[str | Path]:
    folder = logs.parent
    return ["run", "--source", logs, "--remote", folder / "remote", "--report", folder / "report",
            "--warehouse", warehouse, "--apply"]  # fmt: skip


@pytest.mark.nightly
def test_a_warehouse_in_a_bucket_that_does_not_answer_is_transient(spark: SparkSession, logs: Path) -> None:
    away = ["--endpoint-url", f"http://127.0.0.1:{closed_port()}", "--path-style", "--region", "us-east-1"]
    assert_said(tiersnap(*words(logs, "s3://bucket/warehouse"), *away), ExitCode.TRANSIENT, "bucket")


@pytest.mark.nightly
def test_a_spark_that_knows_no_s3a_is_told_of_what_it_lacks(spark: SparkSession, logs: Path, remote: Remote) -> None:
    assert_said(
        tiersnap(*words(logs, f"{remote.uri}/warehouse"), *remote.options[2:]),
        ExitCode.USAGE,
        "Spark has no file system for the scheme of this location",
        "hadoop-aws",
    )


@pytest.mark.nightly
def test_a_warehouse_whose_server_went_away_behind_the_lease_is_transient(spark: SparkSession, logs: Path) -> None:
    """HDFS has no lease, so that it is Delta Lake and Hadoop that say it."""
    spark.conf.set("ipc.client.connect.max.retries", "1")
    ran = tiersnap(*words(logs, f"hdfs://127.0.0.1:{closed_port()}/warehouse"))
    assert_said(ran, ExitCode.TRANSIENT, "no answer", "Connection refused")


@pytest.mark.nightly
def test_a_run_of_which_every_failure_was_a_refusal_ends_as_the_gate_refuses(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is tiered in one layout is not tiered in another beside it: the upload of each partition refuses that."""
    logs, remote = write_fleet(tmp_path / "logs", partitions=2), tmp_path / "remote"
    assert_said(tiersnap(*words(logs, tmp_path / "warehouse")), ExitCode.OK)
    before = {path: path.read_bytes() for path in remote.rglob("*") if path.is_file()}
    ran = tiersnap(*words(logs, tmp_path / "another"), "--layout", "local-tiered-storage")
    assert_said(ran, ExitCode.GATE_REFUSED, "in the layout aiven", "--layout aiven")
    assert ran.err.count("failed: ") == 2
    assert {path: path.read_bytes() for path in remote.rglob("*") if path.is_file()} == before


def test_a_run_that_lost_its_lease_commits_nothing(
    spark: SparkSession, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> None:
        raise LeaseLostError("another run has taken over the lock of this warehouse")

    @contextmanager
    def lost(*_: object, **__: object) -> Iterator[Callable[[], None]]:
        yield check

    monkeypatch.setattr("tiersnap.jobs.pipeline.run.only_run", lost)
    settings = RunSettings((str(logs),), str(tmp_path / "remote"), str(tmp_path / "warehouse"), apply=True)
    with pytest.raises(LeaseLostError):
        run_job(spark, settings)
    assert list(DirectoryStore(tmp_path / "remote").list()) == []
    assert not (tmp_path / "warehouse").exists()


class Deadly:
    """Remote storage at which the worker of a task dies; not the driver."""

    def __init__(self, folder: Path, how: str) -> None:
        self._store, self._how, self._driver = DirectoryStore(folder), how, os.getpid()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # while it is unpickled, nothing is there yet
            raise AttributeError(name)
        return getattr(self._store, name)

    def put_if_absent(self, *args: Any, **more: Any) -> Any:
        if os.getpid() != self._driver and self._how == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        if os.getpid() != self._driver and self._how == "memory":
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
            bytearray(8 << 30)
        return self._store.put_if_absent(*args, **more)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("signal", "Spark lost a worker"),
        pytest.param("memory", "too little memory", marks=pytest.mark.nightly),
    ],
)
def test_a_worker_that_is_killed_or_short_of_memory_is_transient(
    spark: SparkSession, logs: Path, tmp_path: Path, how: str, said: str
) -> None:
    settings = RunSettings((str(logs),), str(tmp_path / "remote"), str(tmp_path / "warehouse"), apply=True)
    cached = spark._jsparkSession.sharedState().cacheManager()
    before = cached.numCachedEntries()
    with pytest.raises(TransientError, match=f"the run failed: {said}") as caught:
        run_job(spark, settings, store=Deadly(tmp_path / "remote", how))  # type: ignore[arg-type]
    assert caught.value.exit_code is ExitCode.TRANSIENT
    assert "\n" not in caught.value.message
    assert cached.numCachedEntries() == before, "the next run in this session would find what this one listed"
    assert copies(tmp_path / "remote") == []


@pytest.mark.nightly
def test_a_session_with_less_memory_than_spark_needs_is_a_usage_error(logs: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.reference.tiersnap", *map(str, words(logs, logs.parent / "warehouse")),
         "--spark-conf", "spark.driver.memory=100m"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "the Spark driver needs more memory than it was given" in done.stderr
    assert "spark.driver.memory=1g" in done.stderr
    assert not any(word in done.stderr for word in ("Traceback", "\tat "))


BOTH_SIGNALS = pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, ExitCode.INTERRUPTED, marks=pytest.mark.nightly),
        (signal.SIGTERM, ExitCode.TERMINATED),
    ],
)


def started_run(logs: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.reference.tiersnap", *map(str, words(logs, logs.parent / "warehouse"))],
        env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def assert_ended_in_silence(run: subprocess.Popen[str], code: ExitCode) -> None:
    """The pipes end when the last process that has them does, so no JVM is left behind."""
    _, err = run.communicate(timeout=300)
    assert run.returncode == code, err
    assert not any(word in err for word in ("Traceback", "Exception", "\tat "))


@pytest.mark.nightly
@BOTH_SIGNALS
def test_a_signal_while_spark_starts_leaves_no_jvm_and_no_traceback(
    logs: Path, tmp_path: Path, number: signal.Signals, code: ExitCode
) -> None:
    fifo, home = tmp_path / "fifo", tmp_path / "java"
    os.mkfifo(fifo)
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").write_text(f'#!/bin/sh\necho started > {fifo}\nexec {shutil.which("java")} "$@"\n')
    (home / "bin/java").chmod(0o755)
    reader = os.open(fifo, os.O_RDWR)
    run = started_run(logs, JAVA_HOME=str(home))
    os.read(reader, 100)  # Java starts now
    run.send_signal(number)
    assert_ended_in_silence(run, code)
    os.close(reader)


@BOTH_SIGNALS
def test_a_signal_in_the_middle_of_a_run_prints_no_traceback(
    logs: Path, number: signal.Signals, code: ExitCode
) -> None:
    run = started_run(logs)
    assert run.stderr is not None
    assert any(line.startswith("listed") for line in run.stderr)
    run.send_signal(number)
    assert_ended_in_silence(run, code)
