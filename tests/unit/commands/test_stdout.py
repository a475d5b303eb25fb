"""stdout that takes nothing: a full disk is said in a sentence, a reader who has gone (`… | head`) in none."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.cli.streams import LogFormat, configure
from tiersnap.jobs.commands import COMMANDS, SUBCOMMANDS
from tiersnap.jobs.main import run

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device"),
]

REPOSITORY = Path(__file__).parents[3]
FULL = "tiersnap: cannot write stdout: No space left on device\n"


def ran_into_full_disk(*words: str | Path) -> tuple[int, str]:
    """Exit code and stderr of a command whose stdout is a full disk."""
    said = io.StringIO()
    with Path("/dev/full").open("wb") as full:
        stdout = io.TextIOWrapper(full, encoding="utf-8")
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(said):
            code = run([str(word) for word in words])
        stdout.detach()
    return code, said.getvalue()


@pytest.fixture(autouse=True)
def log_on_stderr() -> None:
    """No handler of an earlier test's command is left, which would write to what was its stderr."""
    configure("warning", LogFormat.TEXT)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    file_of(write_small_log(folder), 10, ".snapshot").unlink()
    return folder


HELPS = [[name, "--help"] for name in COMMANDS]
HELPS += [[name, each, "--help"] for name, names in SUBCOMMANDS.items() for each in names]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["config"], *HELPS], ids=" ".join)
def test_a_full_disk_below_stdout_is_said_in_a_sentence(words: list[str]) -> None:
    code, said = ran_into_full_disk(*words)
    assert (code, said.startswith(FULL)) == (3, True), said
    assert "Traceback" not in said


READS = ("scan", "doctor", "verify", "repair", "simulate", "producers", "dump", "tier", "collect")


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
@pytest.mark.parametrize("command", READS)
def test_a_command_that_reads_says_that_stdout_is_full(
    log_dir: Path, tmp_path: Path, command: str, output: str
) -> None:
    place = {"tier": ["--remote", tmp_path / "r"], "collect": ["--to", tmp_path / "t"]}.get(command, [])
    source = file_of(log_dir / "orders-0", 0, ".log") if command == "dump" else log_dir
    code, said = ran_into_full_disk(command, source, *place, "--output", output)
    assert (code, FULL in said) == (3, True), said
    assert "Traceback" not in said


def test_an_error_document_that_cannot_be_written_is_still_said_on_stderr(tmp_path: Path) -> None:
    code, said = ran_into_full_disk("scan", tmp_path / "nowhere", "--output", "json")
    assert code in (2, 3)
    assert "no such directory" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
@pytest.mark.parametrize("command", ["dump", "producers"])
def test_a_reader_who_has_gone_ends_the_command_quietly(log_dir: Path, command: str, output: str) -> None:
    """As for `… | head`: 141 is what a shell makes of SIGPIPE, and nothing is said."""
    source = file_of(log_dir / "orders-0", 0, ".log") if command == "dump" else log_dir
    words = [command, "--output", output, str(source), *(["--producer-expiration", "none"] * (command == "producers"))]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.reference.tiersnap", *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=REPOSITORY,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("command", ["scan", "verify", "doctor"])
def test_a_command_ends_with_its_code_when_stderr_is_closed(
    log_dir: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python has None for a stream that its parent process closed (`2>&-`)."""
    expected = run([command, str(log_dir)])
    monkeypatch.setattr(sys, "stderr", None)
    code = run([command, str(log_dir)])
    sys.stderr.close()  # the null device, in place of None
    assert code == expected
