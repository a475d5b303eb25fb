"""A replica that lagged leads after an unclean election: what the lost leader had tiered is of another log."""

from __future__ import annotations

import shutil
from contextlib import suppress

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks, leader_and_isr
from tests.broker.harness.reading import read_all
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import SECONDS, SEGMENT_BYTES, admin_client, alter_topic, create_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, transaction_around, write_segments
from tests.reference.command import tiersnap
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

LAYOUT = ("--layout", "local-tiered-storage", "--topic", TOPIC)
LOST, NEXT = 2, 3
CONFIG = {
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
    "remote.storage.enable": "true",
    "remote.log.copy.disable": "true",
    "unclean.leader.election.enable": "true",
}
# Other batches than before, so that other segments begin elsewhere.
AFTERWARDS = Workload(idempotent=3, transactional=1, records=7)


def test_the_log_of_the_new_leader_is_tiered_and_read_although_the_lost_one_had_tiered_the_same_offsets(tmp_path):
    tier = LocalTier(tmp_path / "tier")
    disks = {node: broker_disks(tmp_path / str(node), CURRENT_VERSION, node) for node in (LOST, NEXT)}
    with Broker(kraft_disks(tmp_path / "1", CURRENT_VERSION), CURRENT_VERSION, tier=tier) as controller:
        lost, following = (FurtherBroker(disks[node], CURRENT_VERSION, node, controller, tier) for node in (LOST, NEXT))

        def settled(leader: int, *isr: int):
            return lambda: leader_and_isr(controller, TOPIC) == (leader, list(isr))

        def tier_all(node: int) -> None:
            """Upload a copy's segments, until the high watermark on disk has come to the end of the closed segments.

            Beside its broker `tier` would publish them too, and then refuse to hide those of the lost leader.
            """
            closed = segment_bases(disks[node].partition(TOPIC))[:-1]
            copied = tmp_path / "copied"

            def tiered() -> bool:
                shutil.rmtree(copied, ignore_errors=True)
                shutil.copytree(disks[node].log_dir, copied, ignore=shutil.ignore_patterns(".lock"))
                ran = tiersnap("tier", copied, "--remote", tier.directory, *LAYOUT, "--apply")
                assert ran.exit_code == 0, ran.err
                verdicts = ran.row(partition=f"{TOPIC}-0")["verdicts"]
                return sum(verdicts.get(each, 0) for each in ("UPLOADED", "TIERED")) == len(closed)

            wait_until(tiered, "all closed segments are tiered", seconds=60, every=1)

        # The one partition of __transaction_state lies where it is first asked for, and that broker must stay.
        create_topic(controller, "first")
        with transaction_around(controller, "first"):
            pass
        try:
            lost.start()
            following.start()
            topic = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[LOST, NEXT]], config=CONFIG)
            admin = admin_client(controller)
            admin.create_topics([topic])[TOPIC].result(SECONDS)
            wait_until(settled(LOST, LOST, NEXT), "both replicas are in sync", seconds=60)
            wait_until(lambda: disks[LOST].has_partition(TOPIC), "the leader has a folder", seconds=60)
            write_segments(lost, TOPIC, 3)
            following.stop()
            wait_until(settled(LOST, LOST), "one replica lags", seconds=60)
            write_segments(lost, TOPIC, 6, name="lost-")
            tier_all(LOST)
            of_lost = {segment.segment_id: segment.base_offset for segment in tier.segments(TOPIC)}
            lost.kill()

            following.start()
            at = TopicPartition(TOPIC, 0)

            def elected() -> bool:
                """Asked anew each time: metadata names any broker as the controller, also one that has just died."""
                asking = admin_client(controller)
                with suppress(KafkaException, TimeoutError):
                    asking.elect_leaders(ElectionType.UNCLEAN, [at]).result(5)
                return leader_and_isr(controller, TOPIC)[0] == NEXT

            wait_until(elected, "the replica that lagged leads", seconds=120, every=1)
            active = segment_bases(disks[NEXT].partition(TOPIC))[-1]
            write_segments(following, TOPIC, 9, AFTERWARDS, name="after-")
            tier_all(NEXT)

            segments = finished_segments(
                RemoteLocation(DirectoryStore(tier.directory), LocalTieredStorageLayout()), lambda _: True
            )
            ours = [each for each in segments if each.id.segment_id not in of_lost]
            assert next(each.start_offset for each in ours) == active
            newest = max(epoch for each in ours for epoch, _ in each.segment_leader_epochs)
            assert newest > 0
            assert all(each.segment_leader_epochs[-1][0] == newest for each in ours)
            assert any(base > ours[0].start_offset for base in of_lost.values()), "the same offsets, twice"

            published = tiersnap(
                *("publish", "--remote", tier.directory, *LAYOUT, "--bootstrap-server", controller.bootstrap, "--apply")
            )  # fmt: skip
            assert published.exit_code == 0, published.err
            assert "OTHER_LINEAGE" in published.row(topic=TOPIC)["others"]
            records = read_all(following, TOPIC)
            before = states(controller, TOPIC)
            alter_topic(following, TOPIC, {"remote.log.copy.disable": "false", "local.retention.bytes": "1"})
            folder = disks[NEXT].partition(TOPIC)
            wait_until(lambda: len(segment_bases(folder)) == 1, "local segments are deleted", seconds=90)
            assert states(controller, TOPIC) == before, "the broker has nothing to copy again"
            assert read_all(following, TOPIC) == records
        finally:
            for broker in (lost, following):
                if broker.running:
                    broker.stop()
