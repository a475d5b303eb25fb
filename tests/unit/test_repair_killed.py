"""`tiersnap repair` killed (SIGKILL) before each change it makes: whole files only, and the next run finishes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import file_of, tree, write_small_log

pytestmark = pytest.mark.unit

WITHOUT_PRODUCERS = bytes.fromhex("000148674bc700000000")
CHANGES_A_SNAPSHOT = 2  # open the temporary file, rename


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A log directory in a folder: two partitions, three snapshots to write and two to replace."""
    folder = tmp_path / "host" / "log-dir"
    folder.mkdir(parents=True)
    write_small_log(folder, "missing", with_snapshots=False)
    wrong = write_small_log(folder, "wrong")
    for offset in (5, 15):
        file_of(wrong, offset, ".snapshot").write_bytes(WITHOUT_PRODUCERS)
    return folder.parent


def killed(folder: Path, copies: Path, *words: str) -> int:
    """How often the command was killed before it got through."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.reference.killed", str(folder), str(copies), *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("place", ["in place", "elsewhere"])
def test_killed_anywhere_it_leaves_whole_files_and_the_next_run_finishes(host, tmp_path, place):
    apply = ["repair", "--expiration", "none", "--replace"]
    apply += ["--apply", "{}/log-dir"] if place == "in place" else ["--all", "--out", "{}/out", "{}/log-dir"]
    before = tree(host)
    shutil.copytree(host, tmp_path / "uninterrupted")
    assert_said(tiersnap(*(word.replace("{}", str(tmp_path / "uninterrupted")) for word in apply)), 0)
    finished = tree(tmp_path / "uninterrupted")
    assert finished.keys() != before.keys()

    times = killed(host, tmp_path / "killed", *apply)

    assert times >= 5 * CHANGES_A_SNAPSHOT
    for number in range(1, times + 1):
        copy = tmp_path / "killed" / str(number)
        for path, data in tree(copy).items():
            if path.endswith(".snapshot"):
                assert data in (before.get(path), finished[path]), f"{path} after kill {number}"
        assert_said(tiersnap(*(word.replace("{}", str(copy)) for word in apply)), 0)
        assert tree(copy) == finished, f"after kill {number}"
    assert tree(tmp_path / "killed" / str(times + 1)) == finished
