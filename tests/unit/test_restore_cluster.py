"""Which cluster segments come from: recorded by a run before the first of them, read by a restore."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.restoring import EMPTY
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import put_cluster_id, read_cluster_id
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.stored_snapshots import StoredSnapshots
from tiersnap.snapshot.errors import CorruptCheckpointError, CorruptDataError, ObjectExistsError
from tiersnap.snapshot.formats.meta_properties import MetaProperties, parse
from tiersnap.snapshot.replay.snapshot_sink import SnapshotObject

pytestmark = pytest.mark.unit

LOGS = Path(__file__).parents[1] / "data/kafka-4.1.1/logs"
AT = TopicIdPartition("t", "lZ6vvmajTWKDBUTV6SQAtQ", 3)
CLUSTER = "EArE95XTQEqfBLWnpGnLIQ"


def test_a_cluster_is_recorded_once_and_never_contradicted(tmp_path):
    store = DirectoryStore(tmp_path)
    assert read_cluster_id(store, AT) is None
    put_cluster_id(store, AT, CLUSTER)
    put_cluster_id(store, AT, CLUSTER)
    assert read_cluster_id(store, AT) == CLUSTER
    path = tmp_path / "snapshots/t-lZ6vvmajTWKDBUTV6SQAtQ/3/cluster.json"
    assert path.read_text() == f'{{"version":1,"clusterId":"{CLUSTER}"}}'
    with pytest.raises(ObjectExistsError, match="another cluster"):
        put_cluster_id(store, AT, "other")


def test_put_cluster_id_calls_a_damaged_record_damaged_and_not_another_cluster(tmp_path):
    store = DirectoryStore(tmp_path)
    store.put_if_absent(keys.cluster(AT), b"{")
    with pytest.raises(CorruptDataError, match=r"cluster\.json: not the name of a cluster") as raised:
        put_cluster_id(store, AT, CLUSTER)
    assert "move the object away" in raised.value.hint
    store.replace(keys.cluster(AT), f'{{"clusterId": "{CLUSTER}", "version": 1}}'.encode())
    put_cluster_id(store, AT, CLUSTER)


def test_a_snapshot_object_has_it_beside_it_and_goes_not_among_those_of_another_cluster(tmp_path):
    """It may be all that is there: snapshots are written before any segment is tiered."""
    store = DirectoryStore(tmp_path)
    ours = SnapshotObject(AT.topic, AT.topic_id, AT.partition, CLUSTER, 7, EMPTY, "COMPUTED", 0, 0)
    StoredSnapshots(store, "run-1").put(ours)
    assert read_cluster_id(store, AT) == CLUSTER
    before = [info.key for info in store.list()]
    with pytest.raises(ObjectExistsError, match="another cluster"):
        StoredSnapshots(store, "run-2").put(replace(ours, cluster_id="AnotherClusterAnother_", end_offset=9))
    assert [info.key for info in store.list()] == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"#\n#Sat\nnode.id=1\ndirectory.id=d\nversion=1\ncluster.id={CLUSTER}\n",
            MetaProperties(CLUSTER, 1, "d", True),
        ),
        (f"broker.id=-1\nversion=0\ncluster.id={CLUSTER}", MetaProperties(CLUSTER, -1, None)),
        (f"  cluster.id = {CLUSTER}  \n!x=y\nnonsense\n", MetaProperties(CLUSTER, None, None)),
    ],
)
def test_meta_properties_are_read(text, expected):
    assert parse(text, name="m") == expected


@pytest.mark.parametrize("text", ["", "version=1\nnode.id=1", "cluster.id=\n", "cluster.id=x\nnode.id=one"])
def test_what_names_no_cluster_is_corrupt(text):
    with pytest.raises(CorruptCheckpointError, match="some/file"):
        parse(text, name="some/file")


def tier(source: Path, remote: Path, *words: str):
    return tiersnap("tier", source, "--remote", remote, "--topic", "tv2", "--expiration", "none", *words)


def files(remote: Path) -> list[str]:
    return sorted(path.name for path in remote.rglob("*") if path.is_file())


def test_tiering_records_it_and_goes_not_over_another_clusters_segments(tmp_path):
    logs, remote = shutil.copytree(LOGS, tmp_path / "logs"), tmp_path / "remote"
    assert tier(logs, remote).exit_code == 0
    assert not remote.exists(), "a plan"
    assert tier(logs, remote, "--apply").exit_code == 0
    (recorded,) = remote.rglob("cluster.json")
    assert CLUSTER in recorded.read_text()
    assert str(recorded.relative_to(remote)).startswith("snapshots/tv2-KzhyM4gAQz-9kd6uuQ6OKg/0/")

    meta = logs / "meta.properties"
    meta.write_text(meta.read_text().replace(CLUSTER, "AnotherClusterAnother_"))
    shutil.rmtree(remote / "tv2-KzhyM4gAQz-9kd6uuQ6OKg")
    before = files(remote)
    refused = tier(logs, remote, "--apply")
    assert refused.exit_code == 4
    assert "another cluster" in refused.err
    assert files(remote) == before

    meta.unlink()
    assert tier(logs, tmp_path / "unknown", "--apply").exit_code == 0
    assert not list((tmp_path / "unknown").rglob("cluster.json"))
