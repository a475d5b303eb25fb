"""Copies of a broker that lost their objects: what `publish` makes of ours, and what a consumer then reads."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import backup_of, kraft_disks
from tests.broker.harness.meanwhile import after_the_first
from tests.broker.harness.reading import read_all
from tests.broker.harness.releases import releases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, create_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tiersnap.jobs.main import run as tiersnap
from tiersnap.remote_storage.publish import plan_publication

pytestmark = [pytest.mark.broker, pytest.mark.parametrize("release", releases(CURRENT_VERSION))]

QUICK = {
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
CLOSED = 5


def asked(broker: Broker) -> tuple[str, str]:
    """It says that copying is off, although it uploaded a moment ago."""
    return "--bootstrap-server", broker.bootstrap


@pytest.mark.nightly
def test_whole_copies_of_ours_take_the_place_of_lost_ones_and_consumers_read_on(release, tmp_path, capsys):
    """One is lost in the middle and one at the end; then no local file is left, and the broker starts again."""
    tier, elsewhere = release.tier(tmp_path / "tier"), release.tier(tmp_path / "elsewhere")
    disks = kraft_disks(tmp_path / "disks", release.version)
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        create_topic(broker, TOPIC, configs=TOPIC_SETTINGS)
        write_segments(broker, TOPIC, CLOSED + 1)
        folder = disks.partition(TOPIC)
        closed = segment_bases(folder)[:-1]
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == CLOSED, "it is tiered", seconds=30)
        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "true"})
        isolations = ("read_uncommitted", "read_committed")
        before = {isolation: read_all(broker, TOPIC, isolation=isolation) for isolation in isolations}

        def tiered() -> bool:
            """A backup without the brokers' records: beside the broker `tier` writes only where that reads."""
            log_dir = backup_of(disks.log_dir, tmp_path / "backup")
            for metadata in log_dir.glob("__remote_log_metadata-*"):
                shutil.rmtree(metadata)
            remote = ("--remote", str(elsewhere.directory), "--layout", tier.layout, "--topic", TOPIC)
            assert tiersnap(["-q", "tier", str(log_dir), *remote, "--apply"]) == 0
            return set(elsewhere.complete_bases(TOPIC)) == set(closed)

        wait_until(tiered, "the high watermark is checkpointed", seconds=30, every=1)
        told = states(broker, TOPIC)
        code, row, said = publish(broker, elsewhere, capsys)
        assert (code, row["refused"], row["publish"]) == (5, "LostCopyError", 0)
        assert "compare --remote, its prefix and --layout with server.properties of the brokers" in said
        assert states(broker, TOPIC) == told, "this is not where its copies are"

        for segment in tier.segments(TOPIC):
            if segment.base_offset in (closed[1], closed[-1]):
                for path in segment.files.values():
                    path.unlink()
        theirs = tier.segments(TOPIC)[0].files[".log"].parent
        for segment in elsewhere.segments(TOPIC):
            if segment.base_offset in (closed[1], closed[-1]):
                for path in segment.files.values():
                    shutil.copy(path, theirs)

        code, row, _ = publish(broker, tier, capsys)
        assert (code, row["publish"], row["known"], row["others"]) == (0, 2, CLOSED - 2, "")
        code, row, said = publish(broker, tier, capsys)
        assert (code, row["publish"], row["known"]) == (0, 0, CLOSED)
        assert "nothing to publish" in said

        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "false", "local.retention.bytes": "1"})
        wait_until(lambda: len(segment_bases(folder)) == 1, "local segments are deleted", seconds=30)
        assert {isolation: read_all(broker, TOPIC, isolation=isolation) for isolation in isolations} == before
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        assert {isolation: read_all(broker, TOPIC, isolation=isolation) for isolation in isolations} == before
        assert set(tier.complete_bases(TOPIC)) == set(closed), "nothing was copied or deleted"
        assert len(tier.complete_bases(TOPIC)) == CLOSED
        alter_topic(broker, TOPIC, {"retention.bytes": "1"})
        wait_until(lambda: not tier.segments(TOPIC), "retention goes past what is left of the lost ones", seconds=30)


@pytest.mark.nightly
def test_lost_copies_are_named_where_none_of_ours_is_near_and_what_retention_takes_meanwhile_is_not_lost(
    release, tmp_path, capsys, monkeypatch
):
    """One of a partition that goes on, and all of another."""
    tier = release.tier(tmp_path / "tier")
    disks = kraft_disks(tmp_path / "disks", release.version)
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        create_topic(broker, TOPIC, partitions=2, configs=TOPIC_SETTINGS)
        write_segments(broker, TOPIC, CLOSED + 1)
        write_segments(broker, TOPIC, 2, partition=1, name="one-")
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == CLOSED + 1, "it is tiered", seconds=30)
        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "true"})
        write_segments(broker, TOPIC, CLOSED + 2, name="later-")
        remote = ["--remote", str(tier.directory), "--layout", tier.layout, "--topic", TOPIC]
        command = ["-q", "tier", str(disks.log_dir), *remote, *asked(broker), "--no-publish", "--apply"]

        def tiered() -> bool:
            assert tiersnap(command) == 0
            return len(tier.complete_bases(TOPIC)) == CLOSED + 1

        wait_until(tiered, "the high watermark is checkpointed", seconds=30, every=1)
        lost = tier.segments(TOPIC)[1]
        for path in (*lost.files.values(), *tier.segments(TOPIC, 1)[0].files.values()):
            path.unlink()

        code, rows, said = publish_all(broker, tier, capsys)
        assert (code, rows[0]["publish"], rows[0]["known"], rows[0]["others"]) == (5, 1, CLOSED - 1, "1 LOST")
        assert (rows[0]["refused"], rows[1]["refused"]) == ("", "LostCopyError")
        assert f"lost: {TOPIC}-0: published segments are not complete at this location ({lost.base_offset}-" in said
        assert f"refused: {TOPIC}-1: published segments are not complete at this location (0-" in said
        assert "has no other complete segment of the partition" in said
        assert states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == CLOSED + 2, "what could be published was"
        code, rows, said = publish_all(broker, tier, capsys)
        assert (code, rows[0]["known"], rows[0]["others"], len(rows)) == (5, CLOSED, "1 LOST", 2)
        assert "nothing else is left to publish" in said

        def take_all() -> None:
            alter_topic(broker, TOPIC, {"remote.log.copy.disable": "false", "retention.bytes": "1"})
            begun = 2 * (CLOSED + 2)
            wait_until(lambda: deletions(broker) == begun, "retention takes all of it", seconds=30)

        after_the_first(monkeypatch, plan_publication, "leader_offsets", take_all)
        code, rows, said = publish_all(broker, tier, capsys)
        assert (code, rows[0]["others"], len(rows)) == (0, "", 1)
        assert "nothing to publish" in said


def deletions(broker: Broker) -> int:
    """Records of copies that brokers begin to delete, or have deleted."""
    told = states(broker, TOPIC)
    return told["DELETE_SEGMENT_STARTED"] + told["DELETE_SEGMENT_FINISHED"]


def publish(broker: Broker, place: LocalTier, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict, str]:
    """See publish_all, of a topic with one partition."""
    code, (row,), said = publish_all(broker, place, capsys)
    return code, row, said


def publish_all(broker: Broker, place: LocalTier, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict], str]:
    """`tiersnap publish --apply` of what is in `place`: exit code, the rows, and what was said."""
    capsys.readouterr()
    remote = ["--remote", str(place.directory), "--layout", place.layout, "--topic", TOPIC]
    code = tiersnap(["--output", "json", "publish", "--bootstrap-server", broker.bootstrap, *remote, "--apply"])
    said = capsys.readouterr()
    return code, json.loads(said.out)["result"]["rows"], said.err
