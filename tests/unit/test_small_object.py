"""Small objects whose bytes flip on their way: read again before they are called damaged."""

from __future__ import annotations

import pytest

from tests.protocol.memory_store import MemoryStore
from tests.reference.left_over import PARTITION, put_snapshots, tier_ours
from tests.reference.lying_store import LyingStore
from tests.reference.tiered import aiven
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.remote_log.snapshot_objects import list_manifests
from tiersnap.snapshot.errors import CorruptDataError

pytestmark = pytest.mark.unit


def test_look_reads_a_segments_manifest_again_when_a_byte_flipped(tmp_path):
    store = LyingStore(MemoryStore())
    tier_ours(store, AivenLayout(), tmp_path / "logs")
    found = list_remote_partition(aiven(store), PARTITION)
    store.flips |= {info.key: 1 for info in store.list() if info.key.endswith(".rsm-manifest")}
    assert list_remote_partition(aiven(store), PARTITION) == found


def test_list_manifests_calls_it_damage_when_damaged_twice():
    store = LyingStore(MemoryStore())
    put_snapshots(store, [5, 10])
    (key,) = (info.key for info in store.list() if "manifest" in info.key)
    manifests = list(list_manifests(store, PARTITION))
    store.flips[key] = 1
    assert list(list_manifests(store, PARTITION)) == manifests
    store.flips[key] = 2
    with pytest.raises(CorruptDataError, match=key):
        list(list_manifests(store, PARTITION))
