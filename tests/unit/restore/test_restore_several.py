"""Several partitions in one `tiersnap restore`: what is said of one is said of that one, and cuts no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.recovered import DATA

pytestmark = pytest.mark.unit

LOGS = DATA / "ledger-2.7.2" / "logs"
NOW = ("--now", "2026-11-21T12:45:00Z")
TOPIC_ID = "oHYTebcOSxao4LTsgUAnlQ"


@pytest.fixture(scope="module")
def whole_tier(tmp_path_factory) -> Path:
    """Six closed segments of each of two partitions."""
    place = tmp_path_factory.mktemp("several")
    (place / "ids").write_text(f"ledger {TOPIC_ID}\n")
    words = ("--remote", place / "remote", "--topic-ids", place / "ids", "--topic", "ledger", "--apply", *NOW)
    ran = tiersnap("tier", LOGS, *words)
    assert ran.exit_code == 0, ran.err
    return place / "remote"


@pytest.fixture
def remote(whole_tier: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole_tier, tmp_path / "remote")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    (tmp_path / "disk").mkdir()
    shutil.copy(LOGS / "meta.properties", tmp_path / "disk")
    return tmp_path / "disk"


def restore(remote: Path, disk: Path, *words: str) -> Ran:
    return tiersnap("restore", "--remote", remote, "--to", disk, "--topic", "ledger", "--unpublished", *words, *NOW)


def lose_log(remote: Path, partition: int, base: int) -> None:
    (path,) = remote.glob(f"ledger-*/{partition}/{base:020d}-*.log")
    path.unlink()


def hinted(refused: Ran, option: str) -> list[str]:
    """The words that the hint says to add, from `option` on."""
    words = refused.err.split()
    at = words.index(option)
    assert words[at + 2] == "--partition", refused.err
    return [word.strip('",;.)') for word in words[at : at + 4]]


def test_a_hole_names_its_partition_and_the_way_round_it_is_for_that_one_alone(remote, disk):
    lose_log(remote, 0, 368)
    refused = restore(remote, disk, "--apply")
    assert_said(refused, 4, "ledger-0: no complete remote segment of this log has the offsets 368 to 551")
    assert hinted(refused, "--log-start") == ["--log-start", "552", "--partition", "ledger-0"]
    done = restore(remote, disk, *hinted(refused, "--log-start"), "--apply")
    assert done.row(partition="ledger-0")["log_start_offset"] == 552
    rest = restore(remote, disk, "--apply")
    assert rest.exit_code == 0, rest.err
    assert {row["partition"]: row["log_start_offset"] for row in rest.rows} == {"ledger-0": 552, "ledger-1": 0}


def test_a_lost_tail_names_its_partition_and_the_way_round_it_is_for_that_one_alone(remote, disk):
    lose_log(remote, 1, 941)
    refused = restore(remote, disk, "--apply")
    assert_said(refused, 4, "ledger-1: the log would end at offset 941")
    assert hinted(refused, "--until") == ["--until", "941", "--partition", "ledger-1"]
    beyond = restore(remote, disk, "--partition", "ledger-0", "--until", "5000")
    assert_said(beyond, 4, "ledger-0: the usable segments end at offset 1102")
    assert hinted(beyond, "--until") == ["--until", "1102", "--partition", "ledger-0"]


def test_an_offset_that_no_copy_holds_names_its_partition(remote, disk):
    refused = restore(remote, disk, "--partition", "ledger-1", "--log-start", "5000")
    assert_said(refused, 2, "ledger-1: no complete remote segment has offset 5000")


def test_a_batch_that_the_end_lies_in_names_its_partition(remote, disk):
    refused = restore(remote, disk, "--partition", "ledger-1", "--until", "2", "--apply")
    assert_said(refused, 5, "ledger-1: segment", "the batch at offset 0 crosses the start or end of the offsets [0, 2)")
    assert hinted(refused, "--until")[2:] == ["--partition", "ledger-1"]


@pytest.mark.parametrize("option", ["--log-start", "--until"])
@pytest.mark.parametrize(
    "named", [(), ("--partition", "ledger-0", "--partition", "ledger-1")], ids=["all there are", "both named"]
)
def test_an_offset_for_several_partitions_is_refused_and_nothing_is_written(remote, disk, option, named):
    refused = restore(remote, disk, option, "552", *named, "--apply")
    assert_said(
        refused,
        2,
        f"{option} 552 can apply to only one partition, but 2 partitions are selected: ledger-0, ledger-1",
        f"{option} 552 --partition ledger-0",
    )
    assert [path.name for path in disk.iterdir()] == ["meta.properties"]
