"""A bundled partition in a directory tier, a new disk, and `tiersnap restore` between them."""

from __future__ import annotations

from pathlib import Path

from tests.reference.command import Ran, tiersnap
from tests.reference.tiered import LOCAL, tier
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import put_cluster_id
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition

DATA = Path(__file__).parents[1] / "data" / "kafka-4.1.1"
CLUSTER, OTHER_CLUSTER = "EArE95XTQEqfBLWnpGnLIQ", "AnotherClusterAnother_"
TOPIC, END = "tv2", 1379  # two closed segments, 0 and 695, of commits and aborts
ORIGINAL = DATA / "logs" / f"{TOPIC}-0"
EMPTY = bytes.fromhex("000148674bc700000000")


def new_disk(path: Path, cluster: str = CLUSTER) -> Path:
    path.mkdir()
    (path / "meta.properties").write_text(f"#\nversion=1\ncluster.id={cluster}\nnode.id=1\ndirectory.id=x\n")
    return path


def tiered_store(path: Path) -> DirectoryStore:
    """The bundled partition, and the cluster it comes from."""
    store = DirectoryStore(path)
    tier(ORIGINAL, store)
    at = read_partition(LOCAL, str(ORIGINAL), Checkpoints())
    put_cluster_id(store, TopicIdPartition(at.topic, at.topic_id, at.partition), CLUSTER)
    return store


def restore(store: DirectoryStore, disk: Path, *words: str | Path, topic: str = TOPIC) -> Ran:
    return tiersnap("restore", "--remote", store.root, "--to", disk, "--topic", topic, *words)


def expected_snapshot(offset: int) -> bytes:
    """As Kafka's own classes fold it."""
    return (DATA / "expected" / f"{TOPIC}-0" / f"{offset:020d}.snapshot").read_bytes()


def only_manifest(store: DirectoryStore, base: int) -> Path:
    (path,) = store.root.rglob(f"{base:020d}-*.rsm-manifest")
    return path
