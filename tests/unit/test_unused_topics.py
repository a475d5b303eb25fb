"""Topics of a remote location that its cluster does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.model_cluster import CLUSTER_ID, ModelCluster
from tiersnap.jobs.commands.doctor.unused import lines_of_unused, unused_topics
from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.jobs.situation.situation import NO_LOCATION
from tiersnap.remote_storage.cluster.unused_topic import UnusedTopic
from tiersnap.remote_storage.cluster.unused_topics import find_unused
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

HERE, GONE, SEGMENT = "MWJ6FHTfRYy67jzwZdeqSQ", "tqimKeZwStOEOwRzT3L5oQ", "AAAAAAAAAAAAAAAAAAAAAQ"
NAME = f"00000000000000000000-{SEGMENT}.log"


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


@pytest.fixture
def cluster() -> ModelCluster:
    model = ModelCluster()
    model.create(TopicIdPartition("orders", HERE, 0), end=9)
    return model


def put(store: DirectoryStore, topic: str, topic_id: str, *, local: bool) -> None:
    """Put a segment of partitions 0 and 7."""
    for number in (0, 7):
        folder = f"kafka-tiered-storage/{topic}-{number}-{topic_id}" if local else f"{topic}-{topic_id}/{number}"
        store.put_if_absent(f"{folder}/{NAME}", b"log")


def unused(store: DirectoryStore, cluster: ModelCluster) -> list[tuple[str, str]]:
    return [(each.topic, each.topic_id) for each in find_unused(store, cluster)]


@pytest.mark.parametrize("local", [False, True])
def test_a_topic_that_the_cluster_lacks_is_unused_and_one_that_it_has_is_not(store, cluster, local) -> None:
    put(store, "orders", HERE, local=local)
    put(store, "old-7", GONE, local=local)
    folders = [f"kafka-tiered-storage/old-7-{at}-{GONE}/" for at in (0, 7)] if local else [f"old-7-{GONE}/"]
    assert find_unused(store, cluster) == [UnusedTopic("old-7", GONE, [store.uri + each for each in folders])]


@pytest.mark.parametrize("local", [False, True])
def test_a_topic_that_was_made_again_leaves_its_old_id_unused(store, cluster, local) -> None:
    put(store, "orders", HERE, local=local)
    put(store, "orders", GONE, local=local)
    assert unused(store, cluster) == [("orders", GONE)]


@pytest.mark.parametrize("local", [False, True])
def test_a_hidden_topic_is_never_unused(store, cluster, local) -> None:
    put(store, "orders", HERE, local=local)
    cluster.unseen.add("orders")
    assert unused(store, cluster) == []


@pytest.mark.parametrize(
    ("content", "is_named"),
    [
        (f'{{"version":1,"clusterId":"{CLUSTER_ID}"}}', True),
        ('{"version":1,"clusterId":"AAAAAAAAAAAAAAAAAAAAAA"}', False),
        ('{"version":99,"clusterId":"AAAAAAAAAAAAAAAAAAAAAA"}', False),
        ("{", False),
    ],
)
@pytest.mark.parametrize("local", [False, True])
def test_a_topic_of_another_cluster_is_never_unused(store, cluster, content, is_named, local) -> None:
    put(store, "old", GONE, local=local)
    store.put_if_absent(f"snapshots/old-{GONE}/7/cluster.json", content.encode())
    assert bool(unused(store, cluster)) is is_named


def test_folders_that_are_no_topic_or_hold_no_file_are_not_named(store, cluster, tmp_path) -> None:
    (tmp_path / f"empty-{GONE}" / "0").mkdir(parents=True)
    for folder in ("notes", f"claims/old-{GONE}", f"a b-{GONE}/0", f"kafka-tiered-storage/{GONE}"):
        store.put_if_absent(f"{folder}/{NAME}", b"other")
    assert unused(store, cluster) == []


def test_nothing_is_said_without_a_cluster_a_location_or_an_answer(store, cluster, tmp_path) -> None:
    put(store, "old", GONE, local=False)
    view = RemoteView(str(tmp_path), "aiven", NO_LOCATION.stores)
    assert [each.topic for each in unused_topics(cluster, view)] == ["old"]
    assert unused_topics(None, view) == []
    assert unused_topics(cluster, NO_LOCATION) == []
    assert unused_topics(cluster, RemoteView(str(tmp_path / "none"), "aiven", NO_LOCATION.stores)) == []


def test_the_first_topics_are_named_and_the_rest_counted_without_a_command() -> None:
    lines = list(lines_of_unused([UnusedTopic("old", GONE, [f"s3://b/old-{GONE}/"])] * 7))
    assert lines[0] == (
        f"s3://b/old-{GONE}/: no topic of this cluster has the topic id {GONE}. Brokers delete such a "
        "folder only if the topic was deleted just now. Otherwise the owner of the bucket may delete the "
        "folder, if no other cluster uses the folder"
    )
    assert (len(lines), lines[-1]) == (6, "… and 2 topics more: --output json prints all of them")
    assert list(lines_of_unused([])) == []
