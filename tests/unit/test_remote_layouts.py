import json
import os
import tracemalloc

import pytest

from tests.s3.segments import TOPIC_ID, attempt, make_segment
from tiersnap.remote_storage.errors import EncryptedSegmentError, ObjectNotFoundError
from tiersnap.remote_storage.layouts import rsm_manifest
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import IndexType, StoredState
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.remote_storage.remote_log.segment_bytes import fetch_segment
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.small_object import INDEXES_BYTES
from tiersnap.remote_storage.upload.send_objects import (
    copy_segment,
    delete_copy,
)
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError
from tiersnap.snapshot.repair.index_check import CheckedIndexes

pytestmark = pytest.mark.unit

LAYOUTS = [AivenLayout(), LocalTieredStorageLayout()]
SEGMENT_ID = "adh9f8BMS4anaUnD8KWfWg"

# Written out by hand after io.aiven.kafka.tieredstorage.manifest.SegmentManifestV1 and its serde tests. That class
# (plugin of May 2026, Kafka 4.1.1) reads it, and writes the same text but for a `"txnIdxEmpty":false` at the end of
# remoteLogSegmentMetadata, which newer Kafka classes add by themselves and no reader looks at.
GOLDEN = (
    '{"version":"1",'
    '"chunkIndex":{"type":"fixed","originalChunkSize":4194304,"originalFileSize":10000000,'
    '"transformedChunkSize":4194304,"finalTransformedChunkSize":1611392},'
    '"segmentIndexes":{"offset":{"position":0,"size":24},"timestamp":{"position":24,"size":12},'
    '"producerSnapshot":{"position":36,"size":102},"leaderEpoch":{"position":138,"size":21},"transaction":null},'
    '"compression":false,'
    '"remoteLogSegmentMetadata":{"remoteLogSegmentId":{"topicIdPartition":{"topicId":"lZ6vvmajTWKDBUTV6SQAtQ",'
    '"topicPartition":{"topic":"pay.ments-eu","partition":7}},"id":"adh9f8BMS4anaUnD8KWfWg"},'
    '"startOffset":1000,"endOffset":1999,"maxTimestampMs":1700000000000,"brokerId":2,'
    '"eventTimestampMs":1700000000500,"segmentLeaderEpochs":{"3":1000,"4":1500}}}'
)


def metadata(size: int = 10_000_000) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId("pay.ments-eu", TOPIC_ID, 7, SEGMENT_ID),
        start_offset=1000,
        end_offset=1999,
        broker_id=2,
        max_timestamp=1_700_000_000_000,
        event_timestamp=1_700_000_000_500,
        segment_leader_epochs=((3, 1000), (4, 1500)),
        segment_size=size,
        state=SegmentState.COPY_SEGMENT_STARTED,
    )


SIZES = {IndexType.OFFSET: 24, IndexType.TIMESTAMP: 12, IndexType.PRODUCER_SNAPSHOT: 102, IndexType.LEADER_EPOCH: 21}


def test_the_rsm_manifest_is_the_golden_one():
    assert rsm_manifest.encode(metadata(), SIZES, chunk_size=4 << 20).decode() == GOLDEN


def test_a_transaction_index_follows_the_leader_epochs():
    manifest = json.loads(rsm_manifest.encode(metadata(), {**SIZES, IndexType.TRANSACTION: 34}, chunk_size=100))
    assert manifest["segmentIndexes"]["transaction"] == {"position": 159, "size": 34}


@pytest.mark.parametrize(
    ("file_size", "chunk_size", "last"), [(1, 100, 1), (100, 100, 100), (101, 100, 1), (250, 100, 50), (7, 1, 1)]
)
def test_the_last_chunk_is_never_empty(file_size, chunk_size, last):
    chunks = json.loads(rsm_manifest.encode(metadata(file_size), SIZES, chunk_size=chunk_size))["chunkIndex"]
    assert chunks["finalTransformedChunkSize"] == last
    count = -(-file_size // chunk_size)
    assert (count - 1) * chunks["transformedChunkSize"] + last == chunks["originalFileSize"] == file_size


@pytest.mark.parametrize(("file_size", "chunk_size"), [(0, 100), (1 << 31, 100), (100, 0), (100, 1 << 30)])
def test_what_the_plugin_cannot_read_is_not_written(file_size, chunk_size):
    with pytest.raises(RemoteStorageError):
        rsm_manifest.encode(metadata(file_size), SIZES, chunk_size=chunk_size)


def test_a_manifest_is_read_back():
    found = rsm_manifest.decode(GOLDEN.encode(), name="m")
    assert found.file_size == 10_000_000
    assert found.indexes_size == 159
    assert found.indexes[IndexType.LEADER_EPOCH] == (138, 21)
    assert found.indexes[IndexType.TRANSACTION] is None


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"compression":false,"segmentIndexes":{}}', b"\xff", GOLDEN[:50]]
)
def test_a_damaged_manifest_is_corrupt_data(data):
    with pytest.raises(CorruptDataError, match="some/key"):
        rsm_manifest.decode(data.encode() if isinstance(data, str) else data, name="some/key")


@pytest.mark.parametrize("value", ["1", 1.0, True, None, 1 << 63, -1, [], {}])
@pytest.mark.parametrize("name", ["startOffset", "endOffset"])
def test_a_number_of_a_manifest_is_a_number(name, value):
    manifest = json.loads(GOLDEN)
    manifest["remoteLogSegmentMetadata"][name] = value
    with pytest.raises(CorruptDataError, match=f"some/key: not a manifest of the plugin .rsm-manifest.: .*{name}"):
        rsm_manifest.decode(json.dumps(manifest).encode(), name="some/key")


def test_segments_that_only_the_plugin_can_read_are_said_to_be_so(tmp_path):
    store, layout = DirectoryStore(tmp_path), AivenLayout()
    store.replace(layout.object_keys(metadata())[2], GOLDEN.replace("{", '{"encryption":{},', 1).encode())
    with pytest.raises(EncryptedSegmentError, match="encrypted by the plugin") as raised:
        layout.fetch_index(store, metadata(), IndexType.OFFSET)
    assert "broker" in raised.value.hint


@pytest.mark.parametrize("layout", LAYOUTS, ids=["aiven", "local"])
@pytest.mark.parametrize("with_transactions", [False, True])
def test_what_was_copied_is_read_back_part_by_part(tmp_path, layout, with_transactions):
    store = DirectoryStore(tmp_path / "remote")
    segment = make_segment(tmp_path / "log", with_transactions=with_transactions)
    copy = attempt(segment)
    result = copy_segment(RemoteLocation(store, layout), segment, copy)
    assert layout.inspect(store, copy) is StoredState.COMPLETE
    there = {found.key: found.size for found in store.list()}
    assert (sorted(there), sum(there.values())) == (sorted(result.made), result.bytes)
    log = segment.log.read()
    assert b"".join(fetch_segment(store, layout, copy)) == log
    expected = {
        IndexType.OFFSET: segment.offset_index.read(),
        IndexType.TIMESTAMP: segment.time_index.read(),
        IndexType.PRODUCER_SNAPSHOT: segment.producer_snapshot.data,
        IndexType.LEADER_EPOCH: b"0\n3\n0 0\n3 500\n4 1500\n",
        IndexType.TRANSACTION: segment.transaction_index.read() if with_transactions else None,
    }
    assert {index: layout.fetch_index(store, copy, index) for index in IndexType} == expected
    assert delete_copy(RemoteLocation(store, layout), copy) == ()
    assert list(store.list()) == []
    with pytest.raises(ObjectNotFoundError):
        layout.fetch_index(store, copy, IndexType.TRANSACTION)


def test_aiven_objects_are_log_indexes_and_manifest_last(tmp_path):
    segment = make_segment(tmp_path, with_transactions=True)
    copy = attempt(segment, segment_id=SEGMENT_ID)
    found = segment.found_indexes()
    checked = CheckedIndexes(found.offset_index, found.time_index, found.transaction_index, {})
    layout = AivenLayout()
    indexes, manifest = layout.plan(segment.index_contents(checked), copy)
    stem = f"pay.ments-eu-{TOPIC_ID}/7/00000000000000001000-{SEGMENT_ID}"
    assert [layout.log_key(copy), indexes.key, manifest.key] == [
        f"{stem}.log",
        f"{stem}.indexes",
        f"{stem}.rsm-manifest",
    ]
    assert indexes.content == b"".join(
        [
            found.offset_index,
            found.time_index,
            segment.producer_snapshot.data,
            b"0\n3\n0 0\n3 500\n4 1500\n",
            found.transaction_index,
        ]
    )
    assert b"\n" not in manifest.content
    assert set(json.loads(manifest.content)) == {
        "version", "chunkIndex", "segmentIndexes", "compression", "remoteLogSegmentMetadata",
    }  # fmt: skip


def test_local_tiered_storage_files_are_those_of_kafka(tmp_path):
    store = DirectoryStore(tmp_path / "remote")
    segment = make_segment(tmp_path / "log")
    copy_segment(RemoteLocation(store, LocalTieredStorageLayout()), segment, attempt(segment, segment_id=SEGMENT_ID))
    folder = tmp_path / "remote" / "kafka-tiered-storage" / f"pay.ments-eu-7-{TOPIC_ID}"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"00000000000000001000-{SEGMENT_ID}{suffix}"
        for suffix in (".index", ".leader_epoch_checkpoint", ".log", ".snapshot", ".timeindex")
    ]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["aiven", "local"])
def test_a_copy_that_lacks_anything_is_partial(tmp_path, layout):
    segment = make_segment(tmp_path / "log", with_transactions=True)
    copy = attempt(segment)
    store = DirectoryStore(tmp_path / "remote")
    assert layout.inspect(store, copy) is StoredState.ABSENT
    copy_segment(RemoteLocation(store, layout), segment, copy)
    objects = {found.key: store.get(found.key) for found in store.list()}
    optional = [key for key in objects if key.endswith(".txnindex")]
    for key in objects.keys() - set(optional):
        store.delete([key])
        assert layout.inspect(store, copy) is StoredState.PARTIAL
        store.replace(key, objects[key])
    store.replace(layout.log_key(copy), b"short")
    assert layout.inspect(store, copy) is StoredState.PARTIAL
    with pytest.raises(CorruptDataError, match="ends at byte 5"):
        list(fetch_segment(store, layout, copy))


def test_an_aiven_copy_with_a_wrong_manifest_or_indexes_is_partial(tmp_path):
    layout, segment, store = AivenLayout(), make_segment(tmp_path / "log"), DirectoryStore(tmp_path / "remote")
    copy = attempt(segment)
    copy_segment(RemoteLocation(store, layout), segment, copy)
    _, indexes_key, manifest_key = layout.object_keys(copy)
    indexes, manifest = store.get(indexes_key), store.get(manifest_key)
    for key, content in ((manifest_key, b"{}"), (manifest_key, GOLDEN.encode()), (indexes_key, indexes[:-1])):
        store.replace(key, content)
        assert layout.inspect(store, copy) is StoredState.PARTIAL
        if key == indexes_key:
            with pytest.raises(CorruptDataError, match="LEADER_EPOCH"):
                layout.fetch_index(store, copy, IndexType.LEADER_EPOCH)
        store.replace(manifest_key, manifest)
        store.replace(indexes_key, indexes)
    assert layout.inspect(store, copy) is StoredState.COMPLETE


@pytest.mark.parametrize("layout", [AivenLayout(), LocalTieredStorageLayout()], ids=lambda layout: layout.name)
def test_an_index_larger_than_any_is_not_read(tmp_path, layout):
    store = DirectoryStore(tmp_path / "store")
    segment = make_segment(tmp_path)
    copy = attempt(segment)
    copy_segment(RemoteLocation(store, layout), segment, copy)
    found = next(iter(store.list())).key.rpartition("/")[0]
    folder = tmp_path / "store" / found
    if layout.name == "aiven":
        (manifest,) = folder.glob("*.rsm-manifest")
        said = json.loads(manifest.read_text())
        said["segmentIndexes"]["producerSnapshot"]["size"] = 2**31 - 1
        manifest.write_text(json.dumps(said))
        (large,) = folder.glob("*.indexes")
    else:
        (large,) = folder.glob("*.snapshot")
    os.truncate(large, INDEXES_BYTES + 1)
    tracemalloc.start()
    with pytest.raises(CorruptDataError):
        layout.fetch_index(store, copy, IndexType.PRODUCER_SNAPSHOT)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
