"""A replica that loops on objects which the tier has lost joins the ISR after `mend`, made from the tier alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.mended import known_producers
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks, create_led_by, leader_and_isr
from tests.broker.harness.reading import read_all
from tests.broker.harness.releases import Release, releases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier, TieredSegment
from tests.broker.harness.topics import SECONDS, alter_topic, create_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, write_segments
from tests.broker.test_rebuilt_replica import (
    FIRST,
    SECOND,
    SOON,
    only_active_left,
    write_once,
)
from tests.reference.command import assert_said, tiersnap
from tests.reference.poisoned_tier import EMPTY
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.broker

LOST = {"local-tiered-storage": (".snapshot", ".leader_epoch_checkpoint"), "aiven": (".indexes",)}
LOOPS = "Error building remote log auxiliary state"


def states_in(tier: LocalTier) -> list[list[tuple]]:
    """Producers in the snapshots of the remote segments, in offset order."""
    return [sorted(snapshot_file.decode(each.snapshot).tolist()) for each in tier.segments(TOPIC)]


@pytest.mark.nightly
@pytest.mark.parametrize("release", releases("4.1.1"))
def test_a_replica_that_loops_on_lost_objects_joins_the_isr_after_mend(release: Release, tmp_path: Path) -> None:
    version, tier = release.version, release.tier(tmp_path / "tier")
    first_disks, disks = kraft_disks(tmp_path / "first", version), broker_disks(tmp_path / "second", version, SECOND)
    with Broker(first_disks, version, tier=tier, settings=SOON) as first:
        second = FurtherBroker(disks, version, SECOND, first, tier, settings=SOON)
        with second:
            create_led_by(first, TOPIC, SECOND, TOPIC_SETTINGS)
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
            assert_said(tiersnap("mend", *place), 0, "nothing was changed")
            assert not any(path.exists() for path in originals), "a plan"
            ran = tiersnap("mend", *place, "--apply")
            assert_said(ran, 0)
            assert [row["outcome"] for row in ran.rows] == ["MENDED"] * 3
            assert states_in(tier) == snapshots, "as the broker wrote them"
            assert {path: len(path.read_bytes()) for path in originals} == {p: len(d) for p, d in originals.items()}
            wait_until(lambda: leader_and_isr(first, TOPIC)[1] == [FIRST, SECOND], "it is in sync", seconds=60)
            assert known_producers(second) <= known_producers(first)


@pytest.mark.nightly
@pytest.mark.parametrize("release", releases("4.1.1"))
def test_brokers_read_the_right_segment_in_the_place_of_a_poisoned_one(release: Release, tmp_path: Path) -> None:
    """While copying is on; the old one is deleted, and the broker goes on copying where it was."""
    version, tier = release.version, release.tier(tmp_path / "tier")
    disks = kraft_disks(tmp_path / "disks", version)
    with Broker(disks, version, tier=tier, settings=SOON) as broker:
        create_topic(broker, TOPIC, configs=TOPIC_SETTINGS)
        write_segments(broker, TOPIC, 5, Workload(idempotent=9, transactional=2, early=3), name="before-")
        tiered = len(segment_bases(disks.partition(TOPIC))) - 1
        wait_until(lambda: len(tier.complete_bases(TOPIC)) == tiered, "it tiers them", seconds=60)
        alter_topic(broker, TOPIC, {"local.retention.bytes": "1"})
        wait_until(lambda: only_active_left(disks), "they are deleted", seconds=60)
        records, right = read_all(broker, TOPIC), states_in(tier)
        poison(tier.segments(TOPIC)[-2])

        place = ("--bootstrap-server", broker.bootstrap, "--remote", tier.directory)
        assert tiersnap("verify", *place[2:], "--layout", tier.layout).exit_code == 4
        ran = tiersnap("mend", *place, "--delete-bad", "--apply")
        assert_said(ran, 0)
        assert [(row["action"], row["outcome"]) for row in ran.rows] == [("REPLACE", "MENDED"), ("DELETE", "MENDED")]
        assert states_in(tier) == right
        assert tiersnap("verify", *place[2:], "--layout", tier.layout).exit_code == 0
        assert read_all(broker, TOPIC) == records
        assert states(broker, TOPIC)["DELETE_SEGMENT_FINISHED"] == 1

        write_segments(broker, TOPIC, 4, Workload(idempotent=1, transactional=0, early=0), name="behind-")
        wait_until(lambda: len(tier.complete_bases(TOPIC)) > tiered, "it goes on", seconds=60)
        bases = tier.complete_bases(TOPIC)
        assert len(set(bases)) == len(bases), "nothing was copied again"
        broker.stop()
        broker.start()
        assert read_all(broker, TOPIC)[: len(records)] == records
        assert tiersnap("mend", *place, "--delete-bad", "--apply").rows == []


def poison(segment: TieredSegment) -> None:
    """Put a snapshot in it that knows nobody."""
    if ".snapshot" in segment.files:
        segment.files[".snapshot"].write_bytes(EMPTY)
        return
    manifest, indexes = segment.files[".rsm-manifest"], segment.files[".indexes"]
    said, data, position = json.loads(manifest.read_text()), indexes.read_bytes(), 0
    parts = []
    for name in ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction"):
        if (at := said["segmentIndexes"][name]) is not None:
            parts.append(EMPTY if name == "producerSnapshot" else data[at["position"] :][: at["size"]])
            said["segmentIndexes"][name] = {"position": position, "size": len(parts[-1])}
            position += len(parts[-1])
    manifest.write_text(json.dumps(said))
    indexes.write_bytes(b"".join(parts))
