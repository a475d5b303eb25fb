"""`dist/tiersnap.pex` on a host that has Python 3.11 and nothing else: empty home, no packages, no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.recovered import DATA

pytestmark = pytest.mark.artefact

FILE = Path(__file__).resolve().parents[2] / "dist/tiersnap.pex"
MOST_BYTES = 170_000_000
LEDGER = DATA / "ledger-2.7.2/logs"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def offline() -> list[str]:
    """Words before a command that take the network away, where this user may do that."""
    words = ["unshare", "--net"]
    can = shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if can else []


def run(home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """The file with the interpreter under .venv, isolated (-I): no site packages of this user, no PYTHON variables."""
    bare = Path(sys.base_prefix) / "bin/python3.11"
    return subprocess.run(
        [*offline(), str(bare), "-I", str(FILE), *map(str, words)],
        # A proxy that nobody answers at stands for the lack of a network where that cannot be taken away.
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "https_proxy": "http://127.0.0.1:9"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.nightly
def test_it_is_small_enough_to_be_copied_and_can_be_executed() -> None:
    assert FILE.stat().st_size <= MOST_BYTES
    assert os.access(FILE, os.X_OK)
    (told,) = re.findall(r"\| (\d+) MB \+ \d+ MB \|", (FILE.parents[1] / "README.md").read_text(encoding="utf-8"))
    assert abs(FILE.stat().st_size / 1_000_000 - int(told)) < 5, "the size in README.md"
    with FILE.open("rb") as file:
        assert file.readline() == b"#!/usr/bin/env python3.11\n"


@pytest.mark.nightly
def test_a_host_is_looked_at_planned_repaired_and_verified(home: Path, tmp_path: Path) -> None:
    logs = shutil.copytree(LEDGER, tmp_path / "logs")
    assert run(home, "doctor", logs).returncode == 4
    assert "A STUCK PARTITION" in run(home, "runbook", "MISSING_SNAPSHOT").stdout
    scanned = run(home, "scan", logs, "--topic", "ledger")
    assert scanned.returncode == 4, scanned.stderr
    assert "8 MISSING" in scanned.stderr
    assert run(home, "repair", logs).returncode == 0
    assert not list(logs.glob("ledger-*/00000000000000000183.snapshot"))
    assert run(home, "repair", logs, "--apply").returncode == 0
    verified = run(home, "verify", logs)
    assert verified.returncode == 0, verified.stderr
    assert "17 of 17 snapshots agree with the log" in verified.stderr


def test_it_writes_the_snapshots_that_kafkas_own_classes_fold(home: Path, tmp_path: Path) -> None:
    done = run(home, "repair", LEDGER, "--out", tmp_path / "out", "--all", "--expiration", "none")
    assert done.returncode == 0, done.stderr
    assert run(home, "verify", LEDGER, "--against", tmp_path / "out").returncode == 0


@pytest.mark.nightly
def test_a_list_of_what_is_in_it_lies_beside_it() -> None:
    listed = json.loads(FILE.with_name("tiersnap.cdx.json").read_text())
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.5")
    names = {component["name"] for component in listed["components"]}
    assert {"boto3", "click", "confluent-kafka", "numba", "numpy", "pyarrow"} <= names
    assert "pytest" not in names


@pytest.mark.nightly
def test_it_dumps_a_segment_as_kafka_does(home: Path) -> None:
    done = run(home, "dump", "--output", "kafka", "-c", "1", LEDGER / "ledger-0/00000000000000000000.log")
    assert done.returncode == 0, done.stderr
    assert "baseOffset: 0 lastOffset: 4 count: 5 baseSequence: 0" in done.stdout


@pytest.mark.nightly
def test_it_holds_what_doctor_prints_beside_a_running_broker(home: Path, tmp_path: Path) -> None:
    login = tmp_path / "login.properties"
    login.write_text("request.timeout.ms=soon\n")  # refused by librdkafka at once
    words = ("unblock", "--bootstrap-server", "127.0.0.1:1", LEDGER, "--remote", tmp_path)
    asked = run(home, *words, "--command-config", login)
    assert (asked.returncode, "request.timeout.ms" in asked.stderr) == (2, True), asked.stderr
    planned = run(home, "tier", LEDGER, "--remote", "s3://bucket/tiers", "--region", "us-east-1")
    assert (planned.returncode, "credentials" in planned.stderr) == (2, True), planned.stderr


@pytest.mark.nightly
def test_it_says_that_it_holds_no_spark(home: Path) -> None:
    done = run(home, "run", "--source", "x", "--remote", "y")
    assert done.returncode == 2, done.stderr
    assert "needs pyspark" in done.stderr
    assert "Traceback" not in done.stderr
