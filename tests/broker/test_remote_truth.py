"""What is in remote storage decides: what a broker tiered, what it knows of it, and what of ours it never knew."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import backup_of, kraft_disks
from tests.broker.harness.reading import read_all
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC, wait_for_tiering
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import SECONDS, admin_client, alter_topic, create_topic, topic_id
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import Ran, tiersnap
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.cluster_records import read_published
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition
from tiersnap.remote_storage.remote_log.partition_objects import list_topic
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.restore.published import as_published, read_copies
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

LAYOUT = ("--layout", "local-tiered-storage", "--topic", TOPIC)
TWO_DAYS = 2 * 86_400


def files(folder: Path) -> dict[str, bytes]:
    """Every object below a directory that is remote storage."""
    paths = (path for path in folder.rglob("*") if path.is_file() and ".tiersnap-unfinished" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def make_old(folder: Path) -> None:
    """Two days pass by the clock of remote storage."""
    then = time.time() - TWO_DAYS
    for name in files(folder):
        os.utime(folder / name, (then, then))


def remove_orphans(broker: Broker, remote: Path, *words: str) -> Ran:
    return tiersnap(
        "maintain", "remove-orphans", "--remote", remote, "--bootstrap-server", broker.bootstrap, *words
    )  # fmt: skip


def test_what_a_broker_tiered_is_known_by_its_records_and_only_what_of_ours_it_never_knew_is_removed(tmp_path):
    tier, disks = LocalTier(tmp_path / "tier"), kraft_disks(tmp_path / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        create_topic(broker, TOPIC)
        write_segments(broker, TOPIC, 5)
        wait_for_tiering(broker, tier)
        closed = tuple(segment_bases(disks.partition(TOPIC))[:-1])
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == len(closed), "its records are there")
        theirs = files(tier.directory)
        records = read_all(broker, TOPIC)

        # The broker's own: seen by its objects, and by the records that a real cluster has of them.
        partition = TopicIdPartition(TOPIC, topic_id(broker, TOPIC), 0)
        store, cluster = DirectoryStore(tier.directory), Cluster(broker.bootstrap)
        published = read_published(cluster, [partition])[partition]
        inventory = list_remote_partition(open_location(store, "local-tiered-storage"), partition)
        assert tuple(copy.start_offset for copy in inventory.segments) == closed
        assert {copy.segment_id for copy in inventory.segments} == published.keys()
        assert {each.state for each in published.values()} == {SegmentState.COPY_SEGMENT_FINISHED}
        for copy in inventory.segments:
            record = published[copy.segment_id]
            assert (record.start_offset, record.end_offset + 1) == (copy.start_offset, copy.end_offset)
            assert record.segment_leader_epochs == copy.leader_epochs
        (listed,) = list_topic(store, TOPIC, local=True)
        as_listed = read_copies(store, listed)
        assert as_published(as_listed, published) == as_listed

        # Nothing is copied again.
        done = tiersnap("tier", disks.log_dir, "--remote", tier.directory, *LAYOUT, "--apply")
        assert done.exit_code == 0, done.err
        verdicts = done.row(partition=f"{TOPIC}-0")["verdicts"]
        # TIERED as soon as the high watermark of the broker's own records is checkpointed.
        assert verdicts.get("IN_REMOTE", 0) + verdicts.get("TIERED", 0) == len(closed)
        assert files(tier.directory) == theirs

        # Copies of ours that the broker never hears of, as a replica with a place of its own makes them.
        elsewhere = tmp_path / "elsewhere"

        def ready() -> object:
            backup = backup_of(disks.log_dir, tmp_path / "backup")  # beside the broker only where it reads
            planned = tiersnap("tier", backup, "--remote", elsewhere, *LAYOUT)
            return planned.row(partition=f"{TOPIC}-0")["verdicts"].get("READY")

        wait_until(lambda: ready() == len(closed), "the checkpoint has the high watermark")
        assert tiersnap("tier", tmp_path / "backup", "--remote", elsewhere, *LAYOUT, "--apply").exit_code == 0
        shutil.copytree(elsewhere, tier.directory, dirs_exist_ok=True)
        both = files(tier.directory)
        assert len(tier.complete_bases(TOPIC)) == 2 * len(closed)
        ran = tiersnap(
            *("publish", "--remote", tier.directory, *LAYOUT, "--bootstrap-server", broker.bootstrap, "--apply"),
        )  # fmt: skip
        assert ran.row(topic=TOPIC)["publish"] == 0, "others hold their offsets"

        young = remove_orphans(broker, tier.directory, "--apply")
        assert (young.exit_code, young.rows, files(tier.directory)) == (0, [], both)
        make_old(tier.directory)
        planned = remove_orphans(broker, tier.directory)
        assert planned.exit_code == 0, planned.err
        assert [(row["kind"], row["action"]) for row in planned.rows] == [("COPY", "REMOVE")] * len(closed)
        assert files(tier.directory) == both, "a plan"
        removed = remove_orphans(broker, tier.directory, "--apply")
        assert removed.exit_code == 0, removed.err
        left = files(tier.directory)
        assert {name: data for name, data in left.items() if name.startswith("kafka-tiered-storage/")} == theirs
        assert remove_orphans(broker, tier.directory, "--apply").rows == []

        # Readers do not notice.
        alter_topic(broker, TOPIC, {"local.retention.bytes": "1"})
        wait_until(lambda: len(segment_bases(disks.partition(TOPIC))) == 1, "local segments are deleted", seconds=60)
        assert read_all(broker, TOPIC) == records

        # The topic is deleted, and the broker removes what it knows; what is ours goes with remove-orphans.
        shutil.copytree(elsewhere, tier.directory, dirs_exist_ok=True)
        begun = SavedConfigs.of(
            cluster.cluster_id(), TOPIC, partition.topic_id or "", (0,), {"remote.log.copy.disable": None}
        )
        SavedConfigsStore(store).put(begun)
        make_old(tier.directory)
        kept = remove_orphans(broker, tier.directory)
        assert "UNBLOCK" not in {row["kind"] for row in kept.rows}, "its topic lives"
        make_old(tier.directory)
        admin = admin_client(broker)
        admin.delete_topics([TOPIC])[TOPIC].result(SECONDS)
        gone = {"COPY_SEGMENT_FINISHED": len(closed), "DELETE_SEGMENT_FINISHED": len(closed)}
        wait_until(lambda: states(broker, TOPIC).items() >= gone.items(), "its copies are deleted", seconds=60)
        assert len(tier.complete_bases(TOPIC)) == len(closed), "ours stay"
        last = remove_orphans(broker, tier.directory, "--apply")
        assert last.exit_code == 0, last.err
        assert files(tier.directory) == {}
