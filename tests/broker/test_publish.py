"""Remote segments made by tiersnap and published by it: a broker takes them for its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, segment_bases
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.raw_protocol import Connection, produce
from tests.broker.harness.reading import read_all
from tests.broker.harness.releases import NIGHTLY, Release, releases
from tests.broker.harness.remote_log_metadata import TOPIC as METADATA_TOPIC
from tests.broker.harness.remote_log_metadata import metadata_values, states
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, NO_SNAPSHOT, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, create_topic, delete_records, log_start
from tests.broker.harness.unblocking import doctor, killed_while_off, make_stick, options, own_settings
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference import log_builder
from tests.reference.command import tiersnap as typed
from tiersnap.jobs.main import run as tiersnap
from tiersnap.remote_storage.metadata.metadata_records import decode, encode

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

COPYING_OFF = {**TOPIC_SETTINGS, "remote.log.copy.disable": "true"}
IN_2020, NO_TIMESTAMP = 1_577_836_800_000, -1
# The broker looks for segments to delete twice a second, and not only after half a minute.
QUICK_RETENTION = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}


def remote_options(broker: Broker) -> list[str]:
    assert broker.tier is not None
    return ["--remote", str(broker.tier.directory), "--layout", broker.tier.layout, "--topic", TOPIC]


def publish_options(broker: Broker) -> list[str]:
    return ["--bootstrap-server", broker.bootstrap, *remote_options(broker)]


def tiered_files(tier: LocalTier) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tier.directory.glob(f"kafka-tiered-storage/{TOPIC}-0-*/*")}


def verdicts(broker: Broker, log_dir: Path, *words: str) -> list[dict[str, int]]:
    """Closed segments of the topic by verdict, as `scan`, `doctor` and the plan of `tier` say."""
    found = []
    for command in ("scan", "tier"):
        row = typed(command, log_dir, *remote_options(broker), *words).row(partition=f"{TOPIC}-0")
        found.append({verdict: count for verdict, count in row["verdicts"].items() if verdict != "ACTIVE_SEGMENT"})
    *place, _, _ = remote_options(broker)
    (disk,) = json.loads(typed("doctor", log_dir, *place, *words).out)["result"]["log_dirs"]
    return [*found, disk["in_remote"]]


def test_published_segments_are_read_and_their_local_ones_deleted_and_none_is_copied_again(tmp_path):
    tier = LocalTier(tmp_path / "tier")
    disks = kraft_disks(tmp_path / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION, tier=tier, settings=QUICK_RETENTION) as broker:
        create_topic(broker, TOPIC, configs=COPYING_OFF)
        write_segments(broker, TOPIC, 6)
        folder = disks.partition(TOPIC)
        closed = segment_bases(folder)[:-1]
        isolations = ("read_uncommitted", "read_committed")
        before = {isolation: read_all(broker, TOPIC, isolation=isolation) for isolation in isolations}

        def tiered() -> bool:
            ran = tiersnap(["-q", "tier", str(disks.log_dir), *remote_options(broker), "--no-publish", "--apply"])
            return ran == 0 and tier.complete_bases(TOPIC) == tuple(closed)

        wait_until(tiered, "the high watermark is checkpointed", seconds=20, every=1)
        files = tiered_files(tier)
        server = ("--bootstrap-server", broker.bootstrap)
        assert verdicts(broker, disks.log_dir, *server) == [{"UPLOADED": 5}] * 3
        assert verdicts(broker, disks.log_dir) == [{"UPLOADED": 5}] * 3, "its replica of the records has none"
        assert tiersnap(["-q", "publish", *publish_options(broker), "--apply"]) == 0
        assert verdicts(broker, disks.log_dir, *server) == [{"TIERED": 5}] * 3
        known = lambda: verdicts(broker, disks.log_dir) == [{"TIERED": 5}] * 3  # noqa: E731
        wait_until(known, "the high watermark of the records is checkpointed", seconds=20, every=1)
        assert states(broker, TOPIC) == {"COPY_SEGMENT_STARTED": 5, "COPY_SEGMENT_FINISHED": 5}

        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "false", "local.retention.bytes": "1"})
        wait_until(lambda: len(segment_bases(folder)) == 1, "local segments are deleted", seconds=20)

        assert tiered_files(tier) == files
        assert log_start(broker, TOPIC) == 0
        assert {isolation: read_all(broker, TOPIC, isolation=isolation) for isolation in isolations} == before
        assert states(broker, TOPIC) == {"COPY_SEGMENT_STARTED": 5, "COPY_SEGMENT_FINISHED": 5}

        write_segments(broker, TOPIC, 3, name="later-")
        wait_until(lambda: len(tier.complete_bases(TOPIC)) > len(closed), "the copier goes on", seconds=20)
        assert tier.complete_bases(TOPIC)[: len(closed)] == tuple(closed)
        assert tiered_files(tier).items() >= files.items()

        # The broker's own records: where ours are, and written back byte for byte.
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] > len(closed), "a record of the broker")
        values = metadata_values(broker)
        assert [encode(decode(value)) for value in values] == values
        used = [
            number for number in range(tier.metadata_partitions) if read_all(broker, METADATA_TOPIC, partition=number)
        ]
        assert len(used) == 1


@pytest.mark.nightly
def test_batches_without_timestamps_are_still_there_after_retention_ran(tmp_path):
    """Retention takes the segment of 2020; one that is published with the timestamp -1 it would take as well."""
    tier = LocalTier(tmp_path / "tier")
    disks = kraft_disks(tmp_path / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION, tier=tier, settings=QUICK_RETENTION) as broker:
        create_topic(broker, TOPIC, configs=COPYING_OFF)
        with Connection(broker) as connection:
            for timestamp in (IN_2020, NO_TIMESTAMP, NO_TIMESTAMP, NO_TIMESTAMP):
                batch = log_builder.data_batch(0, 1, timestamp=timestamp, payload=bytes(60_000))
                assert produce(connection, TOPIC, 0, batch)[0] == 0
        folder = disks.partition(TOPIC)
        assert segment_bases(folder) == [0, 1, 2, 3]
        records = read_all(broker, TOPIC)

        def tiered() -> bool:
            ran = tiersnap(["-q", "tier", str(disks.log_dir), *remote_options(broker), "--no-publish", "--apply"])
            return ran == 0 and tier.complete_bases(TOPIC) == (0, 1, 2)

        wait_until(tiered, "the high watermark is checkpointed", seconds=20, every=1)
        assert tiersnap(["-q", "publish", *publish_options(broker), "--apply"]) == 0
        day = str(24 * 3600 * 1000)
        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "false", "retention.ms": day})
        wait_until(lambda: tier.complete_bases(TOPIC) == (1, 2), "retention has run on remote storage", seconds=30)
        assert read_all(broker, TOPIC, start=1) == [record for record in records if record.offset >= 1]

        # A later check deletes what the log start passed, and looks at the segment behind it.
        delete_records(broker, TOPIC, 2)
        deleted = lambda: states(broker, TOPIC)["DELETE_SEGMENT_FINISHED"] == 2  # noqa: E731
        wait_until(deleted, "retention has run once more", seconds=30)
        assert tier.complete_bases(TOPIC) == (2,)
        assert log_start(broker, TOPIC) == 2
        assert read_all(broker, TOPIC, start=2) == [record for record in records if record.offset >= 2]


def published_by(*words: str) -> int:
    """Run a command in a process of its own, which Spark's session ends with; return how many segments it published."""
    command = [sys.executable, "-m", "tests.reference.tiersnap", "--output", "json", *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    published: int = json.loads(ran.stdout)["result"]["segments_published"]
    return published


@pytest.mark.parametrize(
    "command", ["run", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("tier", "publish"))]
)
@pytest.mark.parametrize("release", releases(CURRENT_VERSION))
def test_a_copy_task_that_fails_is_paused_and_goes_on_behind_what_is_published(
    release: Release, command: str, disks_of, tmp_path
):
    """`run` and `tier` upload and publish; `publish` tells brokers what `tier --no-publish` uploaded."""
    disks = disks_of(release.version)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    drop_snapshot(folder, bases[5])
    tier = release.tier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, release.version, tier=tier, settings=QUICK_RETENTION) as broker:
        make_stick(broker, {"retention.ms": "604800000"})
        before, records = own_settings(broker), read_all(broker, TOPIC)
        words = ["tier", str(disks.log_dir), *publish_options(broker)]
        if command == "run":
            tables = ["--warehouse", str(tmp_path / "warehouse"), "--report", str(tmp_path / "report")]
            words = ["run", "--source", str(disks.log_dir), *publish_options(broker), *tables]
        else:
            assert typed(*words).exit_code == 0
            assert states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 4, "brokers know only what they copied"
        told = published_by(*words, *(["--no-publish"] if command == "publish" else []), "--apply")
        assert tier.complete_bases(TOPIC) == tuple(bases[:10])
        if command == "publish":
            assert (told, states(broker, TOPIC)["COPY_SEGMENT_FINISHED"]) == (0, 4)
            assert tiersnap(["-q", "publish", *publish_options(broker)]) == 0
            assert (own_settings(broker), states(broker, TOPIC)["COPY_SEGMENT_FINISHED"]) == (before, 4)
            assert tiersnap(["-q", "publish", *publish_options(broker), "--apply"]) == 0
        else:
            assert told == 6
        assert (own_settings(broker), states(broker, TOPIC)["COPY_SEGMENT_FINISHED"]) == (before, 10)

        failures = broker.log.count(NO_SNAPSHOT)
        alter_topic(broker, TOPIC, {"local.retention.bytes": "1"})
        wait_until(lambda: segment_bases(folder)[0] > bases[9], "local segments are deleted", seconds=60)
        write_segments(broker, TOPIC, 3, name="later-")
        wait_until(lambda: len(tier.complete_bases(TOPIC)) > 10, "the copier goes on", seconds=30)
        assert (broker.log.count(NO_SNAPSHOT), read_all(broker, TOPIC)[: len(records)]) == (failures, records)


def killed_and_next() -> Iterator[object]:
    """Yield, for each release, the command that is killed and the one that is typed after it."""
    several = [("publish", "publish"), ("tier", "tier"), ("run", "run"), ("publish", "unblock")]
    for release in NIGHTLY:
        for killed, following in several if release == Release(CURRENT_VERSION) else (several[-1], ("tier", "run")):
            name = f"{release.version}-{release.layout}-{killed}-{following}"
            yield pytest.param(release, killed, following, marks=pytest.mark.kafka(release.version), id=name)


@pytest.mark.nightly
@pytest.mark.parametrize(("release", "killed", "following"), list(killed_and_next()))
def test_topic_that_a_killed_command_left_paused_is_put_back_by_the_next_one(
    release: Release, killed: str, following: str, disks_of, tmp_path, capsys
):
    disks = disks_of(release.version)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    drop_snapshot(folder, bases[5])
    tier = release.tier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, release.version, tier=tier, settings=QUICK_RETENTION) as broker:
        make_stick(broker, {"retention.ms": "604800000", "local.retention.ms": "3600000"})
        before, records = own_settings(broker), read_all(broker, TOPIC)
        tables = ["--warehouse", str(tmp_path / "warehouse"), "--report", str(tmp_path / "report")]
        words = {
            "publish": ["publish", *publish_options(broker)],
            "tier": ["tier", str(disks.log_dir), *publish_options(broker)],
            "run": ["run", "--source", str(disks.log_dir), *publish_options(broker), *tables],
            "unblock": ["unblock", *options(broker)],
        }
        assert tiersnap(["-q", *words["tier"], "--no-publish", "--apply"]) == 0
        killed_while_off(broker, signal.SIGKILL, words[killed])
        assert own_settings(broker)["remote.log.copy.disable"] == "true"
        code, told = doctor(broker, capsys)
        assert (code, [(each["topic"], each["state"]) for each in told["copying"]["paused"]]) == (4, [(TOPIC, "LEFT")])
        command = [sys.executable, "-m", "tests.reference.tiersnap", *words[following], "--apply"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert (ran.returncode, own_settings(broker)) == (0, before), ran.stderr
        assert doctor(broker, capsys)[0] == 0
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 10, "all is published", seconds=30)
        alter_topic(broker, TOPIC, {"local.retention.bytes": "1"})
        wait_until(lambda: segment_bases(folder)[0] > bases[9], "local segments are deleted", seconds=60)
        assert read_all(broker, TOPIC) == records
