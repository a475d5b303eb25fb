"""`doctor` beside a broker whose copy task fails without a record."""

from __future__ import annotations

import time

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, wait_for_leader
from tests.broker.harness.unblocking import doctor, options
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import transaction_around, write_segments
from tests.reference.command import tiersnap
from tests.reference.next_steps import commands_of
from tiersnap.snapshot.units import utc

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

NO_EPOCHS = "segmentLeaderEpochs can not be null or empty"


@pytest.mark.nightly
def test_lost_leader_epochs_are_named_and_repair_brings_them_back(current_disks, copy_of, tmp_path, capsys):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    (folder / "leader-epoch-checkpoint").write_text("0\n0\n")
    bases = segment_bases(folder)
    tier = LocalTier(tmp_path / "tier", 2000)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        wait_for_leader(broker, TOPIC)
        alter_topic(broker, TOPIC, TOPIC_SETTINGS)
        wait_until(lambda: broker.log.count(NO_EPOCHS) >= 2, "the copier fails", seconds=60)

        code, told = doctor(broker, capsys)
        lost = [(each["partition"], each["base_offset"], each["segments"]) for each in told["copying"]["lost_epochs"]]
        assert (code, lost) == (4, [(f"{TOPIC}-0", 0, len(bases) - 1)]), told
        ran = tiersnap("unblock", *options(broker))
        assert ran.exit_code == 4
        assert f"{TOPIC}-0: the copy task of broker 1 fails at offset 0" in ran.err
        assert "is stuck" not in ran.err

    assert tiersnap("repair", disks.log_dir, "--replace", "--apply").exit_code == 0
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        wait_until(lambda: tier.complete_bases(TOPIC) == tuple(bases[:-1]), "it is tiered", seconds=60)
        assert doctor(broker, capsys)[0] == 0
        assert broker.log.count(NO_EPOCHS) == 0


@pytest.mark.nightly
def test_a_transaction_that_stays_open_is_named_once_segments_wait_above_it(current_disks, copy_of, tmp_path, capsys):
    tier = LocalTier(tmp_path / "tier")
    with Broker(copy_of(current_disks), CURRENT_VERSION, tier=tier) as broker:
        wait_for_leader(broker, TOPIC)
        alter_topic(broker, TOPIC, TOPIC_SETTINGS)
        folder = broker.disks.partition(TOPIC)
        before = segment_bases(folder)
        with transaction_around(broker, TOPIC):
            write_segments(broker, TOPIC, len(before) + 3, name="later-")
            closed = segment_bases(folder)[:-1]
            now_remote = lambda: len(tier.complete_bases(TOPIC))  # noqa: E731
            wait_until(lambda: now_remote() == len(before) - 1, "what is below it is tiered", seconds=30)
            assert doctor(broker, capsys)[0] == 0, "not yet"
            now = int(time.time() * 1000)
            code, told = doctor(broker, capsys, "--now", utc(now + 2 * 3_600_000) or "")
            (standing,) = told["copying"]["standing"]
            assert (code, standing["partition"]) == (4, f"{TOPIC}-0"), told
            assert before[-1] <= standing["last_stable_offset"] < closed[len(before)]
            assert abs(now - standing["since"]) < 120_000
            assert standing["segments"] == len(closed) - len(before) + 1
            assert standing["waiting_bytes"] == sum(
                (folder / f"{base:020d}.log").stat().st_size for base in closed[len(before) - 1 :]
            )
            assert f"tiersnap transactions find-hanging {broker.disks.log_dir} --all" in commands_of(told["next"])
        wait_until(lambda: now_remote() == len(closed), "it goes on", seconds=30)
        code, told = doctor(broker, capsys, "--now", utc(now + 2 * 3_600_000) or "")
        assert (code, told["copying"]["standing"]) == (0, []), told
