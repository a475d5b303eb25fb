"""The conditional write and deletion that all locks share, and the rule when a holder is over."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from tiersnap.remote_storage.errors import ObjectChangedError
from tiersnap.remote_storage.locks import lock_object
from tiersnap.remote_storage.locks.lease import LeaseHolder
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

KEY = "lock.json"
HERE = this_process()
ELSEWHERE = Process("broker-9", 17, "")
GONE = structs.replace(HERE, process_start=HERE.process_start + "0")


def holder(run_id: str) -> LeaseHolder:
    return LeaseHolder.of(run_id, ELSEWHERE)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


def test_write_replaces_the_version_that_was_read_and_no_other(store: DirectoryStore) -> None:
    first = lock_object.write(store, KEY, holder("one"), None)
    for etag in (None, "another"):
        with pytest.raises(ObjectChangedError):
            lock_object.write(store, KEY, holder("two"), etag)
    lock_object.write(store, KEY, holder("three"), first)
    found = lock_object.read(store, KEY, LeaseHolder)
    assert found is not None
    assert found.content == holder("three")


def test_write_creates_no_object_in_place_of_a_version_that_is_gone(store: DirectoryStore) -> None:
    etag = lock_object.write(store, KEY, holder("one"), None)
    store.delete([KEY])
    with pytest.raises(ObjectChangedError):
        lock_object.write(store, KEY, holder("one"), etag)
    assert lock_object.read(store, KEY, LeaseHolder) is None


def test_delete_leaves_a_version_of_another_writer(store: DirectoryStore) -> None:
    ours = lock_object.write(store, KEY, holder("one"), None)
    theirs = lock_object.write(store, KEY, holder("two"), ours)
    for etag in (ours, None):
        assert lock_object.delete(store, KEY, etag) == ()
        assert lock_object.is_current(store, KEY, theirs)
    lock_object.delete(store, KEY, theirs)
    assert store.head(KEY) is None


@pytest.mark.parametrize(
    ("process", "age", "is_ended", "why"),
    [
        (ELSEWHERE, 100, False, None),
        (HERE, 100, False, None),
        (ELSEWHERE, 101, False, "it is stale"),
        (GONE, 0, False, "the process of its holder has ended"),
        (ELSEWHERE, 0, True, "its holder released it"),
        (None, 0, False, "its holder released it"),
    ],
)
def test_holder_is_over_if_it_gave_up_or_is_stale_or_its_process_is_gone(
    process: Process | None, age: int, is_ended: bool, why: str | None
) -> None:
    assert lock_object.why_over(process, age, 100, is_ended=is_ended) == why
