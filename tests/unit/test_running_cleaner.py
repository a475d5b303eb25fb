"""Beside a running broker files of its log cleaner come and go: no command takes them for damage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.broker_lock import broker
from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import file_of, write_small_log
from tiersnap.snapshot.log.lock import holder_of, locked

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock"),
]

# As Kafka's Cleaner and UnifiedLog.replaceSegments name them, in the order in which they appear.
SUFFIXES = (".log.cleaned", ".index.cleaned", ".log.swap", ".timeindex.swap", ".log.deleted", ".snapshot.deleted")
COMMANDS = ("scan", "doctor", "verify", "repair", "simulate", "producers")


@pytest.fixture
def cleaned(tmp_path: Path) -> Path:
    """A log directory whose broker's cleaner is at work."""
    folder = write_small_log(tmp_path)
    for suffix in SUFFIXES:
        file_of(folder, 5, suffix).touch()
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_files_of_the_cleaner_are_no_damage_while_a_broker_runs(cleaned: Path, command: str) -> None:
    with broker(cleaned):
        assert_said(tiersnap(command, cleaned), 0)


def test_files_of_the_cleaner_are_named_when_no_broker_runs(cleaned: Path) -> None:
    assert_said(tiersnap("scan", cleaned), 5, "UNFINISHED_SWAP")


_TRY = "import fcntl,sys; fcntl.lockf(open(sys.argv[1],'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def test_holder_of_keeps_a_lock_of_this_process(tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file as soon as it closes any descriptor of that file."""
    with locked(tmp_path):
        assert holder_of(tmp_path) is None
        tried = subprocess.run([sys.executable, "-c", _TRY, str(tmp_path / ".lock")], capture_output=True, check=False)
        assert tried.returncode == 1, "the lock was given away"
    assert holder_of(tmp_path) is None
