"""`restore` and `install` from a real S3 server, over damage and refusals on the way, and killed between."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.harness.waiting import wait_until
from tests.reference.command import tiersnap
from tests.reference.kill_steps import content
from tests.reference.stored_snapshots import put_snapshot
from tests.reference.tiered import tier
from tests.s3.conftest import settings_for
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import put_cluster_id
from tiersnap.remote_storage.stores.s3_settings import Checksums
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.snapshot_source import TrustedSnapshot
from tiersnap.remote_storage.upload.stored_snapshots import put_manifest
from tiersnap.snapshot.gate.trusted import Provenance

pytestmark = pytest.mark.s3

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data"
TV2 = DATA / "kafka-4.1.1/logs/tv2-0"
AT = TopicIdPartition("tv2", "KzhyM4gAQz-9kd6uuQ6OKg", 0)
CLUSTER = "EArE95XTQEqfBLWnpGnLIQ"


@pytest.fixture
def tiered(endpoint, bucket) -> str:
    """URI of the bucket with a tiered partition."""
    store = S3Store(bucket, "some/prefix/", settings_for(endpoint))
    tier(TV2, store)
    put_cluster_id(store, AT, CLUSTER)
    return f"s3://{bucket}/some/prefix"


@pytest.fixture
def disk(tmp_path) -> Path:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\n")
    return tmp_path / "disk"


def words(uri: str, disk: Path, endpoint: str) -> tuple[str | Path, ...]:
    place = ("--endpoint-url", endpoint, "--path-style")
    return ("restore", "--remote", uri, "--to", disk, "--topic", "tv2", *place, "--apply")


def is_log(method: str, path: str) -> bool:
    return method == "GET" and path.partition("?")[0].endswith(".log")


def assert_restored(disk: Path) -> None:
    folder = disk / "tv2-0"
    for path in TV2.iterdir():
        if path.name[:20] <= f"{695:020d}" and path.suffix != ".snapshot":
            assert (folder / path.name).read_bytes() == path.read_bytes(), path.name
    assert not list(disk.glob("tiersnap-restore.*"))


@pytest.mark.parametrize("checksums", ["aws", "compat"])
def test_a_partition_is_restored_from_a_bucket(endpoint, tiered, disk, checksums):
    ran = tiersnap(*words(tiered, disk, endpoint), "--checksums", checksums)
    assert ran.exit_code == 0, ran.err
    assert ran.rows[0]["doubts"] == []
    assert_restored(disk)
    before = content(disk)
    again = tiersnap(*words(tiered, disk, endpoint), "--checksums", checksums)
    assert (again.exit_code, again.rows[0]["action"]) == (0, "COMPARE")
    assert content(disk) == before


def test_what_comes_with_a_checksum_is_not_read_again_to_be_compared(proxy, tiered, disk):
    tiersnap(*words(tiered, disk, proxy.url))
    proxy.requests.clear()
    assert tiersnap(*words(tiered, disk, proxy.url)).exit_code == 0
    assert not any(is_log(*request.split(" ")) for request in proxy.requests)


def test_a_damaged_download_is_found_out_and_fetched_anew(proxy, tiered, disk):
    """The first byte of the first batch's offset, which no batch CRC covers."""
    rule = proxy.when(is_log, "body", times=1)
    failed = tiersnap(*words(tiered, disk, proxy.url))
    assert rule.hits
    assert failed.exit_code == 5
    assert "was stored with it" in failed.err
    assert not (disk / "tv2-0").exists()
    assert tiersnap(*words(tiered, disk, proxy.url)).exit_code == 0
    assert_restored(disk)


@pytest.mark.parametrize("what", ["list", ".indexes", ".log"])
def test_a_server_that_is_away_is_transient_and_the_next_run_goes_on(proxy, tiered, disk, what):
    def hit(method: str, path: str) -> bool:
        return "list-type" in path if what == "list" else path.partition("?")[0].endswith(what)

    proxy.when(hit, "answer", status=503)
    failed = tiersnap(*words(tiered, disk, proxy.url))
    assert failed.exit_code == 3, failed.err
    assert not (disk / "tv2-0").exists()
    proxy.rules.clear()
    assert tiersnap(*words(tiered, disk, proxy.url)).exit_code == 0
    assert_restored(disk)


@pytest.mark.parametrize("where", [f"{0:020d}", f"{695:020d}"])
def test_a_process_killed_while_it_fetches_goes_on_where_it_was(proxy, tiered, disk, where):
    stalled = proxy.when(lambda method, path: is_log(method, path) and where in path, "stall", seconds=20)
    command = [sys.executable, "-m", "tests.reference.tiersnap", *map(str, words(tiered, disk, proxy.url))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        other = f"{695:020d}.log" if where == f"{0:020d}" else f"{0:020d}.log"
        try:
            arrived = lambda: stalled.hits and list(disk.glob(f"tiersnap-restore.*/{other}"))  # noqa: E731
            wait_until(arrived, "one segment has arrived, and the other has not", every=0.05)
        finally:
            process.kill()
    assert not (disk / "tv2-0").exists()
    proxy.rules.clear()
    proxy.requests.clear()
    done = tiersnap(*words(tiered, disk, proxy.url))
    assert done.exit_code == 0
    assert done.rows[0]["action"] == "RESUME"
    fetched = {request.rpartition("/")[2] for request in proxy.requests if is_log(*request.split(" "))}
    assert all(name.startswith(where) for name in fetched), "what was there is not fetched again"
    assert_restored(disk)


def test_an_object_that_lost_its_tail_is_no_copy(endpoint, tiered, disk, bucket):
    store = S3Store(bucket, "some/prefix/", settings_for(endpoint))
    (log,) = (found.key for found in store.list() if found.key.endswith(".log") and f"{695:020d}" in found.key)
    store.replace(log, store.get(log)[:-100])
    refused = tiersnap(*words(tiered, disk, endpoint))
    assert refused.exit_code == 4
    assert "--until 695" in refused.err
    ran = tiersnap(*words(tiered, disk, endpoint), "--until", "695")
    assert ran.rows[0]["log_end_offset"] == 695
    assert "the manifest of the segment says" in ran.rows[0]["left_out"][0]["reason"]


def test_stored_snapshots_are_installed_from_a_bucket_and_damage_on_the_way_is_found(proxy, bucket, tmp_path):
    store = S3Store(bucket, "p/", settings_for(proxy.url, checksums=Checksums.AWS))
    at, records = TopicIdPartition("ledger", None, 0), []
    for path in sorted((DATA / "ledger-2.7.2/expected/ledger-0").iterdir())[:4]:
        snapshot = TrustedSnapshot(int(path.stem), path.read_bytes(), Provenance.COMPUTED)
        records.append(put_snapshot(store, at, snapshot, run_id="r", fold_start_offset=0)[0])
    put_manifest(store, at, "r", records)
    folder = shutil.copytree(DATA / "ledger-2.7.2/logs/ledger-0", tmp_path / "disk/ledger-0")
    shutil.copy(DATA / "ledger-2.7.2/logs/replication-offset-checkpoint", folder.parent)
    command = ("install", "--remote", f"s3://{bucket}/p", "--to", folder.parent, "--apply")
    place = ("--endpoint-url", proxy.url, "--path-style")
    proxy.when(lambda method, path: method == "GET" and f"{368:020d}" in path, "body")

    failed = tiersnap(*command, *place)

    assert failed.exit_code == 5
    assert failed.row(offset=368)["action"] == "CORRUPT"
    assert not (folder / f"{368:020d}.snapshot").exists()
    assert (folder / f"{183:020d}.snapshot").exists()
    proxy.rules.clear()
    done = tiersnap(*command, *place)
    assert (done.exit_code, [row["offset"] for row in done.rows]) == (0, [368])
