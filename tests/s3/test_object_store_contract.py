"""What every store promises, on every store."""

import contextlib
import io
import os
import pickle
import random
import threading

import google_crc32c
import pytest

from tiersnap.remote_storage.errors import ObjectChangedError, ObjectNotFoundError
from tiersnap.remote_storage.remote_log.encryption import UNKNOWN, shown_by_store
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore, PutOutcome
from tiersnap.remote_storage.stores.requests import Deadline
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE
from tiersnap.snapshot.errors import CorruptDataError, ExitCode, ObjectExistsError, TransientError
from tiersnap.snapshot.log.file_system import LOCAL

pytestmark = pytest.mark.s3

LARGE = random.Random(1).randbytes(2 * MIN_PART_SIZE + 1234)  # three parts
SMALL = b"some bytes"


def crc(data: bytes) -> int:
    return google_crc32c.value(data)


def keys_of(store: ObjectStore, prefix: str = "") -> list[str]:
    return [found.key for found in store.list(prefix)]


def assert_nothing_unfinished(store: ObjectStore) -> None:
    assert list(store.unfinished_uploads()) == []


def test_what_was_put_is_there_with_its_size_and_crc(store):
    result = store.put_if_absent("a/b", SMALL, {"run-id": "r1"})
    assert (result.outcome, result.size, result.crc32c) == (PutOutcome.CREATED, len(SMALL), crc(SMALL))
    assert store.get("a/b") == SMALL
    found = store.head("a/b")
    assert (found.key, found.size) == ("a/b", len(SMALL))
    assert found.crc32c in {crc(SMALL), None}  # None: a server without checksums
    assert found.metadata in ({"run-id": "r1"}, {})  # {}: a directory
    assert abs(found.modified - next(store.list("a/b")).modified) < 1000


def test_the_same_content_again_is_already_same(store):
    store.put_if_absent("key", SMALL)
    assert store.put_if_absent("key", SMALL).outcome is PutOutcome.ALREADY_SAME


@pytest.mark.parametrize("other", [b"other bytes", b"SOME BYTES", b""])
def test_other_content_is_refused_and_left_alone(store, other):
    store.put_if_absent("key", SMALL)
    with pytest.raises(ObjectExistsError, match="other content") as raised:
        store.put_if_absent("key", other)
    assert raised.value.attrs["key"] == "key"
    assert store.get("key") == SMALL


def test_replace_overwrites_and_creates(store):
    store.replace("key", SMALL)
    assert store.replace("key", b"new").size == 3
    assert store.get("key") == b"new"


def test_an_object_that_is_still_the_one_that_was_read_is_replaced(store):
    put = store.put_if_absent("key", SMALL)
    assert put.etag == store.head("key").etag == store.read("key").info.etag
    replaced = store.replace_if("key", b"new", put.etag)
    assert (replaced.outcome, replaced.size, replaced.crc32c) == (PutOutcome.CREATED, 3, crc(b"new"))
    assert replaced.etag == store.head("key").etag != put.etag
    assert store.get("key") == b"new"


def test_another_object_is_not_replaced(store):
    put = store.put_if_absent("key", SMALL)
    store.replace("key", b"theirs")
    with pytest.raises(ObjectChangedError, match="changed") as raised:
        store.replace_if("key", b"mine", put.etag)
    assert raised.value.exit_code is ExitCode.TRANSIENT
    assert store.get("key") == b"theirs"
    assert_nothing_unfinished(store)


def test_what_is_gone_is_not_replaced(store):
    put = store.put_if_absent("a/key", SMALL)
    store.delete(["a/key"])
    for key in ("a/key", "never/was"):
        with pytest.raises(ObjectChangedError, match="gone"):
            store.replace_if(key, b"mine", put.etag)
    assert keys_of(store) == []


def test_what_is_replaced_by_the_same_content_stays(store):
    put = store.put_if_absent("key", SMALL)
    assert store.replace_if("key", SMALL, "another").outcome is PutOutcome.ALREADY_SAME
    assert store.head("key").etag == put.etag


def test_what_was_put_whole_is_proved_by_the_answer(store):
    assert store.put_if_absent("key", SMALL).proved
    assert store.put_file_if_absent("file", io.BytesIO(SMALL), len(SMALL)).proved
    assert store.put_file_if_absent("large", io.BytesIO(LARGE), len(LARGE)).proved


def test_an_object_is_read_with_its_age_by_the_clock_of_the_store(store):
    store.put_if_absent("key", SMALL)
    found = store.read("key")
    assert (found.data, found.info.size) == (SMALL, len(SMALL))
    assert abs(found.read_at - found.info.modified) < 5000  # a server's Date header may be a second late
    assert 0 <= found.age < 5000
    if isinstance(store, DirectoryStore):
        os.utime(store.root / "key", (1, 1))
        found = store.read("key")
        assert found.age == found.read_at - 1000


def test_no_more_is_read_than_makes_sense(store):
    store.put_if_absent("key", SMALL)
    for read in (store.get, store.read):
        with pytest.raises(CorruptDataError, match="more than 9 bytes"):
            read("key", limit=len(SMALL) - 1)
    assert store.get("key", limit=len(SMALL)) == store.read("key", limit=len(SMALL)).data == SMALL


def test_a_deadline_that_has_passed_bounds_every_call_in_it(store):
    put = store.put_if_absent("key", SMALL)
    uses = [
        lambda: store.put_if_absent("other", SMALL),
        lambda: store.put_file_if_absent("other", io.BytesIO(SMALL), len(SMALL)),
        lambda: store.replace("key", b"new"),
        lambda: store.replace_if("key", b"new", put.etag),
        lambda: store.get("key"),
        lambda: store.read("key"),
        lambda: store.get_range("key", 0, 1),
        lambda: store.head("key"),
        lambda: list(store.list()),
        lambda: list(store.unfinished_uploads()),
    ]
    with Deadline(0):
        for use in uses:
            with pytest.raises(TransientError, match="not finished within 0 s"):
                use()
        assert [failure.key for failure in store.delete(["key"])] == ["key"]
    assert keys_of(store) == ["key"]
    assert store.get("key") == SMALL


def test_empty_objects_are_objects(store):
    assert store.put_if_absent("empty", b"").size == 0
    assert store.put_if_absent("empty", b"").outcome is PutOutcome.ALREADY_SAME
    assert store.put_file_if_absent("empty-file", io.BytesIO(b""), 0).outcome is PutOutcome.CREATED
    assert store.get("empty") == store.get_range("empty", 0, 10) == b""


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["single-put", "multipart"])
def test_a_file_is_put_once(store, data):
    created = store.put_file_if_absent("file", io.BytesIO(data), len(data))
    again = store.put_file_if_absent("file", io.BytesIO(data), len(data))
    assert (created.outcome, again.outcome) == (PutOutcome.CREATED, PutOutcome.ALREADY_SAME)
    assert created.crc32c == again.crc32c == crc(data)
    assert store.get("file") == data
    assert store.head("file").crc32c in {crc(data), None}
    assert_nothing_unfinished(store)


def test_a_file_is_read_through_pyarrow(store, tmp_path):
    (tmp_path / "source").write_bytes(LARGE)
    with LOCAL.open(str(tmp_path / "source")) as source:
        assert store.put_file_if_absent("file", source, len(LARGE)).crc32c == crc(LARGE)
    assert store.get("file") == LARGE


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["single-put", "multipart"])
def test_a_file_with_other_content_is_refused_and_leaves_nothing_unfinished(store, data):
    store.put_if_absent("file", b"mine")
    with pytest.raises(ObjectExistsError):
        store.put_file_if_absent("file", io.BytesIO(data), len(data))
    assert store.get("file") == b"mine"
    assert_nothing_unfinished(store)


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["single-put", "multipart"])
def test_a_file_that_has_become_shorter_is_not_stored(store, data):
    with pytest.raises(TransientError):
        store.put_file_if_absent("file", io.BytesIO(data), len(data) + 1)
    assert store.head("file") is None
    assert_nothing_unfinished(store)


def test_only_the_size_that_was_scanned_is_stored(store):
    store.put_file_if_absent("file", io.BytesIO(SMALL + b"appended since"), len(SMALL))
    assert store.get("file") == SMALL


def test_ranges_end_where_the_object_ends(store):
    store.put_if_absent("key", b"0123456789")
    ranges = [(0, 10), (3, 4), (8, 10), (10, 5), (50, 5), (2, 0)]
    expected = [b"0123456789", b"3456", b"89", b"", b"", b""]
    assert [store.get_range("key", start, length) for start, length in ranges] == expected


def test_an_absent_key_is_named(store):
    assert store.head("no/such/key") is None
    for read in (lambda: store.get("no/such/key"), lambda: store.get_range("no/such/key", 0, 1)):
        with pytest.raises(ObjectNotFoundError, match="no/such/key"):
            read()


def test_listing_is_by_prefix_in_key_order(store):
    keys = ["a-b/1", "a.b/1", "a/1", "a/2/3", "ab", "b/1"]
    for key in reversed(keys):
        store.put_if_absent(key, key.encode())
    assert keys_of(store) == keys == sorted(keys)
    assert keys_of(store, "a") == keys[:-1]
    assert keys_of(store, "a/") == ["a/1", "a/2/3"]
    assert keys_of(store, "a/2") == ["a/2/3"]
    assert keys_of(store, "a-") == ["a-b/1"]
    assert keys_of(store, "nothing/here") == []
    assert next(store.list("a/2/3")).size == 5


def test_folders_are_the_first_parts_of_keys_below_a_prefix(store):
    for key in ("a-b/1", "a.b/1", "a/1", "a/2/3", "a/2/4", "ab", "b/1"):
        store.put_if_absent(key, key.encode())
    assert list(store.folders()) == ["a-b/", "a.b/", "a/", "b/"]
    assert list(store.folders("a/")) == ["a/2/"]
    assert list(store.folders("a/2/")) == list(store.folders("nothing/")) == []


def test_deleting_is_idempotent(store):
    for key in ("a", "b/c", "b/d"):
        store.put_if_absent(key, SMALL)
    assert store.delete(["a", "b/c", "never/was"]) == ()
    assert store.delete(["a", "b/c", "never/was"]) == ()
    assert store.delete([]) == ()
    assert keys_of(store) == ["b/d"]


def test_a_store_can_be_sent_to_another_process(store):
    store.put_if_absent("key", SMALL)
    sent = pickle.loads(pickle.dumps(store))
    assert sent == store
    assert sent.get("key") == SMALL
    assert sent.uri.endswith("/")


def test_of_many_who_replace_an_object_one_wins(tmp_path):
    store = DirectoryStore(tmp_path)
    for _ in range(20):
        etag = store.replace("key", b"before").etag
        won: list[int] = []

        def write(number: int, etag: str = etag, won: list[int] = won) -> None:
            with contextlib.suppress(ObjectChangedError):
                assert store.replace_if("key", b"writer %d" % number, etag).outcome.is_ours
                won.append(number)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert store.get("key") == b"writer %d" % won[0]
    assert_nothing_unfinished(store)


def test_of_many_writers_one_wins(tmp_path):
    # Not on the emulator: it looks for the key and stores the object in two steps.
    store = DirectoryStore(tmp_path)
    outcomes: list[object] = []

    def write(number: int) -> None:
        try:
            outcomes.append(store.put_if_absent("deep/key", b"writer %d" % number).outcome)
        except ObjectExistsError:
            outcomes.append("refused")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["CREATED"] + ["refused"] * 7
    assert_nothing_unfinished(store)


def test_the_clock_of_a_store_is_the_one_that_its_objects_are_dated_by(store):
    before = store.now()
    store.put_if_absent("a", b"1")
    after = store.now()
    modified = next(store.list("a")).modified
    assert before // 1000 <= modified // 1000 <= after // 1000 + 1, "servers tell whole seconds"


def test_list_keys_gives_those_that_are_there(store):
    for key in ("a/b.index", "a/b.log", "a/bc", "a/d/e"):
        store.put_if_absent(key, key.encode())
    found = list(store.list_keys("a/b", {"a/b.log", "a/b.index", "a/b.snapshot", "a/d"}))
    assert [(info.key, info.size) for info in found] == [("a/b.index", 9), ("a/b.log", 7)]
    assert list(store.list_keys("none/b", {"none/b.log"})) == []


def test_list_begins_behind_a_key(store):
    keys = ["claims/a/1", "claims/b", "orders/0/x", "orders/1", "z"]
    for key in keys:
        store.put_if_absent(key, b"x")
    for after in ("", "a", "claims/~", "claims/a/1", "claims/b", "orders/0", "orders/0/x", "z"):
        assert [info.key for info in store.list(after=after)] == [key for key in keys if key > after]
    assert [info.key for info in store.list("orders/", after="orders/0/x")] == ["orders/1"]


def test_list_makes_progress_when_a_server_ignores_start_after(s3_store) -> None:
    for key in ("claims/a", "orders/0", "snapshots/b"):
        s3_store.put_if_absent(key, b"x")
    events = s3_store.client.meta.events
    events.register("before-parameter-build.s3.ListObjectsV2", lambda params, **_: params.pop("StartAfter", None))

    assert [info.key for info in s3_store.list(after="claims~")] == ["orders/0", "snapshots/b"]
    assert shown_by_store(s3_store) == UNKNOWN
