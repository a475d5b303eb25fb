"""Folders that `repair` leaves alone, as a real broker makes them: compacted, being moved, stray, deleted."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases, snapshots
from tests.broker.harness.disks import Disks, kraft_disks
from tests.broker.harness.raw_protocol import Connection, _string
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.topics import SECONDS, admin_client, create_topic, wait_for_leader
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, segment_count, write_segments
from tests.reference.command import tiersnap
from tests.reference.small_log import tree

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

ALTER_REPLICA_LOG_DIRS, ALTER_REPLICA_LOG_DIRS_VERSION = 34, 1
OTHER_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "600000",  # of a deleted topic's folder
    "replica.fetch.max.bytes": "20000",  # a fetch does not carry a whole segment to the other disk
}
FEW = Workload(idempotent=2, transactional=1, early=0)


def write_one_key(broker: Broker, topic: str, segments: int) -> None:
    """Records that compaction makes one of."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    while segment_count(broker.disks.partition(topic)) < segments:
        for _ in range(10):
            producer.produce(topic, b"v" * 500, b"the only key", partition=0)
        assert producer.flush(SECONDS) == 0


def move_slowly(broker: Broker, topic: str, to: Path) -> None:
    """Let the broker move `<topic>-0` to another log directory, at one byte a second."""
    admin = admin_client(broker)
    slow = ConfigEntry(
        "replica.alter.log.dirs.io.max.bytes.per.second", "1", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[slow])
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)
    body = struct.pack(">i", 1) + _string(str(to)) + struct.pack(">i", 1) + _string(topic) + struct.pack(">ii", 1, 0)
    with Connection(broker) as connection:
        response = connection.ask(ALTER_REPLICA_LOG_DIRS, ALTER_REPLICA_LOG_DIRS_VERSION, body)
    response.take(">ii")
    assert response.string() == topic
    _, _, error = response.take(">iih")
    assert error == 0


def folders(disks: Disks, suffix: str) -> list[Path]:
    return [path for log_dir in disks.log_dirs for path in log_dir.glob(f"*-{suffix}")]


def topic_id_in(disks: Disks, topic: str) -> str:
    """The id in the partition's `partition.metadata`, "" without one."""
    for log_dir in disks.log_dirs:
        path = log_dir / f"{topic}-0" / "partition.metadata"
        if path.exists():
            return path.read_text().rpartition(" ")[2].strip()
    return ""


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    """Two log directories: a live topic, a compacted one, and one each half moved, stray and deleted."""
    disks = kraft_disks(tmp_path / "disks", CURRENT_VERSION, data=("data", "other"))
    with Broker(disks, CURRENT_VERSION, settings=SETTINGS) as broker:
        for topic in (TOPIC, "moved", "lost", "gone"):
            create_topic(broker, topic)
            write_segments(broker, topic, 4, FEW, name=topic)
        create_topic(broker, "compacted", configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        write_one_key(broker, "compacted", 4)
        checkpoint = disks.partition("compacted").parent / "cleaner-offset-checkpoint"
        wait_until(
            lambda: checkpoint.exists() and "compacted 0" in checkpoint.read_text(),
            "the log cleaner has compacted the log up to",
        )
        (other,) = set(disks.log_dirs) - {disks.partition("moved").parent}
        move_slowly(broker, "moved", other)
        wait_until(lambda: any(log.stat().st_size for log in other.glob("*-future/*.log")), "the move began")
        admin = admin_client(broker)
        admin.delete_topics(["gone"])["gone"].result(SECONDS)
        wait_until(lambda: folders(disks, "delete"), "the topic is deleted")
    metadata = disks.partition("lost") / "partition.metadata"
    metadata.write_text(f"version: 0\ntopic_id: {OTHER_TOPIC_ID}")
    with Broker(disks, CURRENT_VERSION, settings=SETTINGS) as broker:
        wait_for_leader(broker, TOPIC)
        wait_until(lambda: folders(disks, "stray"), "the folder with a foreign topic id is put aside")
        wait_until(lambda: topic_id_in(disks, "lost") not in ("", OTHER_TOPIC_ID), "the broker made it anew, empty")
        for topic in ("moved", "lost", "compacted"):
            wait_for_leader(broker, topic)
    return disks


def test_only_the_live_partitions_of_topics_that_can_be_tiered_are_written_to(disks):
    aside = [folder for state in ("future", "stray", "delete") for folder in folders(disks, state)]
    assert len(aside) == 3
    (stray,) = folders(disks, "stray")  # it holds records, which scan names
    compacted = disks.partition("compacted")
    for folder in (*aside, compacted):
        damage.drop_snapshots_but_newest(folder, 0)
    live = disks.partition(TOPIC)
    missing = segment_bases(live)[1]
    damage.drop_snapshot(live, missing)
    before = {log_dir: tree(log_dir) for log_dir in disks.log_dirs}

    scans = {log_dir: tiersnap("scan", log_dir) for log_dir in disks.log_dirs}
    repairs = {log_dir: tiersnap("repair", log_dir, "--replace", "--apply") for log_dir in disks.log_dirs}

    for folder in aside:
        state = folder.name.rpartition("-")[2]
        assert f"not scanned: {folder.name} ({state})" in scans[folder.parent].err
        assert f"left alone: {folder.name} ({state})" in repairs[folder.parent].err
    assert "COMPACTED_TOPIC" in scans[compacted.parent].row(partition="compacted-0")["verdicts"]
    assert {log_dir: scan.exit_code for log_dir, scan in scans.items()} == {
        log_dir: 4 if log_dir in (live.parent, stray.parent) else 0 for log_dir in disks.log_dirs
    }
    assert {repair.exit_code for repair in repairs.values()} == {0}
    appeared = [log_dir / path for log_dir in disks.log_dirs for path in tree(log_dir).keys() - before[log_dir].keys()]
    assert appeared == [live / f"{missing:020d}.snapshot"]
    for log_dir, files in before.items():
        assert files.items() <= tree(log_dir).items(), "and nothing else has changed"
    assert snapshots(compacted) == {}
