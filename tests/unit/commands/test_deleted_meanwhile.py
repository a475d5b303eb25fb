"""A partition folder or segment that is deleted after it was listed: one sentence and exit code in all commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.reference.command import Ran, tiersnap
from tests.reference.local_facts import write_tables
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.retention_meanwhile import delete_when_read
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.file_system import Entry, LocalFileSystem
from tiersnap.snapshot.replay import folds_ahead

pytestmark = pytest.mark.unit

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
DELETED = "deleted since it was listed"
NOW = ("--now", "2026-11-23T12:45:00Z")
COMMANDS = ("doctor", "scan", "verify", "repair", "tier", "tier --apply", "simulate", "producers")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two partitions with three segments."""
    for topic in ("orders", "payments"):
        segments = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10, 20)}
        write_partition(tmp_path / "logs", topic, 0, segments, high_watermark=30, indexes=True, topic_id=TOPIC_ID)
    return tmp_path / "logs"


@pytest.fixture
def without_folder(logs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of orders-0, which is deleted right before a command lists it."""
    gone, list_folder = logs / "orders-0", LocalFileSystem.list_folder

    def delete_first(self: LocalFileSystem, path: str) -> list[Entry]:
        if path == str(gone):
            shutil.rmtree(path, ignore_errors=True)
        return list_folder(self, path)

    monkeypatch.setattr(LocalFileSystem, "list_folder", delete_first)
    return gone


def run(command: str, logs: Path) -> Ran:
    first, *flags = command.split()
    remote = ("--remote", logs.parent / "remote") if first == "tier" else ()
    return tiersnap(first, logs, *NOW, *remote, *flags)


@pytest.mark.parametrize("command", COMMANDS)
def test_folder_that_is_deleted_after_the_listing_is_told_as_such(
    command: str, logs: Path, without_folder: Path
) -> None:
    ran = run(command, logs)
    assert ran.exit_code == ExitCode.TRANSIENT, ran.err
    if command == "doctor":
        (found,) = json.loads(ran.out)["result"]["findings"]
        assert found == {
            "finding_kind": "DELETED_FILE",
            "path": str(without_folder),
            "position": -1,
            "message": DELETED,
        }
        return
    assert f"DELETED_FILE: {without_folder}: {DELETED}" in ran.err
    assert "CORRUPT" not in ran.err + ran.out
    assert "run the same command again" in ran.err


@pytest.mark.parametrize("command", ["scan", "verify"])
def test_segment_that_retention_deletes_is_left_out_by_a_second_look(
    command: str, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tiersnap("repair", logs, *NOW, "--apply").exit_code == 0
    delete_when_read(monkeypatch, 0)
    ran = run(command, logs)
    assert ran.exit_code == ExitCode.OK, ran.err
    assert "DELETED_FILE" not in ran.err + ran.out and json.loads(ran.out)["result"]["findings"] == []
    right = tiersnap(command, logs, *NOW)
    assert ran.rows == right.rows and f"orders-0/{0:020d}" not in ran.out


@pytest.mark.parametrize("command", ["scan", "verify"])
def test_second_look_at_a_segment_that_goes_as_well_is_transient(
    command: str, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_when_read(monkeypatch, 0)
    monkeypatch.setattr(folds_ahead, "usable_cores", lambda: 1)  # no thread has read the next segment already
    list_folder, first = LocalFileSystem.list_folder, logs / "orders-0" / f"{0:020d}.log"

    def delete_later(self: LocalFileSystem, path: str) -> list[Entry]:
        entries = list_folder(self, path)
        if path.endswith("orders-0") and not first.exists():
            delete_when_read(monkeypatch, 10)
        return entries

    monkeypatch.setattr(LocalFileSystem, "list_folder", delete_later)
    ran = run(command, logs)
    assert ran.exit_code == ExitCode.TRANSIENT, ran.err
    assert f"DELETED_FILE: {logs}/orders-0/{10:020d}.log: {DELETED}" in ran.err
    assert f"orders-0/{0:020d}.log" not in ran.err


# `doctor` reads no segment; `scan` and `verify` look a second time.
@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"doctor", "scan", "verify"}))
def test_segment_that_is_deleted_after_the_listing_is_told_as_such(
    command: str, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_when_read(monkeypatch, 0)
    ran = run(command, logs)
    assert ran.exit_code == ExitCode.TRANSIENT, ran.err
    assert f"DELETED_FILE: {logs}/orders-0/{0:020d}.log: {DELETED}" in ran.err
    assert "CORRUPT" not in ran.err + ran.out
    assert "run the same command again" in ran.err


def test_report_tells_of_a_folder_that_was_deleted_after_the_listing(logs: Path, without_folder: Path) -> None:
    write_tables(logs.parent / "tables", logs, run=1, now=1_795_265_100_000)
    ran = tiersnap("report", "--warehouse", logs.parent / "tables", *NOW)
    assert ran.exit_code == ExitCode.TRANSIENT, ran.err
