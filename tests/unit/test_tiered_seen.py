"""`scan` and `doctor` with --remote see what is tiered: right after `unblock` nothing waits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.reference.broker_lock import broker
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.next_steps import commands_of, lines_of
from tests.reference.small_log import file_of, write_small_log

pytestmark = pytest.mark.unit

WITHOUT_PRODUCERS = bytes.fromhex("000148674bc700000000")
LAYOUTS = ("aiven", "local-tiered-storage")


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def freed(tmp_path: Path, layout: str) -> Path:
    """A partition without its older snapshots, as `unblock` leaves it: tiered with computed ones, none written here."""
    folder = write_small_log(tmp_path / "logs")
    for offset in (5, 10):
        file_of(folder, offset, ".snapshot").unlink()
    assert_said(tiersnap("tier", tmp_path / "logs", *place(tmp_path, layout), "--apply"), 0)
    return folder


def place(tmp_path: Path, layout: str) -> tuple[str, ...]:
    return ("--remote", str(tmp_path / "remote"), "--layout", layout)


def told(ran: Ran) -> dict[str, Any]:
    found: dict[str, object] = json.loads(ran.out)["result"]
    return found


def test_scan_and_doctor_end_with_0_right_after_unblock(freed: Path, tmp_path: Path, layout: str) -> None:
    remote = place(tmp_path, layout)
    assert tiersnap("scan", freed.parent).exit_code == 4, "the log directory alone does not tell"
    scanned = tiersnap("scan", freed.parent, *remote)
    assert_said(scanned, 0)
    assert scanned.row(partition="orders-0")["verdicts"] == {"UPLOADED": 3, "ACTIVE_SEGMENT": 1}
    assert "repair" not in scanned.err
    found = tiersnap("doctor", freed.parent, *remote)
    assert_said(found, 0)
    (disk,) = told(found)["log_dirs"]
    assert (disk["missing_snapshots"], disk["blocked"]) == (0, {})
    assert not [step for step in lines_of(told(found)["next"]) if "repair" in step or "stop" in step]


def test_scan_and_doctor_end_with_4_when_a_later_segment_waits(freed: Path, tmp_path: Path, layout: str) -> None:
    for suffix in ("rsm-manifest", "log", "indexes", "snapshot", "index", "timeindex", "leader_epoch_checkpoint"):
        for path in (tmp_path / "remote").rglob(f"{10:020d}-*{suffix}"):
            path.unlink()
        for path in (tmp_path / "remote").rglob(f"{5:020d}-*{suffix}"):
            path.unlink()
    remote = place(tmp_path, layout)
    assert_said(tiersnap("scan", freed.parent, *remote), 4)
    ran = tiersnap("doctor", freed.parent, *remote)
    assert_said(ran, 4)
    (disk,) = told(ran)["log_dirs"]
    assert disk["missing_snapshots"] == 1


def test_a_wrong_newest_snapshot_is_no_less_wrong_when_its_segment_is_tiered(
    freed: Path, tmp_path: Path, layout: str
) -> None:
    """A broker loads it at its next start; an older one nobody reads any more."""
    remote = place(tmp_path, layout)
    file_of(freed, 5, ".snapshot").write_bytes(WITHOUT_PRODUCERS)
    assert_said(tiersnap("scan", freed.parent, *remote), 0)
    file_of(freed, 15, ".snapshot").write_bytes(WITHOUT_PRODUCERS)
    assert_said(tiersnap("scan", freed.parent, *remote), 4, "next for wrong snapshots")


def test_scan_ends_with_0_when_local_retention_took_what_is_tiered(freed: Path, tmp_path: Path, layout: str) -> None:
    for base in (0, 5):
        for path in freed.glob(f"{base:020d}.*"):
            path.unlink()
    (freed.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    for command in ("scan", "doctor"):
        assert_said(tiersnap(command, freed.parent, *place(tmp_path, layout)), 0)


def test_what_waits_of_another_topic_is_not_excused(freed: Path, tmp_path: Path, layout: str) -> None:
    other = write_small_log(freed.parent, "payments", topic_id="5GXaOJXiRzOuReKRIUWzvw")
    file_of(other, 10, ".snapshot").unlink()
    ran = tiersnap("scan", freed.parent, *place(tmp_path, layout))
    assert_said(ran, 4, "tiersnap repair")
    assert ran.row(partition="payments-0")["verdicts"]["MISSING_SNAPSHOT"] == 1


@pytest.mark.parametrize("command", ["scan", "doctor"])
def test_remote_storage_that_is_not_there_is_said_before_anything_is_read(tmp_path: Path, command: str) -> None:
    write_small_log(tmp_path / "logs")
    assert_said(tiersnap(command, tmp_path / "logs", "--remote", tmp_path / "no"), 2, "no such directory")


def test_scan_says_which_partition_remote_storage_does_not_answer_for(freed: Path, tmp_path: Path, layout: str) -> None:
    shutil.rmtree(tmp_path / "remote")
    (tmp_path / "remote").mkdir()
    (tmp_path / "remote" / ("claims" if layout == "aiven" else "x")).write_text("")
    ran = tiersnap("scan", freed.parent, *place(tmp_path, layout))
    assert ran.exit_code in (4, 6)
    assert "Traceback" not in ran.err


def test_doctor_names_unblock_when_a_broker_runs(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path / "logs")
    file_of(folder, 10, ".snapshot").unlink()
    with broker(folder.parent):
        steps = told(tiersnap("doctor", folder.parent))["next"]
    stopped = told(tiersnap("doctor", folder.parent))["next"]
    words = f"tiersnap unblock {folder.parent} --bootstrap-server HOST:PORT --remote s3://bucket/prefix"
    assert steps[0]["command"] == f"{words} --apply"
    assert steps[0]["note"].startswith("makes stuck partitions tier again while the broker runs; uploads ")
    assert commands_of(stopped)[0] == f"tiersnap repair {folder.parent}"
    assert not [step for step in commands_of(stopped) if "tiersnap unblock" in step]
