"""Commands on a broker's host without arguments: what they find, what they refuse, and what they ask for."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.broker_process import started_broker
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.model_cluster import CLUSTER_ID
from tests.reference.small_log import file_of, write_small_log

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock"),
]
CLASS = "remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
NO_CLUSTER = "listeners=SSL://127.0.0.1:9\n"
OF_A_CLUSTER = ("unblock", "publish", "mend")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_small_log(folder)
    (folder / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=7\n")
    return folder


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    (tmp_path / "tier").mkdir()
    return tmp_path / "tier"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    (tmp_path / "wrong").mkdir()
    return tmp_path / "wrong"


@pytest.fixture
def properties(tmp_path: Path, log_dir: Path, remote: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"log.dirs={log_dir}\n{CLASS}\nrsm.config.dir={remote}\n{NO_CLUSTER}")
    return path


@pytest.fixture
def broker(log_dir: Path, properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The only broker of this host; other tests start some, too."""
    with started_broker(log_dir, properties) as pid:
        proc = tmp_path / "proc"
        proc.mkdir()
        for each in ("stat", str(pid)):
            (proc / each).symlink_to(Path("/proc") / each)
        monkeypatch.setattr("tiersnap.jobs.cli.situation_options.PROC", proc)
        yield pid


def refused(ran: Ran, *words: str) -> None:
    assert_said(ran, 4, *words)
    assert json.loads(ran.out)["errors"][0]["type"] == "WrongPlaceError"


def test_tier_finds_the_log_directories_and_the_location_of_the_running_broker(broker, log_dir, remote):
    ran = tiersnap("tier", "--apply")
    assert_said(ran, 0, f"log directories: {log_dir}: process {broker}", f"remote location: {remote} (local-tiered-")
    assert list(remote.rglob("*.log"))
    again = tiersnap("tier", "--apply", log_dir, "--remote", remote)
    assert_said(again, 0, "no object was written", "3 segments UPLOADED: tiersnap publish")
    assert "log directories:" not in again.err and "remote location:" not in again.err


def test_tier_takes_the_facts_of_a_server_properties(properties, log_dir, remote):
    ran = tiersnap("tier", "--server-properties", properties, "--apply")
    assert_said(ran, 0, f"log directories: {log_dir}: --server-properties", "cluster: not known: the broker does not")
    assert list(remote.rglob("*.log"))


def test_repair_takes_the_log_directories_of_a_server_properties(properties, log_dir, wrong):
    file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    ran = tiersnap("repair", "--server-properties", properties, "--expiration", "none", "--apply")
    assert_said(ran, 0, f"log directories: {log_dir}: --server-properties", "1 snapshot is written")
    assert "remote location" not in ran.err, "it asks none"
    assert file_of(log_dir / "orders-0", 10, ".snapshot").exists()
    assert_said(
        tiersnap("repair"), 2, "log directories unknown: no broker runs on this host", "--server-properties FILE"
    )


def test_repair_finds_the_log_directories_of_the_running_broker_and_leaves_them(broker, log_dir):
    file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    plan = tiersnap("repair")
    assert_said(plan, 0, f"log directories: {log_dir}: process {broker}", "1 snapshot to write")
    refused = tiersnap("repair", "--apply")
    assert refused.exit_code != 0 and not file_of(log_dir / "orders-0", 10, ".snapshot").exists()


def test_tier_goes_on_without_a_cluster_that_does_not_answer_and_says_so(properties, log_dir, remote):
    properties.write_text(properties.read_text().replace(NO_CLUSTER, "listeners=PLAINTEXT://127.0.0.1:9\n"))
    with started_broker(log_dir, properties):
        ran = tiersnap("tier", log_dir, "--apply")
    assert_said(ran, 3, "127.0.0.1:9")
    assert list(remote.rglob("*.log"))


def test_tier_without_a_broker_works_as_it_is_told(log_dir, tmp_path):
    ran = tiersnap("tier", log_dir, "--remote", tmp_path / "new", "--apply")
    assert_said(ran, 0)
    assert "not known" not in ran.err
    assert list((tmp_path / "new").rglob("*.log"))


@pytest.mark.parametrize("command", ["tier", *OF_A_CLUSTER])
def test_location_that_contradicts_the_broker_is_refused(command, log_dir, properties, wrong):
    words = (command, "--remote", wrong, "--bootstrap-server", "127.0.0.1:9")
    unproven = ("--unproven",) if command in OF_A_CLUSTER else ()
    with started_broker(log_dir, properties):
        refused(tiersnap(*words, log_dir, *unproven), f"{properties} of the running broker")
    refused(tiersnap(*words, "--server-properties", properties, *unproven), f"{properties} names")
    assert not list(wrong.rglob("*"))


@pytest.mark.parametrize("apply", [(), ("--apply",)], ids=["plan", "apply"])
def test_run_refuses_a_location_that_the_running_broker_does_not_read(apply, log_dir, properties, wrong, tmp_path):
    words = ("run", "--source", log_dir, "--remote", wrong, "--warehouse", tmp_path / "warehouse", *apply)
    with started_broker(log_dir, properties):
        refused(tiersnap(*words), f"{properties} of the running broker")
    assert not list(wrong.rglob("*"))


@pytest.mark.parametrize("command", ["scan", "verify"])
def test_reading_command_refuses_a_location_that_contradicts_the_broker(command, log_dir, properties, wrong):
    with started_broker(log_dir, properties):
        refused(tiersnap(command, log_dir, "--remote", wrong), f"{properties} of the running broker")
    refused(tiersnap(command, "--server-properties", properties, "--remote", wrong), f"{properties} names")


def test_scan_finds_what_is_tiered_by_the_broker_of_this_host(broker, log_dir, remote):
    assert tiersnap("tier", "--apply").exit_code == 0
    ran = tiersnap("scan")
    assert_said(ran, 0, f"log directories: {log_dir}: process {broker}", f"remote location: {remote} (local-tiered-")
    assert ran.row(partition="orders-0")["verdicts"] == {"UPLOADED": 3, "ACTIVE_SEGMENT": 1}


def test_verify_judges_the_files_of_the_broker_of_this_host_or_what_it_tiered(broker, log_dir, remote, tmp_path):
    assert tiersnap("tier", "--apply").exit_code == 0
    write_small_log(tmp_path / "other", "payments")
    layout = ("--layout", "local-tiered-storage")
    assert tiersnap("tier", tmp_path / "other", "--remote", remote, *layout, "--apply").exit_code == 0
    files = tiersnap("verify")
    assert_said(files, 0, f"log directories: {log_dir}", f"remote location: {remote}", "3 of 3 snapshots agree")
    segments = tiersnap("verify", "--depth", "full")
    assert_said(segments, 0, "3 of 3 remote segments are sound at depth full")
    assert {each["topic"] for each in segments.rows} == {"orders"}
    alone = tiersnap("verify", "--remote", remote)
    assert_said(alone, 0, "6 of 6 remote segments are sound at depth snapshots")


def test_reading_command_goes_on_without_a_location_that_does_not_answer_and_says_so(log_dir, properties, remote):
    remote.rmdir()
    with started_broker(log_dir, properties):
        for command in ("scan", "verify"):
            ran = tiersnap(command, log_dir)
            assert_said(ran, 2, f"{remote}: no such directory")
            assert ran.rows, "the files were read"


@pytest.mark.parametrize("command", OF_A_CLUSTER)
def test_command_that_needs_a_cluster_names_the_option_that_tells_it(command, broker):
    ran = tiersnap(command)
    assert_said(
        ran,
        2,
        "cluster unknown",
        "no listener that works without TLS and SASL",
        "--bootstrap-server",
        "--command-config",
    )


@pytest.mark.parametrize("command", OF_A_CLUSTER)
def test_command_that_needs_a_location_names_the_option_that_tells_it(command, log_dir):
    ran = tiersnap(command, log_dir, "--bootstrap-server", "127.0.0.1:9")
    assert_said(ran, 2, "remote location unknown: no broker runs with these log directories", "--remote s3://")


@pytest.mark.parametrize("command", ["tier", "unblock", "scan"])
def test_command_that_needs_a_log_directory_names_server_properties(command, remote):
    ran = tiersnap(command, "--remote", remote, "--bootstrap-server", "127.0.0.1:9")
    assert_said(ran, 2, "log directories unknown: no broker runs on this host", "--server-properties FILE")
