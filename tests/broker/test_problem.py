"""The reason tiersnap exists: what brokers do with a partition whose snapshots are not all there, or are wrong.

And its end: `tiersnap scan` names it, `tiersnap repair --apply` mends it, and the same broker tiers everything.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.broker.harness import damage
from tests.broker.harness.cases import CASES, INACTIVE, write_log_with_empty_snapshots, write_on
from tests.broker.harness.damage import EMPTY_SNAPSHOT, segment_bases, snapshots
from tests.broker.harness.mended import assert_tiers_all_right
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, TOPIC, UPGRADED_VERSION, try_tiering
from tests.broker.harness.tiering import LocalTier
from tests.broker.oracle.judge import wrongly_tiered
from tests.reference.command import tiersnap

pytestmark = pytest.mark.broker

PARTITION = f"{TOPIC}-0"
TUTORIAL = Path(__file__).parents[2] / "docs/tutorial.md"


def shown(*words: str | Path) -> list[str]:
    """A command and what it prints at a terminal."""
    command = "$ tiersnap " + " ".join(map(str, words))
    ran = tiersnap(*words, output="table")
    return [command, *ran.out.splitlines(), *ran.err.splitlines()]


def without_numbers(lines: list[str]) -> set[str]:
    """The lines with every number, unit and path alike: what differs from run to run and from disk to disk.

    A disk that is nearly full has bytes that only root may use.
    """
    lines = [re.sub(r" and [\d.]+ [KMGT]?i?B for root", "", line) for line in lines]
    alike = (re.sub(r"\d[\d.]*|\S*\bdata\b", "#", re.sub(r"[KMGT]iB", "B", line)) for line in lines)
    return {re.sub(r"\s+", " ", line).strip() for line in alike}


def verdicts(ran) -> dict[str, int]:
    return ran.row(partition=PARTITION)["snapshots"]


@pytest.mark.kafka("2.7.2", "3.9.1", "4.1.1")
def test_of_a_topic_born_before_2_8_no_segment_is_tiered_until_its_log_directory_is_repaired(
    legacy_disks, copy_of, tmp_path
):
    disks = copy_of(legacy_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    assert len(bases) == 13
    assert [offset for offset in snapshots(folder) if offset in bases] == bases[-2:], "2.7.2 keeps the last few only"
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)

    outcome = try_tiering(disks, tier, version=UPGRADED_VERSION, failures=3)

    assert outcome.inactive == tuple(bases[:-1])
    assert outcome.tiered_bases == ()
    assert outcome.failures >= 3
    assert outcome.metadata["COPY_SEGMENT_STARTED"] >= 3, "every attempt leaves one behind"
    assert outcome.metadata["COPY_SEGMENT_FINISHED"] == 0

    scan = tiersnap("scan", disks.log_dir)
    assert scan.exit_code == 4
    assert verdicts(scan)["MISSING"] == 10
    told = (disks.log_dir, "--topic", TOPIC)
    printed = shown("scan", *told) + shown("repair", *told)
    before = snapshots(folder)
    plan = tiersnap("repair", disks.log_dir)
    assert [row["offset"] for row in plan.rows] == bases[1:-2]
    assert {row["action"] for row in plan.rows} == {"WRITE"}
    assert snapshots(folder) == before, "a plan writes nothing"

    printed += shown("repair", *told, "--apply")

    assert snapshots(folder).keys() == before.keys() | set(bases[1:])
    assert tiersnap("scan", disks.log_dir).exit_code == 0
    printed += shown("scan", *told)
    assert without_numbers(printed) <= without_numbers(TUTORIAL.read_text().splitlines())
    mended = assert_tiers_all_right(disks, tmp_path, version=UPGRADED_VERSION, tier=tier)
    assert len(mended.tiered_bases) == 12
    assert mended.metadata["COPY_SEGMENT_FINISHED"] == 12


# What `scan` says of each case when the broker that met it has been stopped, and its exit code.
NAMED = {
    "the index of the third segment lost": ("MISSING", 5, 4),
    "one snapshot deleted by hand": ("MISSING", 1, 4),
    "all but the newest three snapshots deleted": ("MISSING", 8, 4),
    "one old snapshot corrupted": ("CORRUPT", 1, 5),
}


@pytest.mark.nightly
@pytest.mark.kafka(CURRENT_VERSION)
@pytest.mark.parametrize("name", CASES)
def test_a_broker_of_today_tiers_up_to_the_first_missing_snapshot_and_wrong_ones_unseen_until_repaired(
    name, current_disks, copy_of, tmp_path
):
    case = CASES[name]
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    assert len(bases) == INACTIVE + 1
    case.harm(folder)
    harmed = disks.copy_to(tmp_path / "harmed")
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)

    outcome = try_tiering(disks, tier)

    assert outcome.tiered_bases == tuple(bases[: case.tiered])
    assert (outcome.failures > 0) == case.stuck
    assert [base for base in bases[1:] if base not in outcome.snapshots] == [bases[number] for number in case.lost]
    wrong = wrongly_tiered(outcome, folder, tmp_path / "oracle")
    assert wrong == tuple(bases[number] for number in case.wrong)

    if name not in NAMED:
        assert tiersnap("scan", disks.log_dir).exit_code == 0
        return
    if not case.stuck:  # what is in remote storage stays as it is: mend what the broker had not seen yet
        disks, tier = harmed, LocalTier(tmp_path / "other-tier")
    scan = tiersnap("scan", disks.log_dir)
    verdict, count, exit_code = NAMED[name]
    assert (verdicts(scan).get(verdict), scan.exit_code) == (count, exit_code), verdicts(scan)

    assert tiersnap("repair", disks.log_dir, "--apply").exit_code == (exit_code if case.wrong else 0)
    assert tiersnap("repair", disks.log_dir, "--replace", "--apply").exit_code == 0

    assert tiersnap("scan", disks.log_dir).exit_code == 0
    assert_tiers_all_right(disks, tmp_path, tier=tier)


@pytest.mark.nightly
@pytest.mark.kafka(CURRENT_VERSION)
def test_a_short_log_started_clean_without_snapshots_is_tiered_with_wrong_state_from_then_on_until_repaired(tmp_path):
    disks = write_log_with_empty_snapshots(tmp_path / "disks")
    folder = disks.partition(TOPIC)
    assert set(snapshots(folder).values()) == {EMPTY_SNAPSHOT}
    short = disks.copy_to(tmp_path / "short")
    write_on(disks, 6)
    longer = disks.copy_to(tmp_path / "longer")

    outcome = try_tiering(disks, LocalTier(tmp_path / "tier"))

    assert outcome.failures == 0
    assert outcome.tiered_bases == outcome.inactive
    assert wrongly_tiered(outcome, folder, tmp_path / "oracle") == outcome.inactive

    # Wrong are those of the boundaries and the one at the log end; later also one that the next start throws away.
    for name, other, wrong in (("short", short, 3), ("longer", longer, 5 + 1 + 1)):
        folder = other.partition(TOPIC)
        log_end = max(snapshots(folder))
        assert log_end not in segment_bases(folder)
        scan = tiersnap("scan", other.log_dir)
        assert scan.exit_code == 4
        assert verdicts(scan)["SUSPECT"] == wrong
        assert tiersnap("repair", other.log_dir, "--apply").exit_code == 4

        repair = tiersnap("repair", other.log_dir, "--replace", "--apply")

        assert repair.exit_code == 0
        assert tiersnap("scan", other.log_dir).exit_code == 0
        assert {row["offset"]: row["action"] for row in repair.rows}[log_end] == "REPLACE"
        assert_tiers_all_right(other, tmp_path / f"out-{name}")


@pytest.mark.nightly
@pytest.mark.kafka(CURRENT_VERSION)
def test_a_lost_index_is_named_before_the_start_that_deletes_snapshots_for_it(current_disks, copy_of):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    damage.drop_index(folder, segment_bases(folder)[2])
    before = snapshots(folder)

    scan = tiersnap("scan", disks.log_dir)
    repair = tiersnap("repair", disks.log_dir, "--apply")

    assert scan.exit_code == 4
    assert scan.row(partition=PARTITION)["verdicts"]["READY"] == INACTIVE, "an upload makes the index again"
    assert "deletes the later snapshots of the partition" in scan.err
    assert repair.exit_code == 4
    assert "deletes every snapshot above the segment" in repair.err
    assert snapshots(folder) == before
