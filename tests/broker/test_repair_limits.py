"""How far up `repair` may write: what it computed becomes a broker's live state only where somebody said so.

See docs/contributing/adr/0003-repair-limits.md. Each test ends with a broker that tiers everything right.
"""

from __future__ import annotations

import pytest

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases, snapshots
from tests.broker.harness.mended import assert_tiers_all_right
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.topics import wait_for_leader
from tests.reference.command import tiersnap

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka("4.1.1", CURRENT_VERSION)]


def actions(ran) -> dict[int, str]:
    return {row["offset"]: row["action"] for row in ran.rows if row["partition"] == f"{TOPIC}-0"}


def keep_oldest(folder, count: int) -> None:
    for offset in list(snapshots(folder))[count:]:
        damage.drop_snapshot(folder, offset)


def test_without_any_snapshot_all_are_written_up_to_the_newest_segment(current_disks, copy_of, tmp_path):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    keep_oldest(folder, 0)
    assert tiersnap("scan", disks.log_dir).exit_code == 4

    assert tiersnap("repair", disks.log_dir, "--apply").exit_code == 0

    assert list(snapshots(folder)) == bases[1:], "and none at the log end: the broker folds its newest segment itself"
    assert_tiers_all_right(disks, tmp_path)


def test_with_only_old_ones_left_nothing_is_written_above_them_unless_told(current_disks, copy_of, tmp_path):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    keep_oldest(folder, 3)
    before = snapshots(folder)
    assert tiersnap("scan", disks.log_dir).exit_code == 4

    refused = tiersnap("repair", disks.log_dir, "--apply")

    assert refused.exit_code == 4
    assert actions(refused) == dict.fromkeys(bases[4:], "ABOVE_NEWEST")
    assert "--above-newest" in refused.err
    assert snapshots(folder) == before
    told = disks.copy_to(tmp_path / "told")
    assert tiersnap("repair", told.log_dir, "--above-newest", "--apply").exit_code == 0
    assert list(snapshots(told.partition(TOPIC))) == bases[1:]
    assert_tiers_all_right(told, tmp_path / "first")

    # The other way: the broker makes those of the last two segments and of the log end, and repair the rest.
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
    assert list(snapshots(folder))[:-1] == bases[1:4] + bases[-2:]
    assert tiersnap("repair", disks.log_dir, "--apply").exit_code == 0
    assert_tiers_all_right(disks, tmp_path / "second")


def test_a_corrupt_newest_one_is_no_limit_as_the_broker_goes_on_from_the_next(current_disks, copy_of, tmp_path):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    log_end = max(snapshots(folder))
    for offset in bases[4:]:
        damage.drop_snapshot(folder, offset)
    damage.corrupt_snapshot(folder, log_end)
    before = snapshots(folder)
    assert tiersnap("scan", disks.log_dir).exit_code == 5

    refused = tiersnap("repair", disks.log_dir, "--apply")

    assert refused.exit_code == 5
    assert actions(refused) == {**dict.fromkeys(bases[4:], "ABOVE_NEWEST"), log_end: "NEEDS_REPLACE"}
    assert snapshots(folder) == before
    told = tiersnap("repair", disks.log_dir, "--replace", "--apply")
    assert told.exit_code == 0
    assert actions(told) == {**dict.fromkeys(bases[4:], "WRITE"), log_end: "REPLACE"}
    assert tiersnap("scan", disks.log_dir).exit_code == 0
    assert_tiers_all_right(disks, tmp_path)


def test_where_every_one_is_corrupt_the_missing_ones_are_written_and_the_rest_when_told(
    current_disks, copy_of, tmp_path
):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    damage.drop_snapshot(folder, bases[5])
    for offset in snapshots(folder):
        damage.corrupt_snapshot(folder, offset)

    first = tiersnap("repair", disks.log_dir, "--apply")

    assert first.exit_code == 5
    assert actions(first).pop(bases[5]) == "WRITE"
    assert tiersnap("scan", disks.log_dir).exit_code == 5
    assert tiersnap("repair", disks.log_dir, "--replace", "--apply").exit_code == 0
    assert_tiers_all_right(disks, tmp_path)
