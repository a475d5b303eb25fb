"""`tiersnap doctor`: what a host says of itself, seen from a process that is no broker."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reference.broker_lock import broker
from tests.reference.broker_process import started_broker
from tests.reference.command import assert_said, tiersnap
from tests.reference.next_steps import commands_of
from tests.reference.recovered import DATA
from tests.reference.small_log import file_of, tree, write_small_log
from tiersnap.snapshot.gate.verdict import RANK, Verdict
from tiersnap.snapshot.host.running_broker import Holder, _opened, lock_holder
from tiersnap.snapshot.log.disk import disk_of

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock"),
]

META = "version=1\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nnode.id=7\n"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "meta.properties").write_text(META + "directory.id=kmjETxFsT9Sk7TMqoMCE8A\n")
    write_small_log(folder)
    return folder


def document(*words: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tiersnap("doctor", *words).out)["result"]
    return found


def test_a_healthy_host_fits_on_one_screen_and_ends_with_0(log_dir: Path) -> None:
    before = tree(log_dir)
    ran = tiersnap("doctor", log_dir, output="table")
    assert_said(ran, 0)
    lines = ran.out.splitlines()
    assert len(lines) <= 24
    assert lines[0].startswith("blocked  nothing")
    assert lines[1] == "broker   node 7 of cluster 8ocGbyB_RSCBc6V9xA_tOw (KRaft)"
    assert lines[2] == "version  3.7 or newer: meta.properties has a directory.id"
    assert "running  no: no process holds the lock file .lock; the broker was not stopped cleanly" in ran.out
    assert "blocked  nothing" in ran.out
    assert tree(log_dir) == before


def test_what_blocks_is_said_with_the_commands_in_their_order(log_dir: Path) -> None:
    file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    with broker(log_dir) as pid:
        ran = tiersnap("doctor", log_dir, output="table")
        assert f"running  yes: process {pid} holds the lock file .lock" in ran.out
    assert_said(ran, 4)
    assert "1 segment: MISSING_SNAPSHOT" in ran.out
    steps = [
        f"tiersnap repair {log_dir}\n",
        "stop the broker",
        f"tiersnap repair {log_dir} --apply",
        "start the",
    ]
    places = [ran.out.index(step) for step in steps]
    assert places == sorted(places)
    # What it says to type, typed, clears it.
    assert tiersnap("repair", log_dir, "--apply").exit_code == 0
    after = tiersnap("doctor", log_dir, output="table")
    assert_said(after, 0)
    checks = commands_of(document(log_dir)["check"])
    assert checks == [f"tiersnap doctor {log_dir}", f"tiersnap scan {log_dir}"]
    assert {tiersnap(*shlex.split(line)[1:]).exit_code for line in checks} == {0}


@pytest.mark.parametrize(
    ("meta", "jar", "is_freed"),
    [
        (META, "kafka_2.13-3.9.1.jar", True),
        (META, "kafka-server-4.1.1.jar", True),
        (META, "kafka_2.13-3.8.1.jar", False),
        (META, "kafka_2.13-3.9-SNAPSHOT.jar", True),
        ("version=0\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nbroker.id=7\n", "kafka_2.13-3.9.1.jar", False),
    ],
    ids=["3.9.1", "4.1.1", "3.8.1", "3.9-SNAPSHOT", "ZooKeeper"],
)
def test_unblock_is_printed_if_brokers_can_pause_copying(log_dir: Path, meta: str, jar: str, is_freed: bool) -> None:
    """remote.log.copy.disable came with 3.9 in KRaft mode; without it `unblock` ends with RESTART."""
    (log_dir / "meta.properties").write_text(meta)
    file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    with broker(log_dir, "-cp", f"/opt/kafka/libs/{jar}"):
        printed = commands_of(document(log_dir)["next"])
    assert any(each.startswith("tiersnap unblock ") for each in printed) == is_freed
    assert f"tiersnap repair {log_dir} --apply" in printed


def test_waiting_partitions_are_printed_worst_first_and_not_by_bytes(log_dir: Path) -> None:
    for topic in ("big", "small"):
        write_small_log(log_dir, topic)
    file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    (log_dir / "big-0" / "partition.metadata").unlink()
    (log_dir / "small-0" / "leader-epoch-checkpoint").unlink()
    found = [(each["partition"], each["verdict"]) for each in document(log_dir)["waiting"]]
    ranked = {"small-0": Verdict.INDEX_DAMAGED, "big-0": Verdict.TOPIC_ID_UNKNOWN, "orders-0": Verdict.MISSING_SNAPSHOT}
    assert found == [(name, str(ranked[name])) for name in sorted(ranked, key=lambda name: RANK[ranked[name]])]
    screen = tiersnap("doctor", log_dir, output="table").out
    places = [screen.index(f"\n         {name}: ") for name, _ in found]
    assert places == sorted(places)


def test_next_steps_can_be_pasted_as_a_script(log_dir: Path) -> None:
    """Each line after the facts is a comment, a command or empty."""
    file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    screen = tiersnap("doctor", log_dir, output="table").out
    script = screen[screen.index("# Next:") :]
    assert {line.split(" ")[0] for line in script.splitlines()} == {"#", "tiersnap", ""}
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-e"], input=script, text=True, check=False, capture_output=True, env=os.environ | path
    )
    assert ran.returncode == 0, ran.stderr
    assert tiersnap("doctor", log_dir).exit_code == 0


def test_opened_files_are_told_when_one_is_closed_meanwhile(tmp_path: Path) -> None:
    """As the descriptor is by which the files of this process are listed."""
    jar = tmp_path / "kafka-server-4.1.1.jar"
    with jar.open("wb"):
        assert os.fsencode(jar) in _opened(os.getpid())


def test_the_version_is_that_of_the_running_jar(log_dir: Path) -> None:
    for jar, version in (("kafka_2.13-3.9.1.jar", "3.9.1"), ("kafka-server-4.1.1.jar", "4.1.1")):
        with broker(log_dir, "-cp", f"/opt/kafka/libs/{jar}:/opt/kafka/libs/kafka-clients-1.0.jar") as pid:
            assert lock_holder(log_dir) == Holder(pid, version)
    assert lock_holder(log_dir) is None


def test_a_lock_that_was_never_there_is_held_by_nobody_and_is_not_made(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    assert not (tmp_path / ".lock").exists()


def test_it_is_asked_without_a_right_to_write_the_lock(log_dir: Path) -> None:
    (log_dir / ".lock").chmod(0o444)
    with broker(log_dir) as pid:
        assert lock_holder(log_dir) == Holder(pid, None)


def test_missing_snapshots_are_those_that_scan_finds(tmp_path: Path) -> None:
    for name in ("ledger-2.7.2", "kafka-3.9.1", "kafka-2.7.2", "kafka-4.1.1"):
        logs = DATA / name / "logs"
        (disk,) = document(logs)["log_dirs"]  # type: ignore[misc]
        planned = tiersnap("repair", logs, "--above-newest").rows
        missing = [row for row in planned if row["action"] == "WRITE" and row["found"] == "MISSING"]
        assert disk["missing_snapshots"] == len(missing), name


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_lost_index_comes_before_the_repair(log_dir: Path, with_snapshot: bool) -> None:
    """The next start of a broker makes it again, and deletes later snapshots: what is repaired before is lost."""
    file_of(log_dir / "orders-0", 5, ".index").unlink()
    if not with_snapshot:
        file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    ran = tiersnap("doctor", log_dir, output="table")
    assert_said(ran, 4)
    assert "1 partition has segments without an .index file" in ran.out
    assert "# start the broker once and stop it: at its start, the broker rebuilds lost indexes" in ran.out
    assert "repair" not in ran.out
    with broker(log_dir):
        assert (
            "# stop the broker, start it and stop it again: at its start, the broker rebuilds"
            in tiersnap("doctor", log_dir, output="table").out
        )


def test_a_lost_index_below_the_log_start_is_to_go_before_any_start(log_dir: Path) -> None:
    """Kafka 4.1.1 that opened such a log deleted every snapshot, and knew no producer then."""
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    file_of(log_dir / "orders-0", 0, ".index").unlink()
    ran = tiersnap("doctor", log_dir, output="table")
    assert_said(ran, 4)
    assert "# before the next start of the broker, move away the files of segments below the log start" in ran.out
    assert "start the broker once" not in ran.out
    scanned = tiersnap("scan", log_dir, output="table")
    assert_said(scanned, 4, "without an .index file below the log start offset", f"tiersnap repair {log_dir}")
    repaired = tiersnap("repair", log_dir)
    assert_said(
        repaired,
        4,
        "segment 0 has no .index, and is below the log start",
        "before the start, move the segment's files away",
    )


def test_disks_of_two_brokers_are_noticed(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text("version=0\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nbroker.id=8\n")
    write_small_log(other, "payments")
    ran = tiersnap("doctor", log_dir, other, output="table")
    assert "MORE THAN ONE BROKER" in ran.out
    assert "node 8 of cluster 8ocGbyB_RSCBc6V9xA_tOw (ZooKeeper)" in ran.out
    for disk in (log_dir, other):
        assert f"tiersnap doctor {disk}\n" in ran.out, "each by itself"
    assert "--apply" not in ran.out


@pytest.mark.parametrize("name", ["tiersnap-restore.0123456789abcdef.0123456789abcdef", "lost+found"])
def test_a_folder_that_keeps_the_broker_from_starting_is_named(log_dir: Path, name: str) -> None:
    (log_dir / name).mkdir()
    ran = tiersnap("doctor", log_dir, output="table")
    assert ran.exit_code == 5
    said = " ".join(ran.out.split())
    assert f"{name}: no broker starts while a folder of this name is in its log directory" in said
    assert max(map(len, (line for line in ran.out.splitlines() if "tiersnap " not in line))) <= 200
    assert ("run the same `tiersnap restore` command again" in said) == name.startswith("tiersnap")


def test_a_partition_on_two_disks_is_named_and_not_repaired(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (folder,) = (path for path in log_dir.iterdir() if path.is_dir())
    shutil.copytree(folder, other / folder.name)
    ran = tiersnap("doctor", log_dir, other, output="table")
    assert ran.exit_code == 5
    assert "no broker starts with both folders" in " ".join(ran.out.split())
    for more in ((), ("--apply",)):
        assert_said(tiersnap("repair", log_dir, other, *more), 5, f"{folder.name} exists in two of the log directories")


def test_damage_is_said_and_ends_with_5(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_text("nothing\n")
    ran = tiersnap("doctor", log_dir, output="table")
    assert_said(ran, 5)
    assert "CORRUPT_CHECKPOINT" in ran.out


@pytest.mark.parametrize(("start", "code"), [(100, 5), (21, 5), (20, 0), (16, 0)])
def test_log_start_above_the_log_end_is_damage(log_dir: Path, start: int, code: int) -> None:
    """A broker deletes such a log at its start. `scan` reads all records and says the same."""
    (log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {start}\n")
    said = [tiersnap(command, log_dir) for command in ("doctor", "scan")]
    past = f"orders-0: the log start offset {start} is above the log end offset 20: a broker deletes this log when it "
    past += "starts"
    assert [(past in ran.out, ran.exit_code) for ran in said] == [(code == 5, code)] * 2


def test_meta_properties_without_a_cluster_id_is_not_called_missing(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=7\n")
    ran = tiersnap("doctor", log_dir, output="table")
    assert "broker   unknown: " in ran.out
    assert "cluster.id is missing" in ran.out
    assert "no meta.properties" not in ran.out


def test_a_disk_is_named_with_its_mount_point_and_what_users_may_fill(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    out = subprocess.run(
        ["df", "-P", "-B1", str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1]
    device, _, used, available, _, mount = out.split()
    assert (disk.device, disk.mount, disk.total) == (device, mount, int(used) + int(available))
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/my\\040disk {os.path.realpath(disk.mount)} xfs rw 0 0\n")
    assert disk_of(tmp_path, mounts=mounts).device == "/dev/my disk"
    assert disk_of(tmp_path, mounts=tmp_path / "none").kind == ""


CLASSES = "remote.log.storage.manager.class.name="
LOCAL = f"{CLASSES}org.apache.kafka.server.log.remote.storage.LocalTieredStorage\nrsm.config.dir=/tiers\n"
AIVEN = f"""{CLASSES}io.aiven.kafka.tieredstorage.RemoteStorageManager
rsm.config.storage.backend.class=io.aiven.kafka.tieredstorage.storage.s3.S3Storage
rsm.config.storage.s3.bucket.name=bucket
rsm.config.key.prefix=tiers/
"""
MINIO = "rsm.config.storage.s3.endpoint.url=http://minio:9000\nrsm.config.storage.s3.path.style.access.enabled=true\n"
SECURED = """listeners=CONTROLLER://:9093,CLIENTS://0.0.0.0:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENTS:SASL_SSL
"""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (LOCAL, "--bootstrap-server localhost:9092 --remote /tiers --layout local-tiered-storage --apply"),
        (
            f"{AIVEN}advertised.listeners=PLAINTEXT://broker-7:9094\n",
            "--bootstrap-server broker-7:9094 --remote s3://bucket/tiers --apply",
        ),
        (
            AIVEN + MINIO + SECURED,
            "--bootstrap-server localhost:9092 --command-config client.properties --remote s3://bucket/tiers "
            "--endpoint-url http://minio:9000 --path-style --apply",
        ),
        (
            f"{AIVEN}rsm.config.key.prefix=no-folder\n",
            "--bootstrap-server localhost:9092 --remote s3://bucket/prefix --apply",
        ),
    ],
)
def test_doctor_fills_unblock_with_the_settings_of_the_running_broker(
    log_dir: Path, tmp_path: Path, settings: str, words: str
) -> None:
    file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    properties = tmp_path / "server.properties"
    properties.write_text(settings)
    with started_broker(log_dir, properties):
        found = document(log_dir)
    first, *others = commands_of(found["next"])
    assert first == f"tiersnap unblock {log_dir} {words}"
    is_complete = "s3://bucket/prefix" not in words
    assert is_complete == (not any(each.startswith("tiersnap repair ") for each in others)), "pasted, one cure follows"


def test_closer_looks_are_printed_once_nothing_is_to_be_cured(log_dir: Path) -> None:
    scan = f"tiersnap scan {log_dir}"
    assert scan in commands_of(document(log_dir)["next"])
    (log_dir / "orders-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert scan not in commands_of(document(log_dir)["next"])


def test_doctor_names_the_look_that_needs_the_cluster_if_a_broker_runs(log_dir: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(AIVEN)
    with started_broker(log_dir, properties):
        *_, last = document(log_dir)["next"]
    assert last["command"] == f"tiersnap doctor {log_dir} --remote s3://bucket/tiers --bootstrap-server localhost:9092"


def test_doctor_says_when_the_disk_is_full_while_a_broker_writes(log_dir: Path) -> None:
    assert document(log_dir)["log_dirs"][0]["full_in_ms"] is None  # type: ignore[index]
    log = file_of(log_dir / "orders-0", 10, ".log")
    with log.open("ab") as file:
        file.truncate(disk_of(log_dir).free * 2)  # sparse: as much as is free, twice
    with broker(log_dir):
        (disk,) = document(log_dir)["log_dirs"]  # type: ignore[misc]
        ran = tiersnap("doctor", log_dir, output="table")
    assert 0 < disk["full_in_ms"] < 86_400_000
    assert "\n         full in " in ran.out
