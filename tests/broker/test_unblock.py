"""A partition whose copier is stuck, freed while its broker runs."""

from __future__ import annotations

import hashlib
import shlex
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, drop_snapshots_but_newest, segment_bases, snapshots
from tests.broker.harness.places import QUICK, files, hide_configuration
from tests.broker.harness.reading import read_all
from tests.broker.harness.releases import releases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import (
    CURRENT_VERSION,
    FAILING_INTERVAL_MS,
    NO_SNAPSHOT,
    TOPIC,
    UPGRADED_VERSION,
)
from tests.broker.harness.tiering import MANDATORY, TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, wait_for_leader
from tests.broker.harness.unblocking import (
    doctor,
    killed_while_off,
    make_stick,
    options,
    own_settings,
    said,
    seen_alone,
    unblock,
)
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.next_steps import commands_of
from tiersnap.jobs.main import run as tiersnap
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    new_segment_id,
)
from tiersnap.remote_storage.stores.store_settings import DEFAULT_LAYOUT
from tiersnap.snapshot.formats.snapshot_file import decode

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]


def digests(folder: Path) -> dict[str, tuple[int, str]]:
    """Modification time and content of every file."""
    return {
        path.name: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in folder.iterdir()
    }


@pytest.mark.parametrize("release", releases(CURRENT_VERSION))
def test_a_partition_stuck_at_its_fifth_segment_is_freed_and_no_file_of_it_is_touched(
    release, disks_of, tmp_path, capsys, monkeypatch
):
    disks = disks_of(release.version)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    drop_snapshot(folder, bases[5])
    tier = release.tier(tmp_path / "tier", FAILING_INTERVAL_MS)
    (other,) = MANDATORY.keys() - {release.layout}
    with Broker(disks, release.version, tier=tier) as broker:
        make_stick(broker)
        assert tier.complete_bases(TOPIC) == tuple(bases[:4])
        before = digests(folder)

        wrong = tmp_path / "wrong"
        for more in (("--remote", str(wrong)), ("--layout", other, "--unproven")):
            assert tiersnap(["unblock", *options(broker), *more, "--apply"]) == 4
            assert "brokers read another location" in capsys.readouterr().err
            assert not wrong.exists(), "nothing is written to a wrong location"
            assert "remote.log.copy.disable" not in own_settings(broker)

        code, told = doctor(broker, capsys)
        failing = [(each["partition"], each["base_offset"]) for each in told["copying"]["failing"]]
        assert (code, failing) == (4, [(f"{TOPIC}-0", bases[4])]), told
        (line,) = (each for each in commands_of(told["next"]) if each.startswith("tiersnap unblock "))
        default = {"--layout", DEFAULT_LAYOUT}  # need not be printed
        assert {*shlex.split(line), *default} == {"tiersnap", "unblock", *options(broker), "--apply", *default}

        code, rows = unblock(broker, capsys)
        assert (code, [row["outcome"] for row in rows]) == (0, ["PLANNED"]), rows
        assert (rows[0]["remote_ends_at"], rows[0]["tier"]) == (bases[4], 6)
        assert tier.complete_bases(TOPIC) == tuple(bases[:4]), "a plan writes nothing"

        monkeypatch.setattr("tiersnap.jobs.cli.situation_options.PROC", seen_alone(broker, tmp_path / "proc"))
        code, found = said(capsys, "doctor")
        assert code == 4
        (log_dir,) = found["log_dirs"]
        assert (log_dir["log_dir"], log_dir["blocked"]) == (str(disks.log_dir), {"MISSING_SNAPSHOT": 1})
        assert found["location"]["state"] == "PROVEN"
        code, found = said(capsys, "unblock", "--apply")
        failures = broker.log.count(NO_SNAPSHOT)
        assert (code, [row["outcome"] for row in found["rows"]]) == (0, ["FREED"]), found
        assert found["place_evidence"] == "SERVER_PROPERTIES"
        assert tier.complete_bases(TOPIC) == tuple(bases[:10]), "ten of ten, none twice"
        for command in ("doctor", "scan", "verify", "tier", "publish", "mend"):
            assert said(capsys, command)[0] == 0, command
        assert digests(folder) == before

        write_segments(broker, TOPIC, 13, name="later-")
        after = segment_bases(folder)
        wait_until(lambda: len(tier.complete_bases(TOPIC)) >= 12, "the copier goes on", seconds=30)
        assert tier.complete_bases(TOPIC) == tuple(after[:-1]), "none twice"
        assert broker.log.count(NO_SNAPSHOT) == failures
        assert states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 12

        assert unblock(broker, capsys, "--apply") == (0, [])
        code, told = doctor(broker, capsys)
        assert (code, told["copying"]["failing"]) == (0, []), told


@pytest.mark.nightly
def test_a_replica_of_the_bucket_is_refused_and_the_original_is_read_back(current_disks, copy_of, tmp_path, capsys):
    """Nothing on this host tells where the broker reads, and the replica has the same objects with the same times."""
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    drop_snapshot(folder, bases[5])
    tier, replica = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS), tmp_path / "replica"
    with Broker(disks, CURRENT_VERSION, tier=tier, settings=QUICK) as broker:
        make_stick(broker)
        hide_configuration(broker)
        records = read_all(broker, TOPIC)
        subprocess.run(["cp", "-a", str(tier.directory), str(replica)], check=True)
        before = files(replica)
        remote = ("--remote", str(replica))
        for more, why in (((), "nothing proves"), (("--prove", "--unproven"), "brokers read another location")):
            assert tiersnap(["unblock", *options(broker), *remote, *more, "--apply"]) == 4
            assert why in (said := capsys.readouterr().err) and "--unproven" not in said
            assert files(replica) == before
            assert "remote.log.copy.disable" not in own_settings(broker)
        assert states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 4

        code, rows = unblock(broker, capsys, "--prove", "--apply")
        assert (code, [row["outcome"] for row in rows]) == (0, ["FREED"]), rows
        alter_topic(broker, TOPIC, {"local.retention.bytes": "1"})
        wait_until(lambda: segment_bases(folder)[0] > bases[9], "local segments are deleted", seconds=60)
        assert read_all(broker, TOPIC) == records


@pytest.mark.nightly
def test_a_producer_that_is_known_in_remote_storage_alone_is_in_the_snapshots_that_are_made(
    current_disks, copy_of, tmp_path, capsys
):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases, brokers_own = segment_bases(folder), snapshots(folder)
    drop_snapshot(folder, bases[5])
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker, {"local.retention.bytes": "1"})
        wait_until(lambda: segment_bases(folder)[0] == bases[4], "what is tiered is deleted here", seconds=60)
    drop_snapshots_but_newest(folder, 1)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        wait_until(lambda: broker.log.count(NO_SNAPSHOT) >= 2, "the copier fails", seconds=30)
        code, rows = unblock(broker, capsys, "--apply")
        assert (code, [row["outcome"] for row in rows]) == (0, ["FREED"]), rows

    copied = {each.base_offset: each.files[".snapshot"].read_bytes() for each in tier.segments(TOPIC)}
    ends = dict(pairwise(bases))
    assert sorted(copied) == bases[:10]
    last_heard = decode(brokers_own[bases[10]])["last_offset"]
    assert last_heard.min() < bases[4], "one producer wrote nothing to the segments that are left here"
    for base, data in copied.items():
        assert decode(data).tolist() == decode(brokers_own[ends[base]]).tolist(), base


@pytest.mark.nightly
def test_uploads_that_timed_out_are_no_stuck_copier_where_another_may_be_under_way(
    current_disks, copy_of, tmp_path, capsys
):
    """Brokers before 3.9 leave the record of an upload that failed; the next one may take longer than an interval."""
    disks = copy_of(current_disks)
    bases = segment_bases(disks.partition(TOPIC))
    with Broker(disks, CURRENT_VERSION, tier=LocalTier(tmp_path / "tier")) as broker:
        wait_for_leader(broker, TOPIC)
        alter_topic(broker, TOPIC, TOPIC_SETTINGS)
        copied = len(bases) - 1
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == copied, "it is tiered", seconds=30)
        cluster = Cluster(broker.bootstrap)
        topic_id = cluster.topics([TOPIC])[TOPIC].topic_id
        begun = [
            RemoteLogSegmentMetadata(
                id=RemoteLogSegmentId(TOPIC, topic_id, 0, new_segment_id()),
                start_offset=bases[-1],
                end_offset=bases[-1] + 9,
                broker_id=1,
                max_timestamp=1,
                event_timestamp=1,
                segment_leader_epochs=((0, bases[-1]),),
                segment_size=1,
                state=SegmentState.COPY_SEGMENT_STARTED,
            )
            for _ in range(3)
        ]
        at = TopicIdPartition(TOPIC, topic_id, 0)
        assert MetadataTopic.of(cluster).publish((at, SegmentRecord(each)) for each in begun) == len(begun)

        assert unblock(broker, capsys, "--apply") == (0, [])
        assert states(broker, TOPIC) == {"COPY_SEGMENT_STARTED": copied + 3, "COPY_SEGMENT_FINISHED": copied}


def test_killed_while_copying_is_off_the_next_run_puts_everything_back_and_finishes(
    current_disks, copy_of, tmp_path, capsys
):
    disks = copy_of(current_disks)
    bases = segment_bases(disks.partition(TOPIC))
    drop_snapshot(disks.partition(TOPIC), bases[1])
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker, {"local.retention.bytes": "1000000000"})
        before = own_settings(broker)

        killed_while_off(broker, signal.SIGTERM)
        assert own_settings(broker) == before, "a request to end waits for that"
        assert list(tier.directory.glob("claims/*/unblock.json")), "and the rest is for the next run"

        killed_while_off(broker, signal.SIGKILL)
        left = own_settings(broker)
        assert (left["remote.log.copy.disable"], left["local.retention.bytes"]) == ("true", "-2")

        code, told = doctor(broker, capsys)
        paused = [(each["topic"], each["state"]) for each in told["copying"]["paused"]]
        assert (code, paused) == (4, [(TOPIC, "LEFT")]), told
        code, rows = unblock(broker, capsys)
        assert own_settings(broker) == left, "a plan sets nothing"
        code, rows = unblock(broker, capsys, "--apply")
        assert (code, [row["outcome"] for row in rows]) == (0, ["FREED"]), rows
        assert doctor(broker, capsys)[0] == 0
        assert own_settings(broker) == before
        assert not list(tier.directory.glob("claims/*/unblock.json"))
        assert tier.complete_bases(TOPIC) == tuple(bases[:10])


@pytest.mark.nightly
def test_what_others_freed_at_the_last_moment_is_left_to_them(current_disks, copy_of, tmp_path, capsys, monkeypatch):
    """The broker is restarted with its snapshot while the run is about to switch copying off."""
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    (snapshot,) = folder.glob(f"{bases[5]:020d}.snapshot")
    content = snapshot.read_bytes()
    snapshot.unlink()
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker)
        change_settings = Cluster.change_settings
        restarts = []

        def after_a_restart(cluster, topic, settings, *, validate_only=False):
            if not validate_only and not restarts:
                assert finished_logs(tier, bases[4]) == 1, "it is tiered, and not published yet"
                restarts.append(1)
                broker.stop()
                snapshot.write_bytes(content)
                broker.start()
                wait_for_leader(broker, TOPIC)
                wait_until(lambda: states(broker, TOPIC).get("COPY_SEGMENT_FINISHED") == 10, "it copies", seconds=60)
            change_settings(cluster, topic, settings, validate_only=validate_only)

        monkeypatch.setattr(Cluster, "change_settings", after_a_restart)
        code, rows = unblock(broker, capsys, "--apply")
        assert restarts == [1]
        assert (code, rows[0]["outcome"], rows[0]["tier"], rows[0]["publish"]) == (0, "FREED", 6, 0), rows
        assert states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == 10, "none became visible twice"
        assert finished_logs(tier, bases[4]) == 2, "ours is left over: maintain remove-orphans removes it"
        assert own_settings(broker).get("remote.log.copy.disable") is None


@pytest.mark.nightly
def test_what_another_run_published_before_the_plan_is_no_blocked_partition(
    current_disks, copy_of, tmp_path, capsys, monkeypatch
):
    """The other run goes from its beginning to its end while this one asks whether copying may be switched off."""
    disks = copy_of(current_disks)
    drop_snapshot(disks.partition(TOPIC), segment_bases(disks.partition(TOPIC))[3])
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker)
        command = [sys.executable, "-m", "tests.reference.tiersnap", "unblock", *options(broker), "--apply"]
        change_settings = Cluster.change_settings
        others = []

        def after_another_run(cluster, topic, settings, *, validate_only=False):
            if not others:
                others.append(subprocess.run(command, capture_output=True, text=True, timeout=120, check=False))
            change_settings(cluster, topic, settings, validate_only=validate_only)

        monkeypatch.setattr(Cluster, "change_settings", after_another_run)
        code, rows = unblock(broker, capsys, "--apply")
        assert others[0].returncode == 0, others[0].stderr
        assert (code, rows[0]["outcome"], rows[0]["publish"]) == (0, "FREED", 0), rows
        assert own_settings(broker).get("remote.log.copy.disable") is None


def finished_logs(tier: LocalTier, base: int) -> int:
    """Logs of a segment in remote storage."""
    return len(list(tier.directory.glob(f"kafka-tiered-storage/{TOPIC}-*/{base:020d}-*.log")))


@pytest.mark.nightly
def test_two_runs_at_one_topic_wait_for_each_other(current_disks, copy_of, tmp_path):
    disks = copy_of(current_disks)
    bases = segment_bases(disks.partition(TOPIC))
    drop_snapshot(disks.partition(TOPIC), bases[3])
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker)
        command = [sys.executable, "-m", "tests.reference.tiersnap", "unblock", *options(broker), "--apply"]
        with (
            subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as one,
            subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as other,
        ):
            said = [process.communicate(timeout=120)[1] for process in (one, other)]
        assert (one.returncode, other.returncode) == (0, 0), said
        assert own_settings(broker).get("remote.log.copy.disable") is None
        assert not list(tier.directory.glob("claims/*/unblock.json"))
        wait_until(lambda: states(broker, TOPIC).get("COPY_SEGMENT_FINISHED") == 10, "all is remote", seconds=30)


@pytest.mark.nightly
@pytest.mark.kafka("2.7.2", UPGRADED_VERSION)
def test_in_zookeeper_mode_it_is_a_restart_that_lets_the_copier_see_what_was_published(
    legacy_disks, copy_of, tmp_path, capsys
):
    disks = copy_of(legacy_disks)
    closed = segment_bases(disks.partition(TOPIC))[:-1]
    tier = LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, UPGRADED_VERSION, tier=tier) as broker:
        make_stick(broker)

        code, rows = unblock(broker, capsys, "--apply")

        assert (code, [row["outcome"] for row in rows]) == (6, ["RESTART"]), rows
        assert "zookeeper" in rows[0]["reason"].lower()
        assert "restart the broker that leads" in rows[0]["hint"]
        assert tier.complete_bases(TOPIC) == tuple(closed)
        assert own_settings(broker).get("remote.log.copy.disable") is None

        failures = broker.log.count(NO_SNAPSHOT)
        wait_until(lambda: broker.log.count(NO_SNAPSHOT) >= failures + 2, "the copier has not looked", seconds=30)
        code, rows = unblock(broker, capsys, "--apply")
        assert (code, rows[0]["publish"], rows[0]["outcome"]) == (6, 0, "RESTART"), "still to be done"

        broker.stop()
        broker.start()
        wait_for_leader(broker, TOPIC)
        write_segments(broker, TOPIC, len(closed) + 3, name="later-")
        wait_until(lambda: len(tier.complete_bases(TOPIC)) >= len(closed) + 2, "the copier goes on", seconds=40)
        assert tier.complete_bases(TOPIC) == tuple(segment_bases(disks.partition(TOPIC))[:-1]), "none twice"
        assert broker.log.count(NO_SNAPSHOT) == 0
        assert unblock(broker, capsys, "--apply") == (0, [])
