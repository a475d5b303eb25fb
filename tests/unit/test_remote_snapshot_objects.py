import json

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.stored_snapshots import put_snapshot
from tests.s3.segments import TOPIC_ID, snapshot_bytes, trusted
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.snapshot_objects import (
    SnapshotManifest,
    SnapshotRecord,
    list_manifests,
    list_snapshots,
    manifest_objects,
    read_snapshot,
    readable_manifests,
)
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import PutOutcome
from tiersnap.remote_storage.upload.snapshot_source import TrustedSnapshot
from tiersnap.remote_storage.upload.stored_snapshots import StoredSnapshots, put_manifest
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import CorruptDataError, CorruptSnapshotError, ObjectExistsError
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.replay.snapshot_sink import SnapshotObject

pytestmark = pytest.mark.unit

PARTITION = TopicIdPartition("pay.ments-eu", TOPIC_ID, 7)
OLD = TopicIdPartition("old-topic", None, 0)


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store")


def put(store, snapshot, partition=PARTITION, **options):
    return put_snapshot(store, partition, snapshot, **{"run_id": "r1", "fold_start_offset": 0, **options})


@pytest.mark.parametrize("partition", [PARTITION, OLD])
def test_a_snapshot_is_written_once_and_read_back(store, partition):
    record, outcome = put(store, trusted(1000), partition)
    data = snapshot_bytes(2, 1000)
    assert record == SnapshotRecord(1000, len(data), f"{google_crc32c.value(data):08x}", 2, Provenance.COMPUTED, 0)
    assert outcome is PutOutcome.CREATED
    assert put(store, trusted(1000), partition) == (record, PutOutcome.ALREADY_SAME)
    assert read_snapshot(store, partition, 1000) == data
    assert read_snapshot(store, partition, 999) is None
    put(store, trusted(500), partition)
    assert list(list_snapshots(store, partition)) == [500, 1000]


def test_another_content_is_refused_unless_told(store):
    put(store, trusted(1000))
    with pytest.raises(ObjectExistsError):
        put(store, trusted(1000, producers=3))
    record, _ = put(store, trusted(1000, producers=3), replace=True)
    assert record.entries == 3
    assert read_snapshot(store, PARTITION, 1000) == snapshot_bytes(3, 1000)


def test_a_damaged_snapshot_object_is_corrupt(store):
    store.put_if_absent(keys.snapshot(PARTITION, 1000), b"damaged")
    with pytest.raises(CorruptSnapshotError):
        read_snapshot(store, PARTITION, 1000)


def test_the_manifest_is_one_line_that_says_where_each_snapshot_comes_from(store):
    records = [put(store, trusted(1000))[0], put(store, trusted(500), fold_start_offset=100)[0]]
    broker = TrustedSnapshot(700, snapshot_bytes(1, 700), Provenance.COMPUTED_FROM_LOG_START)
    records.append(put(store, broker, fold_start_offset=None)[0])
    put_manifest(store, PARTITION, "r1", records)
    text = (store.root / f"snapshots/pay.ments-eu-{TOPIC_ID}/7/manifest-r1.json").read_bytes()
    assert b"\n" not in text
    manifest = json.loads(text)
    rows = manifest.pop("snapshots")
    assert manifest == {
        "version": 1,
        "tool": f"tiersnap {__version__}",
        "runId": "r1",
        "topic": "pay.ments-eu",
        "topicId": TOPIC_ID,
        "partition": 7,
    }
    assert [(row["offset"], row["entries"], row["provenance"], row["foldStartOffset"]) for row in rows] == [
        (500, 2, "COMPUTED", 100),
        (700, 1, "COMPUTED_FROM_LOG_START", None),
        (1000, 2, "COMPUTED", 0),
    ]
    assert rows[2]["crc32c"] == f"{google_crc32c.value(snapshot_bytes(2, 1000)):08x}"


def test_a_resumed_run_adds_to_its_manifest_and_contradicts_nothing(store):
    first, second = put(store, trusted(500))[0], put(store, trusted(1000))[0]
    put_manifest(store, PARTITION, "r1", [first])
    put_manifest(store, PARTITION, "r1", [first])
    put_manifest(store, PARTITION, "r1", [second])
    put_manifest(store, PARTITION, "r2", [second])
    found = list(list_manifests(store, PARTITION))
    assert [(manifest.run_id, [row.offset for row in manifest.snapshots]) for manifest in found] == [
        ("r1", [500, 1000]),
        ("r2", [1000]),
    ]
    other = SnapshotRecord(500, first.size, f"{int(first.crc32c, 16) ^ 1:08x}", first.entries, first.provenance, 0)
    with pytest.raises(ObjectExistsError):
        put_manifest(store, PARTITION, "r1", [other])


def test_strangers_in_the_folder_are_left_alone(store):
    put(store, trusted(500))
    folder = keys.partition_snapshots(PARTITION)
    store.put_if_absent(f"{folder}README", b"")
    store.put_if_absent(f"{folder}123.snapshot", b"")
    assert list(list_snapshots(store, PARTITION)) == [500]
    assert list(list_manifests(store, PARTITION)) == []


records = st.builds(
    SnapshotRecord,
    offset=st.integers(0, (1 << 63) - 1),
    size=st.integers(10, 1 << 30),
    crc32c=st.integers(0, (1 << 32) - 1).map("{:08x}".format),
    entries=st.integers(0, 1 << 30),
    provenance=st.sampled_from(Provenance),
    fold_start_offset=st.none() | st.integers(0, (1 << 63) - 1),
)


@given(st.lists(records, max_size=5, unique_by=lambda row: row.offset), st.sampled_from([PARTITION, OLD]))
def test_manifests_are_read_as_they_were_written(rows, partition):
    manifest = SnapshotManifest.of(partition, "r1", tuple(sorted(rows, key=lambda row: row.offset)))
    assert SnapshotManifest.decode(manifest.encode(), name="m") == manifest


GOOD = SnapshotManifest.of(PARTITION, "r1", (SnapshotRecord(1, 10, "00000000", 0, Provenance.COMPUTED, 0),)).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        GOOD.replace(b'"version":1', b'"version":2'),
        GOOD.replace(b"pay.ments-eu", b"pay/ments"),
        GOOD.replace(b"COMPUTED", b"GUESSED"),
        GOOD.replace(b'"offset":1', b'"offset":"1"'),
        GOOD.replace(b'"foldStartOffset":0', b'"foldStartOffset":"0"'),
        GOOD.replace(b"00000000", b"0000000x"),
    ],
)
def test_what_is_no_manifest_is_corrupt_data(data):
    with pytest.raises(CorruptDataError, match="the/key"):
        SnapshotManifest.decode(data, name="the/key")


def test_snapshots_are_kept_and_named_beside_a_damaged_manifest_of_another_run(store, caplog):
    ours = SnapshotObject(PARTITION.topic, PARTITION.topic_id, 7, None, 1000, snapshot_bytes(2, 1000), "COMPUTED", 0, 0)
    first = StoredSnapshots(store, "r1")
    first.commit(PARTITION.topic, PARTITION.topic_id, 7, [first.put(ours)])
    damaged = keys.snapshot_manifest(PARTITION, "r1")
    store.replace(damaged, b"{")
    second = StoredSnapshots(store, "r2")
    second.commit(PARTITION.topic, PARTITION.topic_id, 7, [second.put(ours)])
    ((_, told),) = readable_manifests(store, manifest_objects(store, PARTITION))
    assert (told.run_id, [row.offset for row in told.snapshots]) == ("r2", [1000])
    assert f"passed over: {store.uri}{damaged}" in caplog.text
    with pytest.raises(CorruptDataError, match="r1"):
        list(list_manifests(store, PARTITION))
