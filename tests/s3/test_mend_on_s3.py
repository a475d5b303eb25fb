"""`mend` on a real S3 server: lost objects are made again, poisoned snapshots replaced and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.poisoned_tier import poisoned_tier
from tests.unit.test_replace_wrong import Brokers, told
from tiersnap.remote_storage.stores.s3_store import S3Store

pytestmark = pytest.mark.s3


def test_mend_makes_again_replaces_and_deletes_on_s3(store: S3Store, tmp_path: Path) -> None:
    brokers = Brokers(poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7), "aiven")
    for info in brokers.store.list():
        store.put_if_absent(info.key, brokers.store.get(info.key))
    brokers.store = store
    log, indexes, _ = brokers.layout.object_keys(brokers.records[2])
    lost = {key: store.get(key) for key in (log, indexes)}
    store.delete(lost)
    assert told(brokers.mend(log=True)) == [("REBUILD", "MENDED"), ("REPLACE", "MENDED"), ("REPLACE", "MENDED")]
    assert brokers.snapshots() == brokers.expected()
    assert store.get(log) == lost[log] and len(store.get(indexes)) == len(lost[indexes])
    assert told(brokers.mend(log=True, delete_bad=True)) == [("DELETE", "MENDED")] * 2
    assert len(list(brokers.complete())) == len(brokers.records)
    assert told(brokers.mend(log=True, delete_bad=True)) == []
