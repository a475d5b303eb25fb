"""Which cluster segments come from: recorded by a run before the first of them, read by a restore."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tiersnap.remote_storage.cluster_record import put_cluster_id, read_cluster_id
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import CorruptCheckpointError, ObjectExistsError
from tiersnap.snapshot.formats.meta_properties import MetaProperties, parse

pytestmark = pytest.mark.unit

LOGS = Path(__file__).parents[1] / "data/kafka-4.1.1/logs"
AT = TopicIdPartition("t", "lZ6vvmajTWKDBUTV6SQAtQ", 3)
CLUSTER = "EArE95XTQEqfBLWnpGnLIQ"


def test_a_cluster_is_recorded_once_and_never_contradicted(tmp_path):
    store = DirectoryStore(tmp_path)
    assert read_cluster_id(store, ObjectKeys(), AT) is None
    put_cluster_id(store, ObjectKeys(), AT, CLUSTER)
    put_cluster_id(store, ObjectKeys(), AT, CLUSTER)
    assert read_cluster_id(store, ObjectKeys(), AT) == CLUSTER
    path = tmp_path / "snapshots/t-lZ6vvmajTWKDBUTV6SQAtQ/3/cluster.json"
    assert path.read_text() == f'{{"version":1,"clusterId":"{CLUSTER}"}}'
    with pytest.raises(ObjectExistsError, match="another cluster"):
        put_cluster_id(store, ObjectKeys(), AT, "other")


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


def run(source: Path, remote: Path, root: Path, *words: str):
    return tiersnap(
        *("run", "--engine", "local", "--source", source, "--remote", remote, "--topic", "tv2"),
        *("--warehouse", root / "warehouse", "--report", root / "report"),
        *("--as-of", "now", "--expiration", "none", *words),
    )


def test_a_run_records_it_with_the_first_segment_and_tiers_nothing_over_another_cluster(tmp_path):
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    assert run(logs, tmp_path / "remote", tmp_path).exit_code == 0
    assert not (tmp_path / "remote").exists(), "a plan"
    assert run(logs, tmp_path / "remote", tmp_path, "--apply").exit_code == 0
    (recorded,) = (tmp_path / "remote").rglob("cluster.json")
    assert CLUSTER in recorded.read_text()
    assert str(recorded.relative_to(tmp_path / "remote")).startswith("snapshots/tv2-KzhyM4gAQz-9kd6uuQ6OKg/0/")

    before = sorted(path.name for path in (tmp_path / "remote").rglob("*") if path.is_file())
    meta = logs / "meta.properties"
    meta.write_text(meta.read_text().replace(CLUSTER, "AnotherClusterAnother_"))
    (tmp_path / "second").mkdir()
    refused = run(logs, tmp_path / "remote", tmp_path / "second", "--apply")
    assert refused.exit_code == 4
    assert "another cluster" in refused.err
    assert sorted(path.name for path in (tmp_path / "remote").rglob("*") if path.is_file()) == before

    meta.unlink()
    (tmp_path / "third").mkdir()
    assert run(logs, tmp_path / "unknown", tmp_path / "third", "--apply").exit_code == 0
    assert not list((tmp_path / "unknown").rglob("cluster.json"))
