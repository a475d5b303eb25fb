"""The situation of a host: facts of the command line, of the running broker, and of a server.properties."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.reference.broker_process import started_broker
from tests.reference.command import assert_said, tiersnap
from tests.reference.model_cluster import CLUSTER_ID, ModelCluster
from tests.reference.small_log import write_small_log
from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.jobs.situation.situation import COMMAND_LINE, NO_LOCATION, Given, Situation, gather
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.errors import WrongClusterError, WrongPlaceError
from tiersnap.snapshot.errors import ExitCode, UsageError

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock"),
]
S3 = (
    "remote.log.storage.manager.class.name=io.aiven.kafka.tieredstorage.RemoteStorageManager\n"
    "rsm.config.storage.backend.class=io.aiven.kafka.tieredstorage.storage.s3.S3Storage\n"
    "rsm.config.storage.s3.bucket.name=tiers\nrsm.config.key.prefix=prod/\n"
    "rsm.config.storage.s3.endpoint.url=http://minio:9000\nrsm.config.storage.s3.region=eu-west-1\n"
    "rsm.config.storage.s3.path.style.access.enabled=true\n"
)
LISTENER = "listeners=PLAINTEXT://127.0.0.1:9\n"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_small_log(tmp_path / "data")
    return tmp_path / "data"


def properties(tmp_path: Path, log_dirs: str, more: str = S3 + LISTENER) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"log.dirs={log_dirs}\n{more}")
    return path


def given(
    *log_dirs: Path,
    server_properties: Path | None = None,
    remote: str | None = None,
    layout: str | None = None,
    cluster: Cluster | None = None,
    proc: Path = Path("/nowhere"),
) -> Situation:
    names = tuple(map(str, log_dirs))
    return gather(Given(names, server_properties, remote, layout, NO_LOCATION.stores, cluster, proc))


def only(folder: Path, *processes: int) -> Path:
    """A /proc with these processes alone: other tests start brokers, too."""
    folder.mkdir()
    for each in ("stat", *map(str, processes)):
        (folder / each).symlink_to(Path("/proc") / each)
    return folder


def assert_location_is_that_of_the_broker(view: RemoteView | None) -> None:
    assert view is not None
    assert view.words == [
        *("s3://tiers/prod", "--endpoint-url", "http://minio:9000", "--region", "eu-west-1", "--path-style"),
    ]


def test_running_broker_tells_all_facts(log_dir: Path, tmp_path: Path) -> None:
    with started_broker(log_dir, properties(tmp_path, str(log_dir))) as pid:
        found = given(proc=only(tmp_path / "proc", pid))
    assert found.broker.value is not None
    assert (found.broker.value.pid, found.log_dirs.value) == (pid, (str(log_dir),))
    assert {found.log_dirs.source, found.remote.source, found.cluster.source} == {found.broker.source}
    assert f"process {pid}" in found.broker.source
    assert_location_is_that_of_the_broker(found.remote.value)
    assert found.cluster.value is not None
    assert found.cluster.value.bootstrap_server == "127.0.0.1:9"
    assert len(list(found.lines())) == 3


def test_broker_of_a_named_log_directory_tells_the_other_facts(log_dir: Path, tmp_path: Path) -> None:
    with started_broker(log_dir, properties(tmp_path, str(log_dir))):
        found = given(log_dir)
    assert found.log_dirs.source == COMMAND_LINE
    assert_location_is_that_of_the_broker(found.remote.value)
    assert [line.partition(":")[0] for line in found.lines()] == ["remote location", "cluster"]


def test_location_of_the_command_line_has_the_layout_and_for_the_same_uri_the_server_of_the_broker(
    log_dir: Path, tmp_path: Path
) -> None:
    local = S3.replace("http://minio:9000", "http://localhost:1")
    with started_broker(log_dir, properties(tmp_path, str(log_dir), local + LISTENER)):
        same, other = given(log_dir, remote="s3://tiers/prod/"), given(log_dir, remote="s3://tiers/test")
    assert same.remote.value is not None and other.remote.value is not None
    s3 = same.remote.value.stores.s3
    assert (s3.endpoint_url, s3.region) == ("http://localhost:1", "eu-west-1")
    assert other.remote.value.stores.s3.endpoint_url is None
    assert same.layout == other.layout == "aiven"
    same.refuse_contradiction(same.remote.value.open_store())
    with pytest.raises(WrongPlaceError, match="names s3://tiers/prod/"):
        other.refuse_contradiction(other.remote.value.open_store())


def test_command_line_goes_before_what_the_broker_tells(log_dir: Path, tmp_path: Path) -> None:
    cluster = Cluster("elsewhere:1", {})
    with started_broker(log_dir, properties(tmp_path, str(log_dir))):
        found = given(log_dir, remote="s3://other", layout="local-tiered-storage", cluster=cluster)
    assert found.remote.value is not None
    assert (found.remote.value.remote, found.remote.value.layout) == ("s3://other", "local-tiered-storage")
    assert found.cluster.value is cluster
    assert not list(found.lines())


def test_server_properties_of_a_stopped_broker_tell_all_but_the_cluster(log_dir: Path, tmp_path: Path) -> None:
    found = given(server_properties=properties(tmp_path, f"{log_dir}, {tmp_path}/other"))
    assert found.log_dirs.value == (str(log_dir), f"{tmp_path}/other")
    assert_location_is_that_of_the_broker(found.remote.value)
    assert (found.cluster.value, found.cluster.source) == (None, "the broker does not run")


def test_server_properties_of_a_container_tell_no_log_directory_of_this_host(tmp_path: Path) -> None:
    found = given(server_properties=properties(tmp_path, "/nowhere/a,/nowhere/b"))
    assert_location_is_that_of_the_broker(found.remote.value)
    with pytest.raises(UsageError, match="/nowhere/a, /nowhere/b, but this host has no such directory"):
        found.log_dirs.require("log directories")
    ran = tiersnap("doctor", "--server-properties", tmp_path / "server.properties", "--remote", tmp_path)
    assert_said(ran, 2, "log directories unknown")


def test_listener_with_tls_tells_no_cluster(log_dir: Path, tmp_path: Path) -> None:
    with started_broker(log_dir, properties(tmp_path, str(log_dir), S3 + "listeners=SSL://h:9093\n")):
        found = given(log_dir)
    assert found.cluster.value is None
    with pytest.raises(UsageError, match=r"cluster unknown: .*no listener that works without TLS and SASL") as raised:
        found.cluster.require("cluster")
    assert "--command-config" in raised.value.hint


def test_log_directory_of_another_cluster_is_refused(log_dir: Path) -> None:
    cluster = ModelCluster()
    assert given(log_dir, cluster=cluster).cluster_to_ask() is cluster, "nothing tells its cluster"
    owner = "version=1\ncluster.id={}\nnode.id=1\n"
    (log_dir / "meta.properties").write_text(owner.format(CLUSTER_ID))
    assert given(log_dir, cluster=cluster).cluster_to_ask() is cluster
    (log_dir / "meta.properties").write_text(owner.format("Wg9Lw9aXQOe3Wc5x0bqk3w"))
    with pytest.raises(WrongClusterError, match=f"{log_dir} belongs to the cluster Wg9Lw9aXQOe3Wc5x0bqk3w") as raised:
        given(log_dir, cluster=cluster).cluster_to_ask()
    assert raised.value.exit_code is ExitCode.GATE_REFUSED


def test_prefix_that_is_no_folder_tells_no_location(log_dir: Path, tmp_path: Path) -> None:
    found = given(server_properties=properties(tmp_path, str(log_dir), S3 + "rsm.config.key.prefix=prod\n"))
    assert (found.remote.value, "key.prefix" in found.remote.source) == (None, True)


def test_without_a_broker_nothing_is_known(log_dir: Path, tmp_path: Path) -> None:
    nothing = given(proc=only(tmp_path / "proc"))
    assert nothing.is_empty
    with pytest.raises(UsageError, match="log directories unknown: no broker runs on this host"):
        nothing.log_dirs.require("log directories")
    found = given(log_dir)
    assert (found.broker.value, found.remote.value, found.cluster.value) == (None, None, None)
    assert "no broker runs with these log directories" in found.remote.source
    assert not list(found.lines())


def test_several_brokers_are_refused_with_the_log_directories_of_each(log_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "data"
    write_small_log(other)
    first, second = properties(tmp_path, str(log_dir)), properties(tmp_path / "b", str(other))
    with (
        started_broker(log_dir, first) as one,
        started_broker(other, second) as two,
        pytest.raises(UsageError, match="2 brokers run on this host") as raised,
    ):
        here = only(tmp_path / "proc", one, two)
        beside = given(remote=str(tmp_path), proc=here)
        given(proc=here)
    assert str(log_dir) in raised.value.hint and str(other) in raised.value.hint
    assert (beside.broker.value, beside.broker.source) == (None, "2 brokers run on this host"), "a store alone is asked"


def test_doctor_asks_the_location_and_the_listener_of_the_running_broker(log_dir: Path, tmp_path: Path) -> None:
    remote = tmp_path / "tier"
    remote.mkdir()
    local = f"remote.log.storage.manager.class.name={LOCAL_CLASS}\nrsm.config.dir={remote}\n"
    with started_broker(log_dir, properties(tmp_path, str(log_dir), local + LISTENER)):
        ran = tiersnap("doctor", log_dir, "--output", "table")
    assert_said(ran, 3, "127.0.0.1:9")
    assert f"remote location: {remote} (local-tiered-storage): process" in " ".join(ran.out.split())
    assert not list(remote.rglob("*")), "nothing is written to a location that nobody named"


def test_doctor_takes_a_server_properties_instead_of_log_directories(log_dir: Path, tmp_path: Path) -> None:
    ran = tiersnap("doctor", "--server-properties", properties(tmp_path, str(log_dir), ""), "--output", "table")
    assert_said(ran, 0)
    assert f"log directories: {log_dir}: --server-properties" in " ".join(ran.out.split())
    refused = tiersnap("doctor", "--server-properties", tmp_path / "absent")
    assert_said(refused, 2, "absent: No such file or directory")


LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
