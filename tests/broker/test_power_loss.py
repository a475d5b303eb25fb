"""What a real broker does with the files that a power loss left, and how it reads the log after tiersnap."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import Disks, kraft_disks
from tests.broker.harness.process import ProcessEndedError
from tests.broker.harness.reading import Record, read_all
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, create_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.broken_indexes import break_indexes
from tests.reference.command import Ran, assert_said, tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

CLOSED = 5
COPYING_OFF = {**TOPIC_SETTINGS, "remote.log.copy.disable": "true"}
QUICK_RETENTION = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}


def verdicts(disks: Disks) -> dict[str, int]:
    return tiersnap("scan", disks.log_dir, "--topic", TOPIC).row()["verdicts"]


def broken(root: Path, tier: LocalTier) -> tuple[Disks, list[Record]]:
    """The disks of a stopped broker with four broken indexes, and the records that it had."""
    disks = kraft_disks(root / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION, tier=tier, settings=QUICK_RETENTION) as broker:
        create_topic(broker, TOPIC, configs=COPYING_OFF)
        write_segments(broker, TOPIC, CLOSED + 1)
        records = read_all(broker, TOPIC)
    break_indexes(disks.partition(TOPIC))
    return disks, records


def tier_by_broker(broker: Broker, tier: LocalTier) -> None:
    """Let the broker copy what is not there yet, and delete all closed segments here."""
    alter_topic(broker, TOPIC, {"remote.log.copy.disable": "false", "local.retention.bytes": "1"})
    wait_until(lambda: len(tier.complete_bases(TOPIC)) >= CLOSED, "all closed segments are tiered", seconds=30)
    folder = broker.disks.partition(TOPIC)
    wait_until(lambda: len(segment_bases(folder)) == 1, "local segments are deleted", seconds=30)


def verified(tier: LocalTier) -> Ran:
    return tiersnap("verify", "--remote", tier.directory, "--layout", "local-tiered-storage", "--topic", TOPIC)


@pytest.mark.nightly
def test_broker_tiers_broken_indexes_as_they_are_and_repair_mends_them(tmp_path):
    tier = LocalTier(tmp_path / "tier")
    disks, records = broken(tmp_path, tier)
    again = disks.copy_to(tmp_path / "again")
    assert verdicts(disks)["INDEX_DAMAGED"] == 4

    with Broker(disks, CURRENT_VERSION, tier=tier, settings=QUICK_RETENTION) as broker:
        tier_by_broker(broker, tier)
        with pytest.raises(AssertionError, match=r"after \d+ records|no record and no end"):
            read_all(broker, TOPIC)
    wrong = verified(tier)
    assert_said(wrong, 5)
    assert [row["verdict"] for row in wrong.rows].count("CORRUPT") == 4

    ran = tiersnap("repair", again.log_dir, "--topic", TOPIC, "--replace", "--apply")
    assert_said(ran, 0, "4 index, checkpoint and metadata files: written")
    assert "INDEX_DAMAGED" not in verdicts(again)
    right = LocalTier(tmp_path / "right")
    with Broker(again, CURRENT_VERSION, tier=right, settings=QUICK_RETENTION) as broker:
        tier_by_broker(broker, right)
        assert read_all(broker, TOPIC) == records
    assert_said(verified(right), 0)


@pytest.mark.nightly
def test_broken_indexes_are_read_whole_after_tier(tmp_path):
    tier = LocalTier(tmp_path / "tier")
    disks, records = broken(tmp_path, tier)
    remote = ("--remote", tier.directory, "--layout", "local-tiered-storage", "--topic", TOPIC)
    with Broker(disks, CURRENT_VERSION, tier=tier, settings=QUICK_RETENTION) as broker:

        def tiered() -> bool:
            ran = tiersnap("tier", disks.log_dir, *remote, "--apply")
            return ran.exit_code == 0 and len(tier.complete_bases(TOPIC)) == CLOSED

        wait_until(tiered, "the high watermark is checkpointed", seconds=20, every=1)
        assert_said(tiersnap("publish", "--bootstrap-server", broker.bootstrap, *remote, "--apply"), 0)
        tier_by_broker(broker, tier)
        assert read_all(broker, TOPIC) == records
    assert len(tier.complete_bases(TOPIC)) == CLOSED


def written(root: Path) -> tuple[Disks, list[Record]]:
    """The disks of a broker that was killed, and the records that it had."""
    disks = kraft_disks(root / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION) as broker:
        create_topic(broker, TOPIC)
        write_segments(broker, TOPIC, 3)
        records = read_all(broker, TOPIC)
        broker.kill()
    return disks, records


@pytest.mark.nightly
def test_broker_starts_again_with_the_id_and_the_epochs_that_repair_writes(tmp_path):
    disks, records = written(tmp_path)
    folder = disks.partition(TOPIC)
    epochs, metadata = folder / "leader-epoch-checkpoint", folder / "partition.metadata"
    right = metadata.read_bytes()
    metadata.write_bytes(b"")
    epochs.write_bytes(bytes(epochs.stat().st_size))
    with pytest.raises(ProcessEndedError):
        Broker(disks, CURRENT_VERSION).start()

    assert_said(tiersnap("scan", disks.log_dir), 5, "never move partition.metadata away")
    ran = tiersnap("repair", disks.log_dir, "--apply")
    assert_said(ran, 0, "2 index, checkpoint and metadata files: written")
    assert metadata.read_bytes() == right, "by the metadata log on the same disk"
    with Broker(disks, CURRENT_VERSION) as broker:
        assert read_all(broker, TOPIC) == records


@pytest.mark.nightly
def test_records_of_a_stray_folder_are_read_again_as_the_runbook_says(tmp_path):
    disks, records = written(tmp_path)
    folder = disks.partition(TOPIC)
    (folder / "partition.metadata").unlink()
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_until(lambda: any(disks.log_dir.glob(f"{TOPIC}-0.*-stray")), "the partition is set aside", seconds=20)
        assert read_all(broker, TOPIC) == [], "and no client gets an error"
    (stray,) = disks.log_dir.glob(f"{TOPIC}-0.*-stray")
    for command in ("scan", "doctor"):
        ran = tiersnap(command, disks.log_dir, output="table")
        text = " ".join((ran.out + ran.err).split())
        assert ran.exit_code == 4
        assert f"STRAY_PARTITION: {stray}: " in text
        assert f"the other folder of {TOPIC}-0 on this host is empty" in text

    shutil.move(folder, tmp_path / "empty")
    stray.rename(folder)
    assert_said(tiersnap("repair", disks.log_dir, "--apply"), 0, "1 index, checkpoint or metadata file: written")
    with Broker(disks, CURRENT_VERSION) as broker:
        assert read_all(broker, TOPIC) == records
