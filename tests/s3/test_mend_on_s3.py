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


def test_mend_aborts_unfinished_uploads_of_what_it_puts_back(s3_store: S3Store, tmp_path: Path) -> None:
    """One that is completed late would put another object there; no claim names it, so nothing else aborts it."""
    brokers = Brokers(poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7), "aiven")
    source, store = brokers.store, s3_store
    for info in source.list():
        store.put_if_absent(info.key, source.get(info.key))
    brokers.store = store
    made_again, put_back, other = (brokers.layout.log_key(brokers.records[number]) for number in (2, 3, 4))
    store.delete([made_again, put_back])
    source.delete([made_again])
    for key in (made_again, put_back, other):
        store.client.create_multipart_upload(Bucket=store.bucket, Key=store.prefix + key)
    assert ("COPY", "MENDED") in told(brokers.mend(source=source))
    assert told(brokers.mend(log=True)) == [("REBUILD", "MENDED")]
    assert [upload.key for upload in store.unfinished_uploads()] == [other]
