"""What is in a store of a partition: two listings, as few manifests as settle it, and nothing taken on trust."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.reference import log_builder as lb
from tests.reference.planned import PARTITION, planned, write_log
from tests.reference.plugin_compressed import packed_sizes
from tests.reference.tiered import age, aiven, rows_of, tier
from tiersnap.remote_storage.layouts import keys, rsm_manifest
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claim, finish
from tiersnap.remote_storage.metadata.segment_metadata import new_segment_id
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.retire.partition_leftovers import Swept, sweep_partition
from tiersnap.remote_storage.stores.small_object import MANIFEST_BYTES
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.log.coverage import CopyFacts, coverage_of

pytestmark = pytest.mark.unit

YEAR_MS = 365 * 86_400_000
LAYOUTS = [AivenLayout(), LocalTieredStorageLayout()]


@pytest.fixture(params=LAYOUTS, ids=["aiven", "local"])
def layout(request):
    return request.param


@pytest.fixture
def folder(tmp_path):
    return write_log(tmp_path / "logs")


class Counted:
    """A store that writes down what it is asked."""

    def __init__(self, store):
        self._store, self.calls = store, []

    def __getattr__(self, name):
        value = getattr(self._store, name)
        if not callable(value):
            return value

        def call(key="", *args, **options):
            self.calls.append((name, key))
            return value(key, *args, **options)

        return call

    def named(self, *names):
        return [key for name, key in self.calls if name in names]


def look_at(store, layout, **options):
    return list_remote_partition(RemoteLocation(store, layout), PARTITION, **options)


def test_complete_copies_are_told_with_all_that_the_gate_needs(store, layout, folder):
    tiered = tier(folder, store, layout=layout)
    found = look_at(store, layout)
    assert found.leftovers == ()
    for copy, metadata in zip(found.segments, tiered, strict=True):
        assert copy.segment_id == metadata.id.segment_id
        assert copy.facts == CopyFacts(metadata.start_offset, metadata.end_offset + 1, ((0, metadata.start_offset),))
        assert copy.metadata.segment_size == metadata.segment_size
    assert coverage_of([copy.facts for copy in found.segments], ((0, 0),), 20).covered == ((0, 15),)


def test_a_copy_that_lacks_any_object_is_none(store, layout, folder):
    (metadata,) = tier(folder, store, layout=layout, bases={5})
    for key in layout.object_keys(metadata):
        if key.endswith(".txnindex"):
            continue
        data = store.get(key)
        store.delete([key])
        found = look_at(store, layout)
        assert found.segments == ()
        (left,) = found.leftovers
        assert left.segment_id == metadata.id.segment_id
        assert left.claim is None
        assert key not in left.keys
        store.put_if_absent(key, data)
    assert len(look_at(store, layout).segments) == 1


def test_a_log_of_another_size_than_its_manifest_says_is_no_copy(store, folder):
    layout = AivenLayout()
    (metadata,) = tier(folder, store, layout=layout, bases={5})
    for key in layout.object_keys(metadata)[:2]:
        data = store.get(key)
        store.replace(key, data + b"x")
        (left,) = look_at(store, layout).leftovers
        assert "the manifest of the segment says" in left.problem
        store.replace(key, data)


def test_two_listings_and_no_manifest_of_what_lies_far_below_the_log(store, tmp_path):
    segments = {base: [lb.data_batch(base, 5, 7, 0, base)] for base in range(0, 205, 5)}
    folder = lb.write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=205)
    layout = AivenLayout()
    tier(folder, store, layout=layout)
    counted = Counted(store)
    found = list_remote_partition(aiven(counted), PARTITION, local_start=180)
    assert len(counted.named("list")) == 2
    read = sorted(int(key.rpartition("/")[2][:20]) for key in counted.named("get"))
    assert len(read) == len(set(read)) <= 16
    assert read[-1] == 195
    assert {copy.start_offset for copy in found.segments} >= {180, 185, 190, 195}
    everything = list_remote_partition(aiven(Counted(store)), PARTITION)
    assert len(everything.segments) == 40


def test_what_a_claim_names_is_ours_and_what_none_names_is_somebodys(store, layout):
    ours, theirs = new_segment_id(), new_segment_id()
    claim(store, ClaimedSegment(PARTITION, 5, 0), Attempt.of(ours, "run"))
    folder = keys.partition_segments(PARTITION, local=isinstance(layout, LocalTieredStorageLayout))
    for segment_id in (ours, theirs):
        store.put_if_absent(f"{folder}{5:020d}-{segment_id}.log", b"half")
    found = look_at(store, layout)
    assert {left.segment_id: left.claim is not None for left in found.leftovers} == {ours: True, theirs: False}
    assert [each.segment_id for each in found.in_flight(60_000)] == [theirs]
    assert found.superseded == ()
    store.delete([f"{folder}{5:020d}-{theirs}.log"])
    assert look_at(store, layout).in_flight(60_000) == ()


class ServerOfAnotherTime:
    """A store whose clock is not that of this host."""

    def __init__(self, store, ahead: int) -> None:
        self._store, self._ahead = store, ahead

    def __getattr__(self, name):
        return getattr(self._store, name)

    def now(self) -> int:
        return self._store.now() + self._ahead

    def list(self, prefix=""):
        return (replace(info, modified=info.modified + self._ahead) for info in self._store.list(prefix))


@pytest.mark.parametrize("ahead", [-YEAR_MS, 0, YEAR_MS])
def test_how_old_a_copy_under_way_is_says_the_clock_of_the_server_and_not_that_of_the_host(store, layout, ahead):
    folder = keys.partition_segments(PARTITION, local=isinstance(layout, LocalTieredStorageLayout))
    key = f"{folder}{5:020d}-{new_segment_id()}.log"
    store.put_if_absent(key, b"half")
    server = ServerOfAnotherTime(store, ahead)
    assert [each.start_offset for each in look_at(server, layout).in_flight(60_000)] == [5]
    age(store, key, 61_000)
    assert look_at(server, layout).in_flight(60_000) == ()


def test_the_clock_of_the_server_is_asked_for_only_where_it_decides_something(store, layout, folder):
    tier(folder, store, layout=layout)
    counted = Counted(store)
    look_at(counted, layout)
    assert counted.named("now") == []


def test_what_another_attempt_finished_without_is_superseded(store, layout, folder):
    first, second = (tier(folder, store, layout=layout, bases={5})[0] for _ in range(2))
    assert look_at(store, layout).superseded == (), "two copies that no claim names: nobody's to delete"
    segment = ClaimedSegment(PARTITION, 5, 0)
    claim(store, segment, Attempt.of(first.id.segment_id, "run"))
    taken = claim(store, segment, Attempt.of(second.id.segment_id, "run"))
    assert look_at(store, layout).superseded == (), "not decided yet"
    finish(store, taken)
    (left,) = look_at(store, layout).superseded
    assert left.segment_id == first.id.segment_id


def test_the_whole_copy_of_an_earlier_attempt_stays_where_that_of_the_one_that_finished_is_damaged(
    store, layout, folder
):
    first, second = (tier(folder, store, layout=layout, bases={5})[0] for _ in range(2))
    segment = ClaimedSegment(PARTITION, 5, 0)
    claim(store, segment, Attempt.of(first.id.segment_id, "run"))
    finish(store, claim(store, segment, Attempt.of(second.id.segment_id, "run")))
    store.delete([layout.object_keys(second)[0]])
    found = look_at(store, layout)
    assert (found.segments, found.superseded) == ((), ()), "the segment is to be tiered again, and nothing goes before"
    assert {each.segment_id for each in found.leftovers} == {first.id.segment_id, second.id.segment_id}
    before = {info.key for info in store.list()}
    for key in before:
        age(store, key, YEAR_MS)
    assert sweep_partition(store, look_at(store, layout)) == Swept()
    assert {info.key for info in store.list()} == before, "it is all that there is of these offsets"
    location = RemoteLocation(store, layout)
    rows = rows_of(tier_partition(location, PARTITION, planned(folder), Tierer("run-2", 0, wait=0)))
    assert [row["error"] for row in rows] == [None] * len(rows)
    (again,) = [copy for copy in look_at(store, layout).segments if copy.start_offset == 5]
    assert again.segment_id not in {first.id.segment_id, second.id.segment_id}


def test_a_claim_that_cannot_be_read_is_told_and_everything_else_goes_on(store, layout, folder):
    tier(folder, store, layout=layout, bases={0})
    base = keys.partition_segments(PARTITION, local=isinstance(layout, LocalTieredStorageLayout))
    store.put_if_absent(f"{base}{5:020d}-{new_segment_id()}.log", b"half")
    store.put_if_absent(keys.claim(PARTITION, 5, 0), b"{")
    found = look_at(store, layout)
    assert len(found.problems) == len(found.segments) == len(found.leftovers) == 1


# --- manifests of strangers


def manifest_of(store, folder) -> tuple[str, dict]:
    layout = AivenLayout()
    (metadata,) = tier(folder, store, layout=layout, bases={5})
    key = layout.object_keys(metadata)[2]
    return key, json.loads(store.get(key))


def changed(manifest: dict, path: str, value: object) -> bytes:
    copy = json.loads(json.dumps(manifest))
    place = copy
    *parents, last = path.split(".")
    for name in parents:
        place = place[name]
    place[last] = value
    return json.dumps(copy).encode()


META = "remoteLogSegmentMetadata"
BAD = [
    ("chunkIndex.originalFileSize", float("inf")),
    ("chunkIndex.originalFileSize", float("nan")),
    ("chunkIndex.originalFileSize", 5 << 30),
    ("chunkIndex.originalFileSize", -1),
    ("chunkIndex.originalFileSize", 0),
    ("chunkIndex.originalFileSize", 1.5),
    ("chunkIndex.originalFileSize", True),
    ("chunkIndex.originalFileSize", "100"),
    ("chunkIndex.originalFileSize", 10**400),
    ("chunkIndex.originalChunkSize", 0),
    ("chunkIndex", []),
    ("chunkIndex", None),
    ("segmentIndexes.offset", None),
    ("segmentIndexes.offset.position", -1),
    ("segmentIndexes.offset.size", 1 << 40),
    ("segmentIndexes.transaction", 7),
    (f"{META}.startOffset", -1),
    (f"{META}.startOffset", 6),
    (f"{META}.endOffset", 4),
    (f"{META}.endOffset", 1 << 63),
    (f"{META}.endOffset", (1 << 63) - 1),
    (f"{META}.maxTimestampMs", 1 << 70),
    (f"{META}.brokerId", 1 << 40),
    (f"{META}.segmentLeaderEpochs", {}),
    (f"{META}.segmentLeaderEpochs", {"\N{SUPERSCRIPT TWO}": 5}),
    (f"{META}.segmentLeaderEpochs", {"9" * 5000: 5}),
    (f"{META}.segmentLeaderEpochs", {"0": 3}),
    (f"{META}.segmentLeaderEpochs", {"1": 5, "0": 7}),
    (f"{META}.remoteLogSegmentId.id", "short"),
    (f"{META}.remoteLogSegmentId.topicIdPartition.topicPartition.partition", -1),
    (f"{META}.remoteLogSegmentId.topicIdPartition.topicPartition.topic", "../x"),
    (META, "text"),
]


@pytest.mark.parametrize(("path", "value"), BAD)
def test_a_manifest_with_a_number_that_cannot_be_is_a_finding_for_that_copy_alone(store, folder, path, value):
    key, manifest = manifest_of(store, folder)
    tier(folder, store, layout=AivenLayout(), bases={0})
    store.replace(key, changed(manifest, path, value))
    found = look_at(store, AivenLayout())
    assert [copy.start_offset for copy in found.segments] == [0]
    (left,) = found.leftovers
    assert left.start_offset == 5
    assert left.problem


@pytest.mark.parametrize(
    "data",
    [b"", b"[" * 100_000, b'{"a":' * 100_000, b"null", b"7", b"\xff\xfe", b"{}", b" " * (MANIFEST_BYTES + 1)],
    ids=["empty", "deep list", "deep object", "null", "number", "no text", "nothing", "too large"],
)
def test_what_is_no_manifest_is_said_to_be_none(store, folder, data):
    with pytest.raises(CorruptDataError, match="m: "):
        rsm_manifest.decode(data, name="m")
    key, _ = manifest_of(store, folder)
    store.replace(key, data)
    assert len(look_at(store, AivenLayout()).leftovers) == 1


def test_a_manifest_of_a_segment_that_the_plugin_compressed_or_encrypted_stands_for_a_copy(store, folder):
    layout = AivenLayout()
    key, manifest = manifest_of(store, folder)
    size = len(store.get(key.removesuffix("rsm-manifest") + "log"))
    sizes = packed_sizes([10, size - 10])
    chunks = {"type": "variable", "originalChunkSize": 500, "originalFileSize": 999, "transformedChunks": sizes}
    compressed = manifest | {"compression": True, "chunkIndex": chunks}
    store.replace(key, json.dumps(compressed).encode())
    (copy,) = look_at(store, layout).segments
    assert copy.metadata.segment_size == 999
    fixed = {
        "type": "fixed", "originalChunkSize": 100, "originalFileSize": 250,
        "transformedChunkSize": 128, "finalTransformedChunkSize": 78,
    }  # fmt: skip
    encrypted = manifest | {"chunkIndex": fixed, "encryption": {"dataKey": "k:x", "aad": "y"}}
    found = rsm_manifest.decode(json.dumps(encrypted).encode(), name="m")
    assert (found.log_size, found.is_encrypted, found.is_compressed) == (334, True, False)
