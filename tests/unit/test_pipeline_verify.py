"""`tiersnap verify`: every file gets an answer, and no answer is no good news."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.privileges import run_obeying_modes
from tests.reference.recovered import DATA
from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.main import run as tiersnap

pytestmark = pytest.mark.unit

LOGS = DATA / "kafka-3.9.1/logs"


def verify(*arguments: str) -> int:
    return tiersnap(["verify", *arguments])


def test_what_kafkas_own_classes_fold_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(str(LOGS), "--against", str(DATA / "kafka-3.9.1/expected")) == 0
    said = capsys.readouterr().err
    count = len(list((DATA / "kafka-3.9.1/expected").glob("*/*.snapshot")))
    assert f"{count} of {count} snapshots agree with the log" in said


def test_a_file_compared_with_nothing_is_unverified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "payments-0"
    folder.mkdir()
    (folder / "00000000000000000001.snapshot").write_bytes(bytes.fromhex("000148674bc700000000"))
    assert verify(str(LOGS), "--topic", "payments", "--against", str(tmp_path)) == 6
    assert "UNVERIFIED" in capsys.readouterr().out


def test_a_directory_without_snapshots_of_the_log_is_a_wrong_path(tmp_path: Path) -> None:
    assert verify(str(LOGS), "--against", str(tmp_path)) == 2


def test_a_topic_that_is_not_there_is_a_wrong_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(str(LOGS), "--topic", "nobody") == 2
    assert "no topic matches" in capsys.readouterr().err


def test_a_log_that_may_not_be_read_is_no_good_news(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path, with_snapshots=False)
    file_of(folder, 0, ".log").chmod(0o000)
    done = run_obeying_modes("-m", "tests.reference.tiersnap", "verify", str(tmp_path))
    assert done.returncode == 6
    assert "next for PERMISSION_DENIED: run the command as the user that runs the broker" in done.stderr


def test_a_file_that_cannot_be_opened_is_said_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "payments-0"
    (folder / "00000000000000000281.snapshot").mkdir(parents=True)
    assert verify(str(tmp_path)) == 5
    assert "UNREADABLE_FILE" in capsys.readouterr().err
    assert verify(str(LOGS), "--topic", "payments", "--against", str(tmp_path)) == 6
    assert "a folder" in capsys.readouterr().out
