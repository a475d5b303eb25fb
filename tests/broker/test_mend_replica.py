"""A replica that loops on objects which the tier has lost joins the ISR after `mend`, made from the tier alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.mended import known_producers
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks, leader_and_isr
from tests.broker.harness.releases import Release, releases
from tests.broker.harness.scenarios import TOPIC
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import SECONDS, alter_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.test_rebuilt_replica import (
    FIRST,
    SECOND,
    SOON,
    create,
    only_active_left,
    write_once,
)
from tests.reference.command import assert_said, tiersnap
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.broker

LOST = {"local-tiered-storage": (".snapshot", ".leader_epoch_checkpoint"), "aiven": (".indexes",)}
LOOPS = "Error building remote log auxiliary state"


def states_in(tier: LocalTier) -> list[list[tuple]]:
    """Producers in the snapshots of the remote segments, in offset order."""
    return [sorted(snapshot_file.decode(each.snapshot).tolist()) for each in tier.segments(TOPIC)]


@pytest.mark.parametrize("release", releases("4.1.1"))
def test_a_replica_that_loops_on_lost_objects_joins_the_isr_after_mend(release: Release, tmp_path: Path) -> None:
    version, tier = release.version, release.tier(tmp_path / "tier")
    first_disks, disks = kraft_disks(tmp_path / "first", version), broker_disks(tmp_path / "second", version, SECOND)
    with Broker(first_disks, version, tier=tier, settings=SOON) as first:
        second = FurtherBroker(disks, version, SECOND, first, tier, settings=SOON)
        with second:
            create(first)
        wait_until(lambda: leader_and_isr(first, TOPIC)[0] == FIRST, "the other leads", seconds=SECONDS)
        write_once(first)
        alter_topic(first, TOPIC, {"local.retention.bytes": "1"})
        wait_until(lambda: only_active_left(first_disks), "they are deleted", seconds=60)
        originals = {
            each.files[suffix]: each.files[suffix].read_bytes()
            for each in tier.segments(TOPIC)[-3:]
            for suffix in LOST[tier.layout]
        }
        snapshots = states_in(tier)
        for path in originals:
            path.unlink()

        shutil.rmtree(disks.partition(TOPIC))
        second.start()
        with second:
            wait_until(lambda: second.log.count(LOOPS) > 2, "it loops", seconds=60)
            assert leader_and_isr(first, TOPIC)[1] == [FIRST]
            place = ("--bootstrap-server", first.bootstrap, "--remote", tier.directory)
            assert_said(tiersnap("mend", *place), 0, "nothing was put back")
            assert not any(path.exists() for path in originals), "a plan"
            ran = tiersnap("mend", *place, "--apply")
            assert_said(ran, 0)
            assert [row["outcome"] for row in ran.rows] == ["MENDED"] * 3
            assert states_in(tier) == snapshots, "as the broker wrote them"
            assert {path: len(path.read_bytes()) for path in originals} == {p: len(d) for p, d in originals.items()}
            wait_until(lambda: leader_and_isr(first, TOPIC)[1] == [FIRST, SECOND], "it is in sync", seconds=60)
            assert known_producers(second) <= known_producers(first)
