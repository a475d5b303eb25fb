"""Topics that are tiered to right and wrong places, published, and read."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import backup_of
from tests.broker.harness.reading import Record, read_all
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import admin_client, alter_topic, create_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import Ran, tiersnap
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.host.running_broker import broker_settings, lock_holder

COPYING_OFF = {**TOPIC_SETTINGS, "remote.log.copy.disable": "true"}
# Checkpoints, and looks for segments to delete, twice a second.
QUICK = {
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
CLOSED = 3


@dataclass(frozen=True)
class Site:
    """A running broker, where its segments belong, and the layout in which it reads them."""

    broker: Broker
    root: Path

    @property
    def layout(self) -> str:
        assert self.broker.tier is not None
        return self.broker.tier.layout

    @property
    def right(self) -> Path:
        assert self.broker.tier is not None
        return self.broker.tier.directory

    @property
    def other_layout(self) -> str:
        (other,) = {"aiven", "local-tiered-storage"} - {self.layout}
        return other

    def write(self, topic: str) -> list[Record]:
        """A topic with three closed segments whose copier rests; returns its records."""
        create_topic(self.broker, topic, configs=COPYING_OFF)
        write_segments(self.broker, topic, CLOSED + 1, name=f"{topic}-")
        return read_all(self.broker, topic)

    def tier(self, topic: str, remote: Path, layout: str) -> None:
        """Tier it, as soon as the broker has checkpointed the high watermark.

        From a backup of the log directory to where the broker does not read: beside it that is refused.
        """
        words = ("--remote", remote, "--layout", layout, "--topic", topic, "--no-publish", "--apply")

        def is_done() -> bool:
            log_dir = self.broker.disks.log_dir
            if (remote, layout) != (self.right, self.layout):
                log_dir = backup_of(log_dir, self.root / "backup")
            ran = tiersnap("tier", log_dir, *words)
            assert ran.exit_code == 0, ran.err
            verdicts = ran.row(partition=f"{topic}-0")["verdicts"]
            return sum(verdicts.get(each, 0) for each in ("UPLOADED", "TIERED")) == CLOSED

        wait_until(is_done, f"{topic} is tiered", seconds=30, every=1)

    def publish(self, topic: str, remote: Path, *words: str) -> Ran:
        server = ("--bootstrap-server", self.broker.bootstrap)
        return tiersnap("publish", *server, "--remote", remote, "--topic", topic, *words)

    def replica(self) -> Path:
        """Where a copy of the right location lies, made as `cp -a` makes one: all times are the same."""
        replica = self.root / "replica"
        subprocess.run(["rm", "-rf", str(replica)], check=True)
        subprocess.run(["cp", "-a", str(self.right), str(replica)], check=True)
        return replica

    def read_backs(self) -> set[str]:
        """Topics of read-backs that are there."""
        return {name for name in admin_client(self.broker).list_topics(timeout=10).topics if "read-back" in name}


def hide_configuration(broker: Broker) -> None:
    """Leave nothing on this host that tells where a running broker reads, as in a pod beside it.

    Settings that were changed since the start are those of no running broker.
    """
    holder = lock_holder(broker.disks.log_dir)
    assert holder is not None
    properties = max(broker.disks.output_dir.glob("*.properties"), key=lambda path: path.stat().st_mtime_ns)

    def is_hidden() -> bool:
        properties.write_text(properties.read_text())
        try:
            broker_settings(holder.pid)
        except OSError:
            return True
        return False

    wait_until(is_hidden, "the settings are those of no running broker")


def place_of(ran: Ran) -> tuple[str, str]:
    result = json.loads(ran.out)["result"]
    return result["place_evidence"], result["place"]


def refused(ran: Ran) -> str:
    """The class of the error with which a command was refused."""
    assert ran.exit_code == 4, ran.err
    return json.loads(ran.out)["errors"][0]["type"]


def is_readable(broker: Broker, topic: str) -> bool:
    """Whether a consumer that begins at offset 0 gets a record within three seconds."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(3)
        return message is not None and message.error() is None
    finally:
        consumer.close()


def delete_local_files(site: Site, *topics: str) -> None:
    for topic in topics:
        alter_topic(site.broker, topic, {"remote.log.copy.disable": "false", "local.retention.bytes": "1"})
    for topic in topics:
        folder = site.broker.disks.partition(topic)
        wait_until(lambda at=folder: len(segment_bases(at)) == 1, f"local segments of {topic} are deleted", seconds=30)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


def publish_unproven(site: Site, place: Path, topic: str, layout: str) -> None:
    """Write the records as an early release did, which asked for no proof."""
    cluster = Cluster(site.broker.bootstrap)
    location = RemoteLocation(DirectoryStore(place), open_layout(layout))
    found = finished_segments(location, lambda name: name == topic)
    assert len(found) == CLOSED
    MetadataTopic.of(cluster).publish(
        (each.id.topic_id_partition, record)
        for each in found
        for record in (
            SegmentRecord(replace(each, broker_id=1, state=SegmentState.COPY_SEGMENT_STARTED)),
            SegmentUpdate(each.id, 1, each.event_timestamp, SegmentState.COPY_SEGMENT_FINISHED),
        )
    )
