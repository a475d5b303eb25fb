"""Snapshots that a run stored, installed on the broker's host: then everything is tiered, with right state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases, snapshots
from tests.broker.harness.mended import assert_tiers_all_right
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.topics import wait_for_leader
from tests.reference.command import tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.kafka("4.1.1", CURRENT_VERSION)]


def tier_options(remote: Path) -> tuple[str | Path, ...]:
    return "--remote", remote, "--topic", TOPIC, "--expiration", "none", "--apply"


@pytest.mark.nightly
@pytest.mark.parametrize("harm", ["deleted", "empty"])
def test_with_the_stored_snapshots_a_broker_tiers_all_with_right_state(current_disks, copy_of, tmp_path, harm):
    """Stored from a copy on another host; here they are lost, or a clean start wrote empty ones."""
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    remote = tmp_path / "remote"
    ran = tiersnap("tier", current_disks.log_dir, *tier_options(remote), "--all")
    assert ran.exit_code == 0, ran.err
    before = snapshots(folder)
    if harm == "deleted":
        for offset in list(before)[2:6]:
            damage.drop_snapshot(folder, offset)
        words: tuple[str, ...] = ()
    else:
        for offset in before:
            damage.empty_snapshot(folder, offset)
        words = ("--replace",)

    install = ("install", "--remote", remote, "--to", disks.log_dir, "--topic", TOPIC, *words)
    planned = tiersnap(*install)
    done = tiersnap(*install, "--apply")

    assert (planned.exit_code, done.exit_code) == (0, 0), done.err
    assert planned.rows == done.rows
    assert snapshots(folder).keys() == before.keys()
    assert len(done.rows) == (4 if harm == "deleted" else len(before)), "the one at the log end too"
    assert_tiers_all_right(disks, tmp_path)


@pytest.mark.nightly
def test_it_is_refused_while_the_broker_runs_and_a_plan_is_not(current_disks, copy_of, tmp_path):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    damage.drop_snapshot(folder, segment_bases(folder)[3])
    remote = tmp_path / "remote"
    assert tiersnap("tier", disks.log_dir, *tier_options(remote)).exit_code == 0
    install = ("install", "--remote", remote, "--to", disks.log_dir, "--topic", TOPIC)
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        assert tiersnap(*install).exit_code == 0
        refused = tiersnap(*install, "--apply")
    assert refused.exit_code == 2
    assert "a broker is running" in refused.err
    assert segment_bases(folder)[3] not in snapshots(folder)
    assert tiersnap(*install, "--apply").exit_code == 0
    assert segment_bases(folder)[3] in snapshots(folder)
