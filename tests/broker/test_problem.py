"""The reason tiersnap exists: what brokers do with a partition whose snapshots are not all there, or are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import EMPTY_SNAPSHOT, segment_bases, snapshots
from tests.broker.harness.scenarios import (
    CURRENT_VERSION,
    FAILING_INTERVAL_MS,
    TOPIC,
    UPGRADED_VERSION,
    try_tiering,
    write_current_log,
)
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import wait_for_leader
from tests.broker.harness.writing import write_segments
from tests.broker.oracle.judge import wrongly_tiered

pytestmark = pytest.mark.broker


@pytest.fixture
def failing_tier(tmp_path: Path) -> LocalTier:
    return LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)


@pytest.fixture
def tier(tmp_path: Path) -> LocalTier:
    return LocalTier(tmp_path / "tier")


@pytest.mark.kafka("2.7.2", "3.9.1")
def test_of_a_topic_born_before_2_8_no_segment_is_ever_tiered(legacy_disks, copy_of, failing_tier):
    disks = copy_of(legacy_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    assert len(bases) == 13
    assert [offset for offset in snapshots(folder) if offset in bases] == bases[-2:], "2.7.2 keeps the last few only"

    outcome = try_tiering(disks, failing_tier, version=UPGRADED_VERSION, failures=2)

    assert outcome.inactive == tuple(bases[:-1])
    assert outcome.tiered_bases == ()
    assert outcome.failures >= 2
    assert outcome.metadata["COPY_SEGMENT_STARTED"] >= 2, "every attempt leaves one behind"
    assert outcome.metadata["COPY_SEGMENT_FINISHED"] == 0


@dataclass(frozen=True)
class Case:
    """One way to harm the ten inactive segments of `current_disks`, and what a 4.3.1 broker makes of it."""

    harm: Callable[[Path], object]
    tiered: int
    lost: Callable[[list[int]], list[int]]  # boundaries without a snapshot after the start, given all base offsets
    corrupt: tuple[int, ...] = ()  # numbers of the segments tiered with a wrong snapshot

    @property
    def stuck(self) -> bool:
        return self.tiered < 10


CASES = {
    "nothing": Case(lambda folder: None, 10, lambda bases: []),
    "the index of the third segment lost": Case(
        lambda folder: damage.drop_index(folder, segment_bases(folder)[2]), 3, lambda bases: bases[4:9]
    ),
    "one snapshot deleted by hand": Case(
        lambda folder: damage.drop_snapshot(folder, segment_bases(folder)[5]), 4, lambda bases: [bases[5]]
    ),
    "all but the newest three snapshots deleted": Case(
        lambda folder: damage.drop_snapshots_but_newest(folder, 3), 0, lambda bases: bases[1:9]
    ),
    "one old snapshot corrupted": Case(
        lambda folder: damage.corrupt_snapshot(folder, segment_bases(folder)[4]), 10, lambda bases: [], (3,)
    ),
}


@pytest.mark.kafka("4.1.1", "4.3.1")
@pytest.mark.parametrize("name", CASES)
def test_a_broker_of_today_tiers_up_to_the_first_missing_snapshot_and_wrong_ones_unseen(
    name, current_disks, copy_of, tmp_path
):
    case = CASES[name]
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    assert len(bases) == 11
    case.harm(folder)

    outcome = try_tiering(disks, LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS if case.stuck else 500))

    assert outcome.tiered_bases == tuple(bases[: case.tiered])
    assert (outcome.failures > 0) == case.stuck
    assert [base for base in bases[1:] if base not in outcome.snapshots] == case.lost(bases)
    wrong = wrongly_tiered(outcome, folder, tmp_path / "oracle")
    assert wrong == tuple(bases[number] for number in case.corrupt)


@pytest.mark.kafka("4.1.1", "4.3.1")
def test_a_short_log_started_clean_without_snapshots_is_tiered_with_wrong_state_from_then_on(tmp_path, tier):
    disks = write_current_log(tmp_path / "disks", segments=3)
    folder = disks.partition(TOPIC)
    damage.drop_snapshots_but_newest(folder, 0)

    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        assert set(snapshots(folder).values()) == {EMPTY_SNAPSHOT}
        write_segments(broker, TOPIC, 6, name="later-")
    outcome = try_tiering(disks, tier)

    assert outcome.failures == 0
    assert outcome.tiered_bases == outcome.inactive
    assert wrongly_tiered(outcome, folder, tmp_path / "oracle") == outcome.inactive
