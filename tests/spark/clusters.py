"""Spark as others run it: a standalone cluster of real processes, and a Connect server, both on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tiersnap.jobs.pipeline import delta_jars

HOME = Path(pyspark.__file__).parent
_START_SECONDS = 120
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}


def environment() -> dict[str, str]:
    """Of the processes of a cluster: this Python, loopback only."""
    return {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
    }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise AssertionError(f"{process.args} ended: {log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError(f"nothing listens on {port}: {log.read_text()[-2000:]}")


@dataclass
class Processes:
    """Processes of ours, ended when the test is over; each in a group of its own, with what it starts."""

    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *command: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                env=environment(),
                cwd=self.folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[name] = process
        return process, log

    def kill(self, name: str) -> None:
        """As a machine that loses power."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)

    def kill_all(self) -> None:
        for name in list(self.running):
            self.kill(name)


@dataclass
class Standalone:
    """A master and its workers."""

    url: str
    processes: Processes


@contextlib.contextmanager
def standalone(folder: Path, *, workers: int = 2, cores: int = 1) -> Iterator[Standalone]:
    """A standalone cluster; worker processes are named `worker-0` and so on.

    Each has an address of its own: Spark begins no second attempt of a task on the host of the first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    processes = Processes(folder)
    port, ui = free_port(), free_port()
    spark_class = str(HOME / "bin" / "spark-class")
    try:
        master, log = processes.start(
            "master", spark_class, "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui),
        )  # fmt: skip
        await_port(port, master, log)
        url = f"spark://127.0.0.1:{port}"
        for number in range(workers):
            worker_ui, host = free_port(), f"127.0.0.{number + 1}"
            worker, log = processes.start(
                f"worker-{number}", spark_class, "org.apache.spark.deploy.worker.Worker", "--host", host,
                "--webui-port", str(worker_ui), "--cores", str(cores), "--memory", "1g",
                "--work-dir", str(folder / f"work-{number}"), url,
            )  # fmt: skip
            await_port(worker_ui, worker, log)
        yield Standalone(url, processes)
    finally:
        processes.kill_all()


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Connect server with Delta Lake; gives its `sc://` URL."""
    folder.mkdir(parents=True, exist_ok=True)
    processes = Processes(folder)
    port = free_port()
    conf = {
        **DELTA,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    jars = delta_jars.jars()
    try:
        server, log = processes.start(
            "connect", str(HOME / "bin" / "spark-submit"), "--master", "local[2]",
            "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
            *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
            "--jars", ",".join(jars), "--driver-class-path", ":".join(jars),
            "--driver-java-options", "-XX:TieredStopAtLevel=1", "spark-internal",
        )  # fmt: skip
        await_port(port, server, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        processes.kill_all()


def submit(master: str, *words: str, conf: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`spark-submit` of the project's own file in client mode."""
    main = Path(__file__).resolve().parents[2] / "jobs" / "run.py"
    settings = {**DELTA, "spark.executor.memory": "512m", "spark.driver.bindAddress": "127.0.0.1", **(conf or {})}
    jars = delta_jars.jars()
    return subprocess.run(
        [
            str(HOME / "bin" / "spark-submit"), "--master", master, "--jars", ",".join(jars),
            "--driver-class-path", ":".join(jars),
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            str(main), *words,
        ],
        env={**environment(), "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
