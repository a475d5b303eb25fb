"""A directory with meta.properties and no partition is a broker's empty disk; one without may be an unmounted one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import write_small_log

pytestmark = pytest.mark.unit

META = "version=1\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nnode.id=1\n"
COMMANDS = ("scan", "doctor", "verify", "repair", "producers", "simulate", "tier", "collect")


def words(command: str, *log_dirs: Path) -> list[str | Path]:
    """The command over the directories."""
    place = {"tier": ["--remote"], "collect": ["--to"]}.get(command, [])
    return [command, *log_dirs, *place, *(log_dirs[0].parent / "remote" for _ in place)]


def disk(path: Path, *folders: str) -> Path:
    for folder in ("", *folders):
        (path / folder).mkdir()
    (path / "meta.properties").write_text(META)
    return path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("folders", [(), ("__cluster_metadata-0",)], ids=["fresh broker", "controller"])
def test_command_ends_with_0_when_no_partition_is_there_yet(tmp_path: Path, command: str, folders: tuple) -> None:
    ran = tiersnap(*words(command, disk(tmp_path / "disk", *folders)))
    assert_said(ran, 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_ends_with_2_when_a_disk_may_not_be_mounted(tmp_path: Path, command: str) -> None:
    (tmp_path / "disk").mkdir()
    assert_said(tiersnap(*words(command, tmp_path / "disk")), 2, "is its disk mounted?")


@pytest.mark.parametrize("command", ["scan", "doctor", "verify", "repair", "producers"])
def test_command_reads_the_other_disks_when_one_is_empty(tmp_path: Path, command: str) -> None:
    full = disk(tmp_path / "full")
    write_small_log(full)
    assert_said(tiersnap(command, full, disk(tmp_path / "empty")), 0)


@pytest.mark.parametrize("question", ["list", "find-hanging"])
def test_transactions_reads_the_other_disks_when_one_is_empty(tmp_path: Path, question: str) -> None:
    full = disk(tmp_path / "full")
    write_small_log(full)
    alone = tiersnap("transactions", question, full)
    both = tiersnap("transactions", question, full, disk(tmp_path / "empty"))
    assert (both.exit_code, both.rows) == (alone.exit_code, alone.rows)


@pytest.mark.parametrize("question", ["list", "find-hanging"])
def test_transactions_misses_nothing_of_a_broker_without_partitions(tmp_path: Path, question: str) -> None:
    assert_said(tiersnap("transactions", question, disk(tmp_path / "disk", "__cluster_metadata-0")), 0)


@pytest.mark.parametrize("command", ["scan", "verify", "producers", "tier"])
def test_a_mistyped_topic_is_refused_when_no_partition_is_there(tmp_path: Path, command: str) -> None:
    asked = [*words(command, disk(tmp_path / "disk")), "--topic", "orders"]
    assert_said(tiersnap(*asked), 2, "no topic matches")


@pytest.mark.parametrize("command", ["producers", "transactions list"])
def test_transactions_takes_disks_as_log_dirs_names_them(tmp_path: Path, command: str) -> None:
    disks = [disk(tmp_path / f"disk-{number}") for number in (1, 2)]
    for each, topic in zip(disks, ("orders", "payments"), strict=True):
        write_small_log(each, topic)
    apart = tiersnap(*command.split(), *disks)
    for named in (f"{disks[0]},{disks[1]}", f"{tmp_path}/disk-*"):
        assert tiersnap(*command.split(), named).rows == apart.rows
