"""What may not be published, asked of a real broker; and publishing again, or after a kill."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import file_at, segment_bases
from tests.broker.harness.disks import CLUSTER_ID, backup_of, kraft_disks
from tests.broker.harness.places import hide_configuration
from tests.broker.harness.reading import read_all
from tests.broker.harness.remote_log_metadata import TOPIC as METADATA_TOPIC
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import admin_client, alter_topic, create_topic
from tests.broker.harness.unblocking import own_settings
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tiersnap.jobs.main import run as tiersnap
from tiersnap.remote_storage.cluster.metadata_topic import OUR_HEADER
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate, decode, encode
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

COPYING_OFF = {**TOPIC_SETTINGS, "remote.log.copy.disable": "true"}
LAYOUT = ("--layout", "local-tiered-storage")
CLOSED = 3


@dataclass(frozen=True)
class Site:
    """A running broker with one log directory, and where tiersnap keeps what is its own."""

    broker: Broker
    root: Path

    def tier(self, topic: str, *, source: Path | None = None, name: str = "") -> Path:
        """Tier the closed segments of `topic`, as soon as the broker has checkpointed its high watermark.

        From a backup of the log directory: beside the broker only where it reads.
        """
        log_dir, remote = self.broker.disks.log_dir, self.root / f"remote-{name or topic}"
        closed = len(list((source or log_dir).glob(f"{topic}-0/*.log"))) - 1
        options = ["--remote", str(remote), *LAYOUT, "--topic", topic, "--apply"]

        def done() -> bool:
            tiered = source or backup_of(log_dir, self.root / "backup")
            assert tiersnap(["-q", "tier", str(tiered), *options]) == 0
            return len(list(remote.glob("kafka-tiered-storage/*/*.snapshot"))) == closed

        wait_until(done, f"{topic} is tiered", seconds=30, every=1)
        return remote

    def copy_of_log(self, topic: str, name: str) -> tuple[Path, Path]:
        """The log directory again, with this topic alone: the directory and its partition folder."""
        log_dir = self.root / f"copy-{name}"
        log_dir.mkdir()
        shutil.copy(self.broker.disks.log_dir / "replication-offset-checkpoint", log_dir)
        folder = log_dir / f"{topic}-0"
        shutil.copytree(self.broker.disks.partition(topic), folder)
        return log_dir, folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One broker with five topics that have three closed segments each; `plain` has no remote storage."""
    root = tmp_path_factory.mktemp("refusals")
    disks = kraft_disks(root / "disks", CURRENT_VERSION)
    quick = {"replica.high.watermark.checkpoint.interval.ms": "500"}
    with Broker(disks, CURRENT_VERSION, tier=LocalTier(root / "tier"), settings=quick) as broker:
        for topic, configs in {
            **dict.fromkeys(("ledger", "orders", "killed", "held"), COPYING_OFF),
            "plain": {},
        }.items():
            create_topic(broker, topic, configs=configs)
            write_segments(broker, topic, CLOSED + 1, name=f"{topic}-")
        hide_configuration(broker)
        yield Site(broker, root)


@pytest.fixture
def publish(site, capsys) -> Callable[..., tuple[int, dict, str]]:
    """`tiersnap publish --unproven`: exit code, the one row, and what was said.

    Each test has a location of its own, which the broker does not read; nothing on this host tells where it does.
    """

    def run(remote: Path, *options: str, layout: tuple[str, ...] = LAYOUT) -> tuple[int, dict, str]:
        capsys.readouterr()
        command = ["publish", "--bootstrap-server", site.broker.bootstrap, "--remote", str(remote), *layout, *options]
        command.append("--unproven")
        code = tiersnap(["--output", "json", *command])
        said = capsys.readouterr()
        result = json.loads(said.out)["result"]
        return code, result["rows"][0] if result else {}, said.err

    return run


@pytest.mark.parametrize("settings", [{"retention.ms": "86400000"}, {"retention.bytes": "100000000"}], ids=str)
def test_copying_off_with_finite_retention_is_refused_and_nothing_is_lost(settings, site, publish):
    remote = site.tier("ledger")
    before = states(site.broker, "ledger")
    alter_topic(site.broker, "ledger", settings)
    try:
        code, row, said = publish(remote, "--apply")
    finally:
        alter_topic(site.broker, "ledger", dict.fromkeys(settings, "-1"))

    assert (code, row["refused"]) == (4, "CopyingOffError")
    assert next(iter(settings)) in said and "kafka-configs" in said
    assert states(site.broker, "ledger") == before


def under_leader_epoch(epoch: int, log: bytes) -> bytes:
    """The batches of a segment as a leader of that epoch appended them; no checksum covers it."""
    data, position = bytearray(log), 0
    while position < len(data):
        struct.pack_into(">i", data, position + 12, epoch)
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    return bytes(data)


def test_leader_epochs_of_another_log_are_refused(site, publish):
    log_dir, folder = site.copy_of_log("ledger", "epochs")
    for path in folder.glob("*.log"):
        path.write_bytes(under_leader_epoch(99, path.read_bytes()))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n99 0\n")
    remote = site.tier("ledger", source=log_dir, name="epochs")
    before = states(site.broker, "ledger")

    for options in ([], [str(site.broker.disks.log_dir)]):
        code, row, said = publish(remote, "--apply", *options)
        assert (code, row["refused"]) == (4, "LeaderEpochLineageError")
        assert "leader epoch 99 is not in the lineage" in said
    assert states(site.broker, "ledger") == before


def test_a_log_whose_first_segments_are_nowhere_is_refused(site, publish):
    log_dir, folder = site.copy_of_log("ledger", "hole")
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        file_at(folder, 0, suffix).unlink(missing_ok=True)
    (log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\nledger 0 {segment_bases(folder)[0]}\n")
    remote = site.tier("ledger", source=log_dir, name="hole")

    code, row, said = publish(remote, "--apply")

    assert (code, row["refused"]) == (4, "SegmentHoleError")
    assert "remote storage ends at offset 0" in said


def test_a_topic_of_another_id_or_name_is_refused(site, publish):
    log_dir, folder = site.copy_of_log("ledger", "id")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: lZ6vvmajTWKDBUTV6SQAtQ")
    code, row, said = publish(site.tier("ledger", source=log_dir, name="id"), "--apply")
    assert (code, row["refused"]) == (4, "UnknownTopicError")
    assert "lZ6vvmajTWKDBUTV6SQAtQ in remote storage" in said

    folder.rename(log_dir / "nosuch-0")
    checkpoint = log_dir / "replication-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("ledger 0", "nosuch 0"))
    code, row, said = publish(site.tier("nosuch", source=log_dir, name="nosuch"), "--apply")
    assert (code, row["refused"]) == (4, "UnknownTopicError")
    assert "nosuch" not in admin_client(site.broker).list_topics(timeout=10).topics


def test_a_topic_that_is_not_tiered_or_is_compacted_is_refused(site, publish):
    remote = site.tier("plain")
    code, row, said = publish(remote, "--apply")
    assert (code, row["refused"]) == (4, "TieringOffError")
    assert "remote.storage.enable=false: brokers read no remote segments of the topic" in said

    alter_topic(site.broker, "plain", {"cleanup.policy": "compact"})
    code, row, said = publish(remote, "--apply")
    assert (code, row["refused"]) == (4, "TieringOffError")
    assert "compacted" in said


def test_what_was_published_once_is_known_from_then_on(site, publish):
    remote = site.tier("orders")
    code, row, said = publish(remote)
    assert (code, row["publish"]) == (0, CLOSED)
    assert "nothing was published; next: " in said
    assert states(site.broker, "orders") == {}, "a plan publishes nothing"
    code, row, _ = publish(remote, str(site.broker.disks.log_dir))
    assert (code, row["publish"]) == (0, CLOSED), "the leader's checkpoint says the same as the leader"

    assert publish(remote, "--apply")[0] == 0
    written = {"COPY_SEGMENT_STARTED": CLOSED, "COPY_SEGMENT_FINISHED": CLOSED}
    assert states(site.broker, "orders") == written
    code, row, said = publish(remote, "--apply")
    assert (code, row["known"], row["publish"]) == (0, CLOSED, 0)
    assert "nothing to publish" in said
    assert states(site.broker, "orders") == written


def test_a_copier_that_is_on_is_paused_while_segments_are_published(site, publish):
    """It would not see them, and copy them again."""
    remote = site.tier("held")
    (folder,) = remote.glob("kafka-tiered-storage/held-0-*")
    in_the_way = site.root / "tier" / "kafka-tiered-storage" / folder.name
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("a file where a folder should be: or the copier would be done before anybody publishes")
    alter_topic(site.broker, "held", {"remote.log.copy.disable": "false"})
    try:
        wait_until(lambda: states(site.broker, "held")["COPY_SEGMENT_STARTED"] > 0, "the copier is at work", seconds=20)
        assert publish(remote, "--apply")[0] == 0
        assert own_settings(site.broker, "held")["remote.log.copy.disable"] == "false"
    finally:
        alter_topic(site.broker, "held", {"remote.log.copy.disable": "true"})
    assert states(site.broker, "held")["COPY_SEGMENT_FINISHED"] == CLOSED


def test_topic_whose_settings_were_saved_and_that_has_no_mark_of_a_pause_is_left_alone(site, publish):
    remote, before = site.tier("ledger"), states(site.broker, "ledger")
    (topic_id,) = (path.name.removeprefix("ledger-0-") for path in remote.glob("kafka-tiered-storage/ledger-0-*"))
    begun = SavedConfigs.of(CLUSTER_ID, "ledger", topic_id, (0,), {"remote.log.copy.disable": None})
    records = SavedConfigsStore(DirectoryStore(remote))
    records.put(begun)
    try:
        code, row, said = publish(remote, "--apply")
    finally:
        records.drop(begun)

    assert (code, row["refused"]) == (4, "SettingsAsideError"), said
    assert states(site.broker, "ledger") == before


def test_publish_reads_the_layout_of_the_brokers(site, publish):
    remote = site.root / "remote-manifests"
    backup = backup_of(site.broker.disks.log_dir, site.root / "backup")
    options = [str(backup), "--remote", str(remote), "--topic", "ledger", "--apply"]
    by_name = publish(site.tier("ledger"))
    assert (by_name[0], by_name[1]["publish"]) == (0, CLOSED)
    assert publish(site.tier("ledger"), layout=())[:2] == by_name[:2]

    assert tiersnap(["-q", "tier", *options]) == 0
    code, _, said = publish(remote, layout=())
    assert code == 2 and "of the layout local-tiered-storage" in said
    code, _, said = publish(remote, layout=("--layout", "aiven"))
    assert code == 4 and "--layout aiven: brokers read another layout" in said


def test_what_a_killed_run_has_left_is_completed_and_nothing_is_there_twice(site, publish):
    """Killed after three records, as they are written in order: one segment finished, one started, one unknown."""
    remote = site.tier("killed")
    metadata_partition = publish(remote)[1]["metadata_partition"]
    expected = records_of(remote)
    producer = Producer({"bootstrap.servers": site.broker.bootstrap, "log_level": 0})
    for record in expected[:3]:
        producer.produce(METADATA_TOPIC, encode(record), partition=metadata_partition, headers=[OUR_HEADER])
    assert producer.flush(10) == 0

    code, row, _ = publish(remote, "--apply")

    assert (code, row["known"], row["finish"], row["publish"]) == (0, 1, 1, 1)
    values = [record.value for record in read_all(site.broker, METADATA_TOPIC, partition=metadata_partition)]
    assert [step_of(decode(value)) for value in values if b"killed" in value] == [step_of(each) for each in expected]


def records_of(remote: Path) -> list[SegmentRecord | SegmentUpdate]:
    """The records of every finished segment of the topic `killed`, in the order in which they are written."""
    segments = finished_segments(
        RemoteLocation(DirectoryStore(remote), LocalTieredStorageLayout()), lambda topic: topic == "killed"
    )
    started = SegmentState.COPY_SEGMENT_STARTED
    return [
        record
        for each in segments
        for record in (
            SegmentRecord(replace(each, broker_id=1, state=started)),
            SegmentUpdate(each.id, 1, each.event_timestamp, SegmentState.COPY_SEGMENT_FINISHED),
        )
    ]


def step_of(record: object) -> tuple[str, str]:
    """Which segment enters which state."""
    if isinstance(record, SegmentRecord):
        return record.metadata.id.segment_id, record.metadata.state.name
    assert isinstance(record, SegmentUpdate)
    return record.id.segment_id, record.state.name


def test_the_metadata_topic_is_never_made_here(tmp_path, capsys):
    disks = kraft_disks(tmp_path / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION, settings={"auto.create.topics.enable": "true"}) as broker:
        code = tiersnap(["publish", "--bootstrap-server", broker.bootstrap, "--remote", str(tmp_path), "--apply"])
        assert code == 2
        assert "remote.log.storage.system.enable" in capsys.readouterr().err
        assert METADATA_TOPIC not in admin_client(broker).list_topics(timeout=10).topics
