"""`repair --remote` of a log of which no checkpoint says where it begins: the copies decide, as they do for `tier`.

A broker writes `log-start-offset-checkpoint` in intervals; it is lost with a disk, and whoever copies a log directory
by hand leaves it behind.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.unit.test_log_begins_in_remote_storage import (
    LAYOUTS,
    as_brokers_copied,
    fixture_whole,  # noqa: F401 - the fixture `whole`
    folded_from_the_files_alone,
    repair,
    shortened,
    snapshots_in,
    tier,
)
from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected_of
from tiersnap.snapshot.repair import files
from tiersnap.snapshot.repair.log_dirs import HostRepair
from tiersnap.snapshot.repair.repair_action import RepairAction
from tiersnap.snapshot.repair.repair_plan import PlanOptions
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.replay_start import Beginning, Beginnings

pytestmark = pytest.mark.unit

NOW = 1_700_000_000_000
CHECKPOINT = "log-start-offset-checkpoint"
UNSAID = {"none": None, "empty": b"", "of no partition": b"0\n0\n", "of another partition": b"0\n1\nothers 0 3\n"}


def unsaid(tmp_path: Path, content: bytes | None = None, snapshots: dict[int, bytes] | None = None) -> Path:
    """The log directory after local retention, and no word of where the log begins."""
    logs = shortened(tmp_path, checkpoint=None, snapshots=snapshots)
    if content is not None:
        (logs / CHECKPOINT).write_bytes(content)
    return logs


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("content", UNSAID.values(), ids=UNSAID)
def test_what_is_made_is_of_the_whole_log_and_tier_takes_it(
    tmp_path: Path, whole: dict[int, bytes], layout: str, content: bytes | None
) -> None:
    remote = as_brokers_copied(tmp_path, layout)
    logs, words = unsaid(tmp_path, content), ("--layout", layout)
    ran = repair(logs, "--remote", remote, *words)
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(logs) == {offset: whole[offset] for offset in (30, 40)}
    assert {row["provenance"] for row in ran.rows} == {"COMPUTED_FROM_SNAPSHOT"}
    again = repair(logs, "--remote", remote, *words)
    assert (again.exit_code, again.rows) == (0, [])
    (tiered,) = tier(logs, remote, *words, "--leave-to-broker", "none").rows
    assert tiered["uploaded"] == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_short_ones_that_lie_there_are_named_and_replaced_by_what_tier_says_to_type(
    tmp_path: Path, whole: dict[int, bytes], layout: str
) -> None:
    partial, remote = folded_from_the_files_alone(tmp_path), as_brokers_copied(tmp_path, layout)
    logs = unsaid(tmp_path, snapshots={offset: partial[offset] for offset in (30, 40)})
    words, at_the_time = ("--layout", layout), ("--now", "2023-11-15T00:00:00Z")
    refused = tier(logs, remote, *words)
    assert refused.exit_code == 4
    assert "SUSPECT_SNAPSHOT" in refused.err
    hint = refused.err.partition("if the log begins in remote storage: ")[2].splitlines()[0]
    assert hint.startswith(f"tiersnap repair {logs}")
    named = repair(logs, "--remote", remote, *words, *at_the_time)
    assert named.exit_code == 4
    assert {row["action"] for row in named.rows} == {"NEEDS_REPLACE"}
    filled = shlex.split(hint)[1:]
    replaced = tiersnap(*filled, *at_the_time)
    assert replaced.exit_code == 0, replaced.err
    assert snapshots_in(logs) == {offset: whole[offset] for offset in (30, 40)}
    assert tiersnap(*filled, *at_the_time).rows == []
    assert tier(logs, remote, *words).exit_code == 0


def test_log_whose_epochs_begin_at_its_files_begins_at_them_without_copies(tmp_path: Path) -> None:
    partial = folded_from_the_files_alone(tmp_path)
    (tmp_path / "remote").mkdir()
    logs = unsaid(tmp_path)
    refused = repair(logs, "--remote", tmp_path / "remote")
    assert (refused.exit_code, snapshots_in(logs)) == (4, {}), "its epochs begin below"
    (logs / "orders-0/leader-epoch-checkpoint").write_text("0\n1\n0 20\n")
    ran = repair(logs, "--remote", tmp_path / "remote")
    assert ran.exit_code == 0, ran.err
    assert {row["provenance"] for row in ran.rows} == {"COMPUTED_FROM_LOG_START"}
    assert snapshots_in(logs) == {offset: partial[offset] for offset in (30, 40)}


@pytest.mark.parametrize("damage", [b"", b"\x00\x01garbage"])
def test_where_a_copy_holds_the_offset_before_the_files_and_tells_no_state_nothing_is_made(
    tmp_path: Path, damage: bytes
) -> None:
    remote = as_brokers_copied(tmp_path, "local-tiered-storage")
    for path in remote.glob("kafka-tiered-storage/*/*.snapshot"):
        path.write_bytes(damage)
    for path in remote.glob(f"kafka-tiered-storage/*/{0:020d}-*.log"):
        path.unlink()
    logs = unsaid(tmp_path)
    ran = repair(logs, "--remote", remote, "--layout", "local-tiered-storage")
    assert (ran.exit_code, snapshots_in(logs)) == (4, {})
    assert {row["action"] for row in ran.rows} == {"NO_START"}
    assert "remote storage does not have it" in ran.err


def test_without_a_topic_id_nobody_knows_the_copies_and_nothing_is_made(tmp_path: Path) -> None:
    remote, logs = as_brokers_copied(tmp_path, "aiven"), unsaid(tmp_path)
    (logs / "orders-0/partition.metadata").unlink()
    ran = repair(logs, "--remote", remote)
    assert (ran.exit_code, snapshots_in(logs)) == (4, {})
    assert "orders-0: the topic id is unknown on this host" in ran.err


def test_where_remote_storage_does_not_answer_nothing_is_made_and_a_later_call_may(tmp_path: Path) -> None:
    def answers_not(partition: Partition) -> Beginning:
        raise TransientError("a time-out")

    opened = open_log_dirs((str(unsaid(tmp_path)),))
    job = HostRepair(opened, PlanOptions(Expiry(None, NOW), above_newest=True), beginnings=Beginnings(answers_not))
    ((_, _, planned, _),) = job.plans(selected_of(opened, Selection()), files.nowhere)
    assert {each.action for each in planned} == {RepairAction.NO_START}
    assert (exit_code_of(job.problems()), job.beginnings.unknown) == (3, {"orders-0": "a time-out"})


def test_killed_anywhere_it_leaves_whole_right_files_and_the_next_call_finishes(
    tmp_path: Path, whole: dict[int, bytes]
) -> None:
    partial, remote = folded_from_the_files_alone(tmp_path), as_brokers_copied(tmp_path, "aiven")
    unsaid(tmp_path / "host", snapshots={30: partial[30]})
    words = ["repair", "{}/logs", "--remote", str(remote), "--replace", "--above-newest", "--apply"]
    words += ["--expiration", "none", "--now", "2023-11-15T00:00:00Z"]
    copies = tmp_path / "killed"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.reference.killed", str(tmp_path / "host"), str(copies), *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    times = int(ran.stdout.splitlines()[-1])
    assert times > 5
    for number in range(1, times + 1):
        copy = copies / str(number)
        for offset, data in snapshots_in(copy).items():
            assert data in (whole[offset], partial[30]), f"{offset} after kill {number}"
        done = tiersnap(*(word.replace("{}", str(copy)) for word in words))
        assert done.exit_code == 0, done.err
        assert snapshots_in(copy) == {offset: whole[offset] for offset in (30, 40)}, f"after kill {number}"
