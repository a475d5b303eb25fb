"""The files of a 4.1.1 (KRaft) that a power loss left: what scan, repair, verify and doctor say of each topic.

tests/cases/power-loss: each topic has 30 records of three producers and one damage (KAFKA-15046, KAFKA-16541).
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.recovered import DATA
from tests.reference.small_log import tree

pytestmark = pytest.mark.unit

DISK = DATA.parent / "cases/power-loss/disk"
NOW = ("--now", "2026-11-27T19:30:00Z")
ID = "5GXaOJXiRzOuReKRIUWzvw"
SOUND = ("clean", "tailnul", "tmp", "lastsegnul")
SNAPSHOTS = {"newest0": 24, "middle0": 16, "newestnul": 24, "middlenul": 16}
EPOCHS = ("epoch0", "epochnul")
READY = {"READY": 3, "ACTIVE_SEGMENT": 1}


def lay_out(at: Path, topic: str) -> Path:
    """The disk with one topic alone; the topic's folder."""
    at.mkdir()
    for path in DISK.iterdir():
        if path.is_file():
            shutil.copy(path, at)
    return Path(shutil.copytree(DISK / f"{topic}-0", at / f"{topic}-0"))


def verdicts(disk: Path) -> dict[str, int]:
    return tiersnap("scan", disk, *NOW).row()["verdicts"]


def actions(ran: Ran) -> dict[str, str]:
    return {row.get("file") or f"{row['offset']:020d}.snapshot": row["action"] for row in ran.rows}


def test_every_topic_of_the_disk_has_its_test() -> None:
    assert sorted(path.name[:-2] for path in DISK.glob("*-0")) == sorted((*SOUND, *SNAPSHOTS, *EPOCHS, "meta0"))


@pytest.mark.parametrize("topic", SOUND)
def test_topic_whose_damage_a_broker_cures_needs_nothing(tmp_path: Path, topic: str) -> None:
    disk = lay_out(tmp_path / "disk", topic).parent
    before = tree(disk)
    for command in ("scan", "doctor", "verify", "repair"):
        assert_said(tiersnap(command, disk, *NOW), 0)
    assert_said(
        tiersnap("repair", disk, *NOW, "--replace", "--apply"), 0, "nothing to write: 3 existing snapshots are right"
    )
    assert verdicts(disk) == READY
    assert tree(disk) == before


@pytest.mark.parametrize(("topic", "offset"), SNAPSHOTS.items())
def test_topic_with_a_corrupt_snapshot_gets_it_replaced(tmp_path: Path, topic: str, offset: int) -> None:
    disk = lay_out(tmp_path / "disk", topic).parent
    ran = tiersnap("scan", disk, *NOW)
    assert_said(ran, 5, f"next for wrong snapshots: tiersnap repair {disk}")
    assert ran.row()["verdicts"]["CORRUPT_SNAPSHOT"] == 1
    assert tiersnap("verify", disk, *NOW).row(offset=offset)["verdict"] == "CORRUPT"
    assert_said(tiersnap("doctor", disk, *NOW), 0)  # it reads names and sizes
    name = f"{offset:020d}.snapshot"
    plan = tiersnap("repair", disk, *NOW)
    assert_said(plan, 5, "1 snapshot is wrong; to replace them: tiersnap repair")
    assert actions(plan) == {name: "NEEDS_REPLACE"}
    assert actions(tiersnap("repair", disk, *NOW, "--replace", "--apply")) == {name: "REPLACE"}
    assert verdicts(disk) == READY
    assert Counter(row["verdict"] for row in tiersnap("verify", disk, *NOW, "--strict").rows) == {"MATCHES": 3}


@pytest.mark.parametrize("topic", EPOCHS)
def test_topic_without_leader_epochs_gets_them_from_its_batches(tmp_path: Path, topic: str) -> None:
    folder = lay_out(tmp_path / "disk", topic)
    disk, is_damaged = folder.parent, topic == "epochnul"
    code = 5 if is_damaged else 4
    ran = tiersnap("scan", disk, *NOW)
    assert_said(ran, code, "next for INDEX_DAMAGED: ", f"tiersnap repair {disk} --now")
    assert ran.row()["verdicts"] == {"INDEX_DAMAGED": 3, "ACTIVE_SEGMENT": 1}
    kind = "CORRUPT_CHECKPOINT" if is_damaged else "CORRUPT_INDEX"
    assert_said(tiersnap("verify", disk, *NOW), code, f"{kind}: {folder}/leader-epoch-checkpoint: ")
    told = tiersnap("doctor", disk, *NOW, output="table")
    assert_said(told, code)
    assert "3 segments: INDEX_DAMAGED" in told.out
    assert "another replica" not in told.out
    assert actions(tiersnap("repair", disk, *NOW)) == {"leader-epoch-checkpoint": "WRITE"}
    before = tree(disk)
    assert_said(
        tiersnap("repair", disk, *NOW, "--apply"),
        0,
        "1 index, checkpoint or metadata file: written",
        "next: start the broker",
    )
    name = f"{folder.name}/leader-epoch-checkpoint"
    assert tree(disk) == {**before, name: (DISK / "clean-0/leader-epoch-checkpoint").read_bytes()}
    for command in ("scan", "doctor", "verify", "repair"):
        assert_said(tiersnap(command, disk, *NOW), 0)


def test_topic_without_its_id_is_never_to_be_moved_away(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "disk", "meta0")
    disk, before = folder.parent, tree(folder)
    for command in ("scan", "doctor", "verify", "repair"):
        ran = tiersnap(command, disk, *NOW, output="table")
        assert_said(ran, 5)
        text = " ".join((ran.out + ran.err).split())
        assert f"CORRUPT_CHECKPOINT: {folder}/partition.metadata: " in text
        assert "never move partition.metadata away: tiersnap repair rewrites it with the topic's id" in text
    ran = tiersnap("scan", disk, *NOW)
    assert ran.row()["verdicts"] == {"TOPIC_ID_UNKNOWN": 3, "ACTIVE_SEGMENT": 1}
    assert f"tiersnap repair {disk} --now 2026-11-27T19:30:00+00:00 --topic-ids FILE --apply" in ran.err
    told = tiersnap("doctor", disk, *NOW, output="table").out
    assert "start no broker before partition.metadata has the topic's id" in " ".join(told.split())
    plan = tiersnap("repair", disk, *NOW, "--apply")
    assert_said(plan, 5, "1 index, checkpoint or metadata file: lost")
    assert actions(plan) == {"partition.metadata": "NOT_TOLD"}
    assert "kafka-topics.sh --describe" in plan.row()["reason"]
    assert tree(folder) == before


def test_topic_gets_its_id_back_by_topic_ids(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "disk", "meta0")
    disk = folder.parent
    (tmp_path / "ids").write_text(f"meta0 {ID}\n")
    words = ("repair", disk, *NOW, "--topic-ids", tmp_path / "ids")
    plan = tiersnap(*words)
    assert actions(plan) == {"partition.metadata": "WRITE"}
    assert_said(
        plan,
        5,
        "1 index, checkpoint or metadata file: to write; nothing was written yet",
        "next: stop the broker, then tiersnap repair",
    )
    assert_said(tiersnap(*words, "--apply"), 0, "next: start the broker")
    of_broker = (DISK / "clean-0/partition.metadata").read_bytes()
    assert (folder / "partition.metadata").read_bytes() == of_broker[:-22] + ID.encode()
    assert verdicts(disk) == READY
    for command in ("scan", "doctor", "verify", "repair"):
        assert_said(tiersnap(command, disk, *NOW), 0)
