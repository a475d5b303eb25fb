"""A log start that moved into the first segment: its leader epochs begin there, the segment before.

DeleteRecords moves the log start, and the leader epochs with it; the checkpoint follows within a minute, and is lost
with a directory that was copied without it. What `tier` uploaded of such a segment holds all of its bytes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.reference.command import Ran, tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.unit

SEGMENTS = {
    0: [data_batch(0, 5, 1, 0, 0), data_batch(5, 5, 9, 0, 0)],
    **{base: [data_batch(base, 10, 1, 0, base)] for base in (10, 20, 30, 40)},
}
CASES = {"stale": (0, 5, 0), "lost": (20, 25, None), "right": (0, 5, 5)}
LAYOUTS = ["aiven", "local-tiered-storage"]


def written(tmp_path: Path, first: int, epoch_start: int, checkpoint: int | None, name: str = "logs") -> Path:
    write_partition(
        tmp_path / name,
        "orders",
        0,
        {base: entries for base, entries in SEGMENTS.items() if base >= first},
        leader_epochs=[(0, epoch_start)],
        log_start_offset=checkpoint,
        high_watermark=50,
        indexes=True,
    )
    return tmp_path / name


def tier(logs: Path, remote: Path, *words: str) -> Ran:
    return tiersnap("tier", logs, "--remote", remote, "--now", "2023-11-15T00:00:00Z", *words)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_tier_knows_its_own_uploads_when_the_log_start_is_inside_a_segment(
    tmp_path: Path, case: str, layout: str
) -> None:
    logs, remote = written(tmp_path, *CASES[case]), tmp_path / "remote"
    closed = sum(base >= CASES[case][0] for base in SEGMENTS) - 1
    first = tier(logs, remote, "--layout", layout, "--apply")
    assert (first.exit_code, first.rows[0]["uploaded"]) == (0, closed), first.err
    again = tier(logs, remote, "--layout", layout, "--apply")
    assert again.exit_code == 0, again.err
    assert again.rows[0]["verdicts"] == {"UPLOADED": closed, "ACTIVE_SEGMENT": 1}
    scanned = tiersnap("scan", logs, "--remote", remote, "--layout", layout)
    assert scanned.rows[0]["verdicts"] == {"UPLOADED": closed, "ACTIVE_SEGMENT": 1}


@pytest.mark.parametrize("case", CASES)
def test_tier_starts_behind_own_uploads_of_a_segment_that_the_log_start_is_in(tmp_path: Path, case: str) -> None:
    logs, remote = written(tmp_path, *CASES[case]), tmp_path / "remote"
    assert tier(logs, remote, "--apply").exit_code == 0
    path = logs / "orders-0" / f"{CASES[case][0]:020d}.log"
    path.write_bytes(bytes(path.stat().st_size))
    ran = tier(logs, remote, "--apply")
    assert ran.exit_code == 0, "the first file is not read again"


@pytest.mark.parametrize("case", ["stale", "right"])
def test_repair_reads_the_state_of_a_remote_segment_that_the_log_start_is_in(tmp_path: Path, case: str) -> None:
    logs, remote = written(tmp_path, *CASES[case]), tmp_path / "remote"
    assert tiersnap("repair", logs, "--all", "--out", tmp_path / "right").exit_code == 0
    assert tier(logs, remote, "--apply").exit_code == 0
    for path in remote.rglob("*"):
        if path.is_file() and b'"finished"' in path.read_bytes():
            path.unlink()
    for path in (logs / "orders-0").glob(f"{0:020d}.*"):
        path.unlink()
    ran = tiersnap("repair", logs, "--remote", remote, "--above-newest", "--apply", "--now", "2023-11-15T00:00:00Z")
    assert ran.exit_code == 0, ran.err
    for offset in (20, 30, 40):
        name = f"orders-0/{snapshot_file.file_name(offset)}"
        assert (logs / name).read_bytes() == (tmp_path / "right" / name).read_bytes()


def test_verify_finds_nothing_wrong_with_an_ended_attempt_beside_a_complete_one(tmp_path: Path) -> None:
    logs, remote = written(tmp_path, *CASES["stale"]), tmp_path / "remote"
    assert tier(logs, remote, "--apply", "--layout", "local-tiered-storage").exit_code == 0
    (log,) = remote.rglob(f"{0:020d}-*.log")
    left = log.with_name(log.name.replace(log.name[21:25], "left", 1))
    shutil.copy(log, left)
    ran = tiersnap("verify", "--remote", remote, "--layout", "local-tiered-storage", "--depth", "metadata")
    assert ran.exit_code == 0, ran.out
