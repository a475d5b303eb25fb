"""The log on stderr: for people and for programs, without secrets; and what `runs` reads of a warehouse."""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import write_small_log
from tiersnap.jobs.streams import LogFormat, configure
from tiersnap.snapshot.tables.schemas import RUNS

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
SECRET = "wJalrXUtnFEMI"


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = before, level


def test_json_logs_are_an_object_a_line(tmp_path: Path) -> None:
    write_small_log(tmp_path, with_snapshots=False)
    ran = tiersnap(
        "--quiet", "--log-level", "info", "--log-format", "json", "repair", tmp_path, "--expiration", "none", "--apply"
    )
    lines = [json.loads(line) for line in ran.err.splitlines()]
    assert {line["logger"] for line in lines} == {"tiersnap.snapshot.repair.files", "tiersnap.jobs.cli"}
    assert lines[-1]["message"].startswith("repair ended with 0 after ")
    assert sum("put " in line["message"] for line in lines) == 3
    for line in lines:
        assert set(line) == {"time", "level", "logger", "message", "process"}
        assert datetime.fromisoformat(line["time"]).utcoffset() is not None


@pytest.mark.parametrize("log_format", LogFormat)
def test_neither_form_shows_a_secret_or_takes_a_line_from_a_name(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("warning", log_format)
    log = logging.getLogger("tiersnap.test")
    log.warning("cannot reach %s and %s", f"s3://AKIA:{SECRET}@bucket/x", "a\nb\x1b[2J")
    try:
        raise ValueError(f"secret.key={SECRET}")
    except ValueError:
        log.exception("failed")
    said = capsys.readouterr().err
    assert SECRET not in said
    assert "\x1b" not in said
    assert "Traceback" in said
    first = said.splitlines()[0]
    assert "cannot reach" in first
    assert "b" in first.partition("\\n")[2], "the name stands in one line"


def test_a_second_command_logs_in_its_own_form_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", LogFormat.JSON)
    configure("info", LogFormat.TEXT)
    logging.getLogger("tiersnap.test").info("once")
    assert capsys.readouterr().err.count("once") == 1


def test_every_logger_is_named_after_its_module() -> None:
    found = 0
    for folder in ("snapshot", "remote_storage", "jobs"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                    continue
                of_module = isinstance(node.func.value, ast.Name) and node.func.value.id == "logging"
                if of_module and path.name != "streams.py":
                    assert node.func.attr == "getLogger", f"{path}: logging.{node.func.attr}"
                    assert [ast.unparse(each) for each in node.args] == ["__name__"], path
                    found += 1
    assert found >= 10


def write_runs(warehouse: Path) -> None:
    row = dict.fromkeys(RUNS.names, 0) | {"tool": "tiersnap 0.1.0", "settings": '{"remote": "s3://b/x"}'}
    rows = [
        {**row, "run": 1, "run_id": "first", "started_at": 1000, "finished_at": 3500, "bytes_tiered": 2048},
        {**row, "run": 2, "run_id": "second", "started_at": 9000, "finished_at": 9100, "errors": 1},
    ]
    write_deltalake(warehouse / "runs", pa.Table.from_pylist(rows, schema=RUNS), mode="append")


def test_runs_are_listed_the_newest_first_and_shown_with_their_settings(tmp_path: Path) -> None:
    write_runs(tmp_path)
    ran = tiersnap("report", "runs", "--warehouse", tmp_path)
    assert [(row["run_id"], row["bytes_tiered"], row["errors"]) for row in ran.rows] == [
        ("second", 0, 1),
        ("first", 2048, 0),
    ]
    shown = json.loads(tiersnap("report", "run", "first", "--warehouse", tmp_path).out)["result"]
    assert (shown["settings"], shown["bytes_tiered"]) == ({"remote": "s3://b/x"}, 2048)
    assert json.loads(tiersnap("report", "run", "last", "--warehouse", tmp_path).out)["result"]["run_id"] == "second"
    for_people = tiersnap("report", "runs", "--warehouse", tmp_path, output="table").out
    assert "2.0 KiB" in for_people
    assert "2.5 s" in for_people
    assert "s3://b/x" in tiersnap("report", "run", "first", "--warehouse", tmp_path, output="table").out


def test_a_warehouse_without_runs_and_a_run_that_never_was_are_usage_errors(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "runs", pa.Table.from_pylist([], schema=RUNS))
    assert_said(
        tiersnap("report", "runs", "--warehouse", tmp_path),
        2,
        "no run is recorded here; the next one records those that were killed",
    )
    write_runs(tmp_path)
    assert_said(
        tiersnap("report", "run", "third", "--warehouse", tmp_path), 2, "no run 'third'", "tiersnap report runs"
    )


def test_debug_tells_each_file_that_is_read_and_each_object_that_is_written_and_not_each_batch(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path / "logs", with_snapshots=False)
    remote = tmp_path / "remote"
    ran = tiersnap(
        "--quiet", "--log-level", "debug", "--log-format", "json", "tier", folder.parent, "--remote", remote, "--apply"
    )
    assert ran.exit_code == 0, ran.err
    said = [json.loads(line) for line in ran.err.splitlines()]
    stored = {path.relative_to(remote).as_posix() for path in remote.rglob("*") if path.is_file()}
    for key in stored - {key for key in stored if key.startswith(".tiersnap-unfinished")}:
        assert any(key in line["message"] for line in said), key
    read = [line["message"] for line in said if line["logger"] == "tiersnap.snapshot.regular_file"]
    assert any(str(folder) in message for message in read)
    assert len(said) < 40 * len(stored), "once an object, not once a batch"
