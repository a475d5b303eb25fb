"""The reason tiersnap exists: what brokers do with a partition whose snapshots are not all there, or are wrong."""

from __future__ import annotations

import pytest

from tests.broker.harness.cases import CASES, INACTIVE, write_log_with_empty_snapshots, write_on
from tests.broker.harness.damage import EMPTY_SNAPSHOT, segment_bases, snapshots
from tests.broker.harness.scenarios import FAILING_INTERVAL_MS, TOPIC, UPGRADED_VERSION, try_tiering
from tests.broker.harness.tiering import LocalTier
from tests.broker.oracle.judge import wrongly_tiered

pytestmark = pytest.mark.broker


@pytest.mark.kafka("2.7.2", "3.9.1")
def test_of_a_topic_born_before_2_8_no_segment_is_ever_tiered(legacy_disks, copy_of, tmp_path):
    disks = copy_of(legacy_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    assert len(bases) == 13
    assert [offset for offset in snapshots(folder) if offset in bases] == bases[-2:], "2.7.2 keeps the last few only"

    outcome = try_tiering(
        disks, LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS), version=UPGRADED_VERSION, failures=3
    )

    assert outcome.inactive == tuple(bases[:-1])
    assert outcome.tiered_bases == ()
    assert outcome.failures >= 3
    assert outcome.metadata["COPY_SEGMENT_STARTED"] >= 3, "every attempt leaves one behind"
    assert outcome.metadata["COPY_SEGMENT_FINISHED"] == 0


@pytest.mark.kafka("4.1.1", "4.3.1")
@pytest.mark.parametrize("name", CASES)
def test_a_broker_of_today_tiers_up_to_the_first_missing_snapshot_and_wrong_ones_unseen(
    name, current_disks, copy_of, tmp_path
):
    case = CASES[name]
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    assert len(bases) == INACTIVE + 1
    case.harm(folder)

    outcome = try_tiering(disks, LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS))

    assert outcome.tiered_bases == tuple(bases[: case.tiered])
    assert (outcome.failures > 0) == case.stuck
    assert [base for base in bases[1:] if base not in outcome.snapshots] == [bases[number] for number in case.lost]
    wrong = wrongly_tiered(outcome, folder, tmp_path / "oracle")
    assert wrong == tuple(bases[number] for number in case.wrong)


@pytest.mark.kafka("4.1.1", "4.3.1")
def test_a_short_log_started_clean_without_snapshots_is_tiered_with_wrong_state_from_then_on(tmp_path):
    disks = write_log_with_empty_snapshots(tmp_path / "disks")
    folder = disks.partition(TOPIC)
    assert set(snapshots(folder).values()) == {EMPTY_SNAPSHOT}
    write_on(disks, 6)

    outcome = try_tiering(disks, LocalTier(tmp_path / "tier"))

    assert outcome.failures == 0
    assert outcome.tiered_bases == outcome.inactive
    assert wrongly_tiered(outcome, folder, tmp_path / "oracle") == outcome.inactive
