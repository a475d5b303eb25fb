"""A replica that stock Kafka rebuilt from the tier: it knows nobody, leads, and poisons the tier; then it is cured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import Disks, kraft_disks
from tests.broker.harness.mended import known_producers
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks, leader_and_isr
from tests.broker.harness.releases import Release, releases
from tests.broker.harness.scenarios import TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import SECONDS, SEGMENT_BYTES, admin_client, alter_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, write_segments
from tests.reference.command import assert_said, tiersnap
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.broker

FIRST, SECOND = 1, 2
EARLY = 5
SOON = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
# Since 4.3 a follower can begin with the last tiered offset (KIP-1023).
FROM_THE_TIER = {"follower.fetch.last.tiered.offset.enable": "true"}


def create(leader: Broker) -> None:
    """The topic, led by the second broker where that is in sync; one segment after the other is tiered and deleted."""
    key = "internal.segment.bytes" if leader.version.startswith("4.") else "segment.bytes"
    config = {key: str(SEGMENT_BYTES), "retention.ms": "-1", **TOPIC_SETTINGS}
    topic = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[SECOND, FIRST]], config=config)
    admin = admin_client(leader)
    admin.create_topics([topic])[TOPIC].result(SECONDS)
    wait_until(lambda: leader_and_isr(leader, TOPIC) == (SECOND, [FIRST, SECOND]), "both are in sync", seconds=SECONDS)


def only_active_left(disks: Disks) -> bool:
    return len(segment_bases(disks.partition(TOPIC))) == 1


def elect_second(first: Broker) -> None:
    wait_until(lambda: leader_and_isr(first, TOPIC)[1] == [FIRST, SECOND], "it is in sync again", seconds=60)
    if leader_and_isr(first, TOPIC)[0] != SECOND:
        admin = admin_client(first)
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)]).result(SECONDS)
    wait_until(lambda: leader_and_isr(first, TOPIC)[0] == SECOND, "it leads", seconds=SECONDS)


def known_in_tier(tier: LocalTier) -> list[int]:
    """How many producers the snapshots of the remote segments know, in offset order."""
    return [len(snapshot_file.decode(each.snapshot)) for each in tier.segments(TOPIC) if each.complete]


@pytest.mark.parametrize("release", releases("4.1.1"))
def test_a_replica_rebuilt_from_the_tier_is_cured_by_repair(release: Release, tmp_path: Path) -> None:
    version, tier = release.version, release.tier(tmp_path / "tier")
    settings = FROM_THE_TIER if version == "4.4.0" else {}
    first_disks = kraft_disks(tmp_path / "first", version)
    disks = broker_disks(tmp_path / "second", version, SECOND)
    remote = ("--remote", tier.directory, "--layout", tier.layout)
    with Broker(first_disks, version, tier=tier, settings=SOON) as first:
        second = FurtherBroker(disks, version, SECOND, first, tier, settings={**SOON, **settings})
        with second:
            create(first)
        wait_until(lambda: leader_and_isr(first, TOPIC)[0] == FIRST, "the other leads", seconds=SECONDS)
        write_segments(first, TOPIC, 5, Workload(idempotent=EARLY + 1, transactional=0, early=EARLY), name="early-")
        known = known_producers(first)
        assert len(known) == EARLY + 1
        alter_topic(first, TOPIC, {"local.retention.bytes": "1"})
        wait_until(lambda: only_active_left(first_disks), "what is tiered is deleted", seconds=60)

        shutil.rmtree(disks.partition(TOPIC))
        second.start()
        with second:
            elect_second(first)
            forgotten = known - known_producers(second)
            assert forgotten, "stock Kafka has lost them"
            late = Workload(idempotent=1, transactional=0, early=0)
            alter_topic(first, TOPIC, {"local.retention.bytes": "100000000"})
            write_segments(second, TOPIC, 4, late, name="late-")
            wait_until(lambda: len(known_in_tier(tier)) >= 7, "it tiers what it knows", seconds=SECONDS)
        assert known_in_tier(tier)[-1] < len(known), "and has poisoned the tier"

        unasked = tiersnap("verify", disks.log_dir, "--topic", TOPIC)
        assert_said(unasked, 0, "not compared")
        assert {row["verdict"] for row in unasked.rows} == {"NOT_COMPARED"}
        assert tiersnap("verify", disks.log_dir, "--topic", TOPIC, *remote).exit_code == 4
        asked = tiersnap("simulate", disks.log_dir, "--topic", TOPIC, *remote)
        assert f"it would not know {len(forgotten)} of" in json.loads(asked.out)["result"]["summary"]
        cured = tiersnap("repair", disks.log_dir, "--topic", TOPIC, *remote, "--replace", "--apply")
        assert_said(cured, 0)
        assert tiersnap("verify", disks.log_dir, "--topic", TOPIC, *remote, "--strict").exit_code == 0

        second.start()
        with second:
            elect_second(first)
            assert known_producers(second) == known_producers(first) >= known
