"""A snapshot file that cannot be read is tried again by each run, and said once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.reference.fleet_run import Runner
from tests.reference.log_builder import data_batch, write_partition
from tiersnap.jobs.pipeline import listing, unread
from tiersnap.snapshot.log import file_system
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.replay import partition_replay

pytestmark = pytest.mark.unit

ID = "lZ6vvmajTWKDBUTV6SQAtQ"
HIDDEN = f"{10:020d}.snapshot"


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A partition with its own right snapshots beside it, and one that has nothing to do with it."""
    segments = {base: [data_batch(base, 10, 1 + base, 0, 0)] for base in (0, 10, 20, 30)}
    folder = write_partition(tmp_path / "logs", "orders", 0, segments, topic_id=ID, high_watermark=40, indexes=True)
    made = Runner(tmp_path / "maker", tmp_path / "logs")
    made(every_boundary=True)
    for path in Path(made.remote).rglob("*.snapshot"):
        (folder / path.name).write_bytes(path.read_bytes())
    return Runner(tmp_path, tmp_path / "logs")


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), PermissionError(13, "Permission denied")])
def test_one_that_cannot_be_read_is_no_news_until_it_can(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(filesystem: FileSystem, path: str, **more: int) -> bytes:
        if path.endswith(HIDDEN):
            raise error
        return file_system.read_bounded(filesystem, path, **more)

    for module in (partition_replay, listing, unread):
        monkeypatch.setattr(module, "read_bounded", refuse)
    first = runner(apply=False)
    assert first.boundaries()[10] == "UNVERIFIED"
    for _ in range(2):
        again = runner(apply=False)
        assert [row["end_offset"] for row in again.unread] == [10], "it was tried"
        assert (again.facts, again.commits) == ([], 0)
        assert again.verdicts == first.verdicts
    error.strerror = "Host is down"
    assert runner(apply=False).commits == 2, "another reason is news to the facts and to the verdicts"
    assert runner(apply=False).commits == 0
    monkeypatch.undo()
    read = runner(apply=False)
    assert (read.boundaries()[10], read.commits) == ("MATCHES", 2)
    assert read.verdicts == {"ACTIVE_SEGMENT": 1, "READY": 3}
    last = runner(apply=False)
    assert (last.unread, last.commits) == ([], 0)


def test_one_of_5_gb_is_said_once(runner: Runner) -> None:
    with (runner.source / "orders-0" / HIDDEN).open("r+b") as file:
        file.truncate(5 << 30)
    assert runner(apply=False).boundaries()[10] == "CORRUPT"
    assert runner(apply=False).commits == 0


def test_a_fifo_in_its_place_is_said_once(runner: Runner) -> None:
    path = runner.source / "orders-0" / HIDDEN
    path.unlink()
    os.mkfifo(path)
    first = runner(apply=False)
    assert [row["finding_kind"] for row in first.facts if row["kind"] == "FINDING"] == [
        str(FindingKind.UNREADABLE_FILE)
    ]
    assert runner(apply=False).commits == 0


def test_a_segment_behind_it_is_replayed_with_all_that_the_log_says(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be read might have known more, so no later run starts from a state without it."""

    def refuse(filesystem: FileSystem, path: str, **more: int) -> bytes:
        if path.endswith(HIDDEN):
            raise PermissionError(13, "Permission denied")
        return file_system.read_bounded(filesystem, path, **more)

    for module in (partition_replay, listing, unread):
        monkeypatch.setattr(module, "read_bounded", refuse)
    runner(apply=False)
    segments = {base: [data_batch(base, 10, 1 + base, 0, 0)] for base in (30, 40)}
    write_partition(runner.source, "orders", 0, segments, topic_id=ID, high_watermark=50, indexes=True)
    grown = runner(apply=False)
    assert {change["start_offset"] for change in grown.changes} == {None}
    assert (grown.boundaries()[30], grown.boundaries()[40]) == ("MATCHES", "MATCHES")
