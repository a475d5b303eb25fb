"""The log on stderr: for people and for programs, without secrets."""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.small_log import write_small_log
from tiersnap.jobs.cli.streams import LogFormat, configure

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
    assert {line["logger"] for line in lines} == {"tiersnap.snapshot.repair.files", "tiersnap.jobs.main"}
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
