"""A follower's log directory: repaired while the leader serves, tiered once the follower leads."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases, snapshots
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.mended import known_producers, producers_in_log
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks, leader_and_isr
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC, outcome_of, wait_for_tiering
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import SECONDS, SEGMENT_BYTES, admin_client
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.broker.oracle.judge import wrongly_tiered
from tests.reference.command import tiersnap
from tiersnap.jobs.pipeline.before_spark import discover, leading_replicas
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.errors import WrongClusterError

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka("4.1.1", CURRENT_VERSION)]

FIRST, SECOND = 1, 2


def test_a_follower_s_directory_is_mended_like_a_leader_s(tmp_path):
    tier = LocalTier(tmp_path / "tier")
    leader_disks = kraft_disks(tmp_path / "leader", CURRENT_VERSION)
    disks = broker_disks(tmp_path / "follower", CURRENT_VERSION, SECOND)
    with Broker(leader_disks, CURRENT_VERSION, tier=tier) as leader:
        follower = FurtherBroker(disks, CURRENT_VERSION, SECOND, leader, tier)
        with follower:
            config = {"internal.segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
            topic = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[SECOND, FIRST]], config=config)
            admin = admin_client(leader)
            admin.create_topics([topic])[TOPIC].result(SECONDS)
            wait_until(lambda: leader_and_isr(leader, TOPIC) == (SECOND, [FIRST, SECOND]), "both replicas are in sync")
        wait_until(lambda: leader_and_isr(leader, TOPIC)[0] == FIRST, "the other leads", seconds=SECONDS)
        write_segments(leader, TOPIC, 6, name="alone-")
        follower.start()
        with follower:
            wait_until(
                lambda: leader_and_isr(leader, TOPIC) == (FIRST, [FIRST, SECOND]), "it followed", seconds=SECONDS
            )
            write_segments(leader, TOPIC, 9, name="followed-")
            log_dirs = [each.log_dir for each in (leader_disks, disks)]
            owners = discover(map(str, log_dirs), re.compile(TOPIC)).owners
            cluster = Cluster(leader.bootstrap)
            led = leading_replicas(cluster, owners, [TOPIC, "gone"]).to_pylist()
            assert led == [{"topic": TOPIC, "partition": 0, "leader": FIRST, "log_dirs": [str(log_dirs[0])]}]
            elsewhere = {name: replace(owner, cluster_id="x") for name, owner in owners.items()}
            with pytest.raises(WrongClusterError, match="belongs to the cluster x, but"):
                leading_replicas(cluster, elsewhere, [TOPIC])
        folder = disks.partition(TOPIC)
        gone = damage.drop_snapshots_but_newest(folder, 3)
        assert len(gone) >= 5
        scan = tiersnap("scan", disks.log_dir)
        assert (scan.exit_code, scan.row(partition=f"{TOPIC}-0")["snapshots"]["MISSING"]) == (4, len(gone))

        assert tiersnap("repair", disks.log_dir, "--apply").exit_code == 0
        assert tiersnap("repair", leader_disks.log_dir, "--apply").exit_code == 2

        assert snapshots(folder).keys() >= set(segment_bases(folder)[1:])
        follower.start()
        with follower:
            wait_until(
                lambda: leader_and_isr(leader, TOPIC)[1] == [FIRST, SECOND], "it is in sync again", seconds=SECONDS
            )
            admin = admin_client(leader)
            elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)])
            elected.result(SECONDS)
            wait_until(lambda: leader_and_isr(leader, TOPIC)[0] == SECOND, "it leads")
            assert known_producers(follower) == producers_in_log(folder)
            wait_for_tiering(follower, tier)
            outcome = outcome_of(follower, tier)
    assert outcome.failures == 0
    assert outcome.tiered_bases == outcome.inactive
    assert wrongly_tiered(outcome, folder, tmp_path / "oracle") == ()
