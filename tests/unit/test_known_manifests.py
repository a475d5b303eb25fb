"""Manifests that were read before: read again if and only if their objects changed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.protocol.memory_store import MemoryStore
from tests.reference.planned import BASES, PARTITION, planned, write_log
from tests.reference.tiered import aiven, rows_of
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.remote_log import known_manifests
from tiersnap.remote_storage.remote_log.known_manifests import FEW, KnownManifests, reads_before
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory, list_remote_partition
from tiersnap.remote_storage.stores.object_store import ReadObject
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.errors import TransientError

pytestmark = pytest.mark.unit

KNOWN = keys.manifests(PARTITION)
ME = Tierer("run-1", 1_700_000_000_500, wait=0, pause=lambda _: None)


@dataclass
class ReadingStore(MemoryStore):
    """Keeps the keys that were read."""

    reads: list[str] = field(default_factory=list)

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        self.reads.append(key)
        return super().read(key, limit=limit)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_manifests, "WORTH_WRITING", 0)


@pytest.fixture
def store(tmp_path) -> ReadingStore:
    """Three segments, as one run left them."""
    store = ReadingStore()
    rows = rows_of(tier_partition(aiven(store), PARTITION, planned(write_log(tmp_path / "logs")), ME))
    assert [row["error"] for row in rows] == [None] * 2 * len(BASES[:-1])
    return store


def listed(store: ReadingStore, known: KnownManifests | None = None) -> tuple[RemoteInventory, list[str]]:
    """The inventory, and the manifests that were read for it."""
    store.reads.clear()
    found = list_remote_partition(aiven(store), PARTITION, known=known)
    return found, [key for key in store.reads if key.endswith(".rsm-manifest")]


def manifests(store: ReadingStore) -> list[str]:
    return [key for key in store.objects if key.endswith(".rsm-manifest")]


def test_list_reads_no_manifest_that_the_run_before_wrote(store):
    found, read = listed(store)
    assert read == []
    del store.objects[KNOWN]
    assert listed(store) == (found, manifests(store)[::-1])


def test_list_reads_a_manifest_again_when_its_object_changed(store):
    key = manifests(store)[1]
    store.replace(key, store.objects[key].data.replace(b'"brokerId":-1', b'"brokerId":77'))
    found, read = listed(store)
    assert read == [key]
    assert [each.metadata.broker_id for each in found.segments] == [-1, 77, -1]


def test_list_shows_no_segment_whose_manifest_is_known_and_gone(store):
    store.delete([manifests(store)[1]])
    found, _ = listed(store)
    assert [each.start_offset for each in found.segments] == [BASES[0], BASES[2]]


@pytest.mark.parametrize("content", [b"", b"{", b'{"version":2,"manifests":[]}', b'{"version":1,"manifests":[{}]}'])
def test_list_reads_all_manifests_when_what_is_known_is_damaged(store, content):
    found, _ = listed(store)
    store.replace(KNOWN, content)
    assert listed(store) == (found, manifests(store)[::-1])


def test_list_reads_a_manifest_whose_known_content_is_none(store):
    found, _ = listed(store)
    store.replace(KNOWN, store.objects[KNOWN].data.replace(b'"endOffset":', b'"endOffsets":', 1))
    again, read = listed(store)
    assert (again, len(read)) == (found, 1)


def test_save_forgets_segments_that_are_gone(store):
    gone = store.delete([key for key in store.objects if f"/{BASES[0]:020d}-" in key and "claims" not in key])
    assert not gone
    known = KnownManifests(store, PARTITION)
    list_remote_partition(aiven(store), PARTITION, known=known)
    known.add("A" * 22, '"new"', store.objects[manifests(store)[0]].data)
    known.save()
    assert store.objects[KNOWN].data.count(b'"segmentId"') == 3


@pytest.mark.parametrize(("limit", "is_saved"), [(3, True), (4, False)])
def test_save_writes_many_manifests_only(store, monkeypatch, limit, is_saved):
    del store.objects[KNOWN]
    monkeypatch.setattr(known_manifests, "WORTH_WRITING", limit)
    known = KnownManifests(store, PARTITION)
    found, read = listed(store, known)
    assert (len(read), KNOWN in store.reads) == (3, False)
    assert listed(store, known) == (found, []), "read before by this process"
    known.save()
    assert (KNOWN in store.objects, KNOWN in store.reads) == (is_saved, False)


@pytest.mark.parametrize(
    ("size", "reads"),
    [(0, 0), (64_000, 0), (1 << 20, 16), (20 << 20, FEW), (None, FEW)],
)
def test_few_manifests_are_read_one_by_one_before_a_small_object(size, reads):
    assert reads_before(size) == reads


def test_list_of_a_short_partition_reads_one_object_in_place_of_its_manifests(tmp_path, monkeypatch):
    monkeypatch.setattr(known_manifests, "WORTH_WRITING", len(BASES[:-1]))
    store = ReadingStore()
    list(tier_partition(aiven(store), PARTITION, planned(write_log(tmp_path / "logs")), ME))
    found, read = listed(store)
    assert [each.start_offset for each in found.segments] == list(BASES[:-1])
    assert (read, store.reads.count(KNOWN)) == ([], 1)


@pytest.mark.parametrize(("share", "is_saved"), [(2, False), (3, True)])
def test_save_writes_when_much_is_new(store, monkeypatch, share, is_saved):
    monkeypatch.setattr(known_manifests, "_SHARE", share)
    known = KnownManifests(store, PARTITION)
    known.add("A" * 22, '"new"', store.objects[manifests(store)[0]].data)
    known.save()
    assert store.objects[KNOWN].data.count(b'"segmentId"') == 3 + is_saved


def test_tier_ends_well_when_the_manifests_cannot_be_remembered(tmp_path):
    class Full(MemoryStore):
        def replace(self, key, data, metadata=None):
            raise TransientError(f"{key}: the disk is full")

    store = Full()
    segments = planned(write_log(tmp_path / "logs"))
    rows = rows_of(tier_partition(aiven(store), PARTITION, segments, ME))
    assert [row["error"] for row in rows] == [None] * 2 * len(segments)
    assert KNOWN not in store.objects
