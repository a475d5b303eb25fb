"""`tier` and `scan` ask a broker whether its copy task works, and leave to it what it copies."""

from __future__ import annotations

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, segment_bases
from tests.broker.harness.releases import releases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import alter_topic, wait_for_leader
from tests.broker.harness.unblocking import make_stick
from tests.broker.harness.waiting import wait_until
from tests.reference.command import Ran, assert_said, tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.parametrize("release", releases(CURRENT_VERSION))]

CLOSED = 10
# A copy task copies one segment, and waits a minute before the next.
SLOW = {"remote.log.manager.copy.max.bytes.per.second": "1", "remote.log.manager.copy.quota.window.num": "61"}


def tier(broker: Broker, *words: str) -> Ran:
    assert broker.tier is not None
    remote = ("--remote", str(broker.tier.directory), "--layout", broker.tier.layout)
    return tiersnap("tier", broker.disks.log_dir, *remote, "--bootstrap-server", broker.bootstrap, *words)


def verdicts(ran: Ran) -> dict[str, int]:
    return ran.row(partition=f"{TOPIC}-0")["verdicts"]


@pytest.mark.nightly
def test_tier_leaves_to_a_copy_task_that_works_what_it_takes_once_copying_is_off(release, disks_of, tmp_path):
    disks = disks_of(release.version)
    tiered = release.tier(tmp_path / "tier")
    with Broker(disks, release.version, tier=tiered, settings=SLOW) as broker:
        wait_for_leader(broker, TOPIC)
        assert verdicts(tier(broker)) == {"READY": CLOSED, "ACTIVE_SEGMENT": 1}, "the topic is not tiered"
        alter_topic(broker, TOPIC, TOPIC_SETTINGS)
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 1, "it copies", seconds=30)

        left = tier(broker, "--apply")
        assert_said(left, 0, f"left to brokers: {CLOSED - 1} segments")
        assert verdicts(left) == {"LEFT_TO_BROKER": CLOSED - 1, "TIERED": 1, "ACTIVE_SEGMENT": 1}
        assert len(tiered.segments(TOPIC)) == 1
        remote = ("--remote", str(tiered.directory), "--layout", tiered.layout)
        asked = ("--bootstrap-server", broker.bootstrap)
        scan = tiersnap("scan", disks.log_dir, *remote, *asked, "--topic", TOPIC, "--segments")
        assert_said(scan, 0, f"brokers upload {CLOSED - 1} segments by themselves")
        assert [row["verdict"] for row in scan.rows] == [
            *("TIERED", *["LEFT_TO_BROKER"] * (CLOSED - 1), "ACTIVE_SEGMENT"),
        ]
        assert scan.rows[-2]["reason"] == (
            "the copy task of the partition's leader works, and will upload the segment now"
        )

        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "true", "retention.ms": "-1"})
        taken = tier(broker, "--apply")
        assert_said(taken, 0)
        assert verdicts(taken) == {"TIERED": CLOSED, "ACTIVE_SEGMENT": 1}, "and publishes it"
        assert tiered.complete_bases(TOPIC) == tuple(segment_bases(disks.partition(TOPIC))[:CLOSED]), "none twice"


@pytest.mark.nightly
def test_tier_takes_what_a_stuck_copy_task_does_not_copy(release, disks_of, tmp_path):
    disks = disks_of(release.version)
    drop_snapshot(disks.partition(TOPIC), segment_bases(disks.partition(TOPIC))[5])
    tiered = release.tier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, release.version, tier=tiered) as broker:
        make_stick(broker)
        plan = tier(broker)
        assert (plan.exit_code, len(tiered.complete_bases(TOPIC))) == (0, 4)
        waits = {"MISSING_SNAPSHOT": 1, "GAP_BEFORE": CLOSED - 5}
        assert verdicts(plan) == {"TIERED": 4, **waits, "ACTIVE_SEGMENT": 1}
