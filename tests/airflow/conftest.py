"""A real Airflow in an environment of its own, a standalone Spark and an S3 server, all on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.spark import clusters
from tests.spark.conftest import Remote
from tiersnap.jobs.commands.demo import TOPIC_IDS
from tiersnap.jobs.demo.embedded_s3 import embedded_s3, make_bucket
from tiersnap.jobs.pipeline import delta_jars
from tiersnap.jobs.pipeline.session import QUICK_START

# Where it matters not on what, a driver that is its own executor is the quickest.
LOCAL = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"})}
ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".cache/airflow/bin/python"
SECONDS = 600

_DAGS = """
import os
from datetime import timedelta

from tiersnap.jobs.airflow.dags import backfill, daily

here = dict(packages=None, jars={jars!r}, driver_class_path={path!r}, spark_binary={submit!r},
            poke_interval=timedelta(seconds=2), retry_delay=timedelta(seconds=2))
tiersnap_daily = daily(**here, maintain="MAINTAIN" in os.environ)
tiersnap_backfill = backfill(**here)
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where Airflow is not installed and need not be, its tests are skipped."""
    if PYTHON.exists() or "TIERSNAP_REQUIRE_AIRFLOW" in os.environ:
        return
    for item in items:
        if "tests/airflow" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason="no Airflow here: make test-airflow installs it"))


@dataclass(frozen=True)
class Started:
    """A command that runs, and where it writes."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def tail(self) -> str:
        """What it wrote last."""
        return self.log.read_text(errors="replace")[-8000:]

    def kill(self) -> None:
        """With all that it started, at once, as a host that is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS)


@dataclass(frozen=True)
class Airflow:
    """Airflow with a database of its own."""

    home: Path
    environment: dict[str, str]

    @contextlib.contextmanager
    def start(self, *words: str, **more: str) -> Iterator[Started]:
        """An `airflow` command in a process group of its own, ended with what it started when the block is left."""
        log = self.home / f"{uuid.uuid4().hex}.out"  # a pipe that nobody reads would hold it up
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(PYTHON), "-m", "airflow", *words],
                env={**self.environment, **more},
                cwd=self.home,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = Started(process, log)
        try:
            yield started
        finally:
            started.kill()

    def run(self, *words: str, **more: str) -> str:
        """The output of an `airflow` command that ends well."""
        with self.start(*words, **more) as started:
            code = started.process.wait(SECONDS)
        assert code == 0, started.tail
        return started.log.read_text()

    def python(self, code: str, **more: str) -> str:
        """What a Python of Airflow's environment prints."""
        done = subprocess.run(
            [str(PYTHON), "-c", code],
            env={**self.environment, **more},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def select(self, statement: str) -> list[tuple[object, ...]]:
        """Rows of Airflow's database."""
        with sqlite3.connect(self.home / "airflow.db") as connection:
            return list(connection.execute(statement))


@pytest.fixture(scope="session")
def bare_airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """Without Spark: a database, and the DAGs as they are shipped."""
    home = tmp_path_factory.mktemp("airflow")
    environment = {name: value for name, value in clusters.environment().items() if not name.startswith("AIRFLOW")}
    environment |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "conf/airflow"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    airflow = Airflow(home, environment)
    airflow.run("db", "migrate")
    return airflow


@pytest.fixture(scope="session")
def airflow(bare_airflow: Airflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """With a standalone Spark and an S3 server to reach."""
    dags, jars = tmp_path_factory.mktemp("dags"), delta_jars.jars()
    submit = str(clusters.HOME / "bin/spark-submit")
    (dags / "dags.py").write_text(_DAGS.format(jars=",".join(jars), path=":".join(jars), submit=submit))
    with embedded_s3() as url, clusters.standalone(tmp_path_factory.mktemp("spark"), workers=1, cores=2) as spark:
        host, _, port = spark.url.rpartition(":")
        connection = {"conn_type": "spark", "host": host, "port": int(port)}
        more = {
            **{name: value for name, value in os.environ.items() if name.startswith(("AWS_", "NO_PROXY"))},
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "S3_URL": url,
        }
        yield Airflow(bare_airflow.home, bare_airflow.environment | more)


@dataclass(frozen=True)
class Fleet:
    """One cluster as the Variable has it, with a bucket, a warehouse and a report of its own."""

    remote: Remote
    cluster: dict[str, object]

    @property
    def warehouse(self) -> Path:
        return Path(str(self.cluster["warehouse"]))

    @property
    def variable(self) -> dict[str, str]:
        """As an environment variable."""
        return {"AIRFLOW_VAR_TIERSNAP_CLUSTERS": json.dumps([self.cluster])}

    def readiness(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((Path(str(self.cluster["report"])) / "readiness.json").read_text())
        return found


@pytest.fixture
def fleet(airflow: Airflow, tmp_path: Path) -> Fleet:
    url = airflow.environment["S3_URL"]
    bucket = f"tier-{uuid.uuid4().hex[:12]}"
    make_bucket(url, bucket)
    (tmp_path / "ids.txt").write_text(TOPIC_IDS)
    remote = Remote(f"s3://{bucket}/tiers", url)
    cluster = {
        "name": f"cluster-{bucket}",
        "sources": [str(ROOT / "jobs/demo/demo_data")],
        "remote": remote.uri,
        "warehouse": str(tmp_path / "warehouse"),
        "report": str(tmp_path / "report"),
        "options": [
            *remote.options[2:],
            *("--topic", "ledger", "--topic-ids", str(tmp_path / "ids.txt"), "--as-of", "2026-11-21T12:45:00Z"),
        ],
        "conf": {
            **clusters.DELTA,
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.executor.memory": "512m",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.pyspark.python": sys.executable,
        },
    }
    return Fleet(remote, cluster)
