"""A byte of our own JSON that flips on its way is no damage: it is read again first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.reference.lying_store import LyingStore
from tests.reference.planned import PARTITION
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.lease import Lease
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.remote_log.cluster_record import put_cluster_id, read_cluster_id
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import CorruptDataError

pytestmark = pytest.mark.unit

CLUSTER, TOPIC, TOPIC_ID = "5L6g3nShT-eMCtK--X86sw", PARTITION.topic, PARTITION.topic_id or ""
SAVED = SavedConfigs.of(CLUSTER, TOPIC, TOPIC_ID, (0,), {"remote.log.copy.disable": None})


def read_saved_configs(store: LyingStore) -> object:
    (found,) = SavedConfigsStore(store).find({TOPIC: TOPIC_ID}, CLUSTER)
    return found.before


def take_lease(store: LyingStore) -> object:
    return Lease(store, "lease.json", "run-2").key


READERS = {
    keys.cluster(PARTITION): lambda store: read_cluster_id(store, PARTITION),
    keys.unblock(TOPIC, TOPIC_ID): read_saved_configs,
    "lease.json": take_lease,
}


@pytest.mark.parametrize(("key", "read"), READERS.items(), ids=READERS)
def test_stored_json_is_read_again_when_a_byte_flipped(
    key: str, read: Callable[[LyingStore], object], tmp_path
) -> None:
    store = LyingStore(DirectoryStore(tmp_path))
    put_cluster_id(store, PARTITION, CLUSTER)
    SavedConfigsStore(store).put(SAVED)
    Lease(store, "lease.json", "run-1").release()
    store.flips[key] = 2
    with pytest.raises(CorruptDataError):
        read(store)
    store.reads.clear()
    store.flips[key] = 1
    assert read(store) in (CLUSTER, SAVED.before, "lease.json")
    assert store.reads[:2] == [key, key]
