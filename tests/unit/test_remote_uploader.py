"""Every step of a copy fails, stalls or is killed once; what is left is looked at in the directory itself."""

import itertools
import logging
from dataclasses import replace

import pytest

from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.lying_store import LyingStore
from tests.reference.tiered import aiven
from tests.s3.segments import attempt, log_bytes, make_segment
from tiersnap.remote_storage.errors import IllegalStateTransitionError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.layout import StoredState
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.remote_log.segment_bytes import fetch_segment
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.remote_storage.upload.send_objects import copy_segment, delete_copy
from tiersnap.snapshot.errors import (
    CorruptDataError,
    IncompleteBundleError,
    ObjectExistsError,
    RemoteStorageError,
    TransientError,
)

pytestmark = pytest.mark.unit

LAYOUTS = {"aiven": (AivenLayout(), 3), "local": (LocalTieredStorageLayout(), 5)}
# A put of each object, and a listing before the last.
STEPS = [(name, step) for name, (_, objects) in LAYOUTS.items() for step in range(1, objects + 2)]
VISIBLE = {KeyKind.RSM_MANIFEST, KeyKind.LOCAL_SNAPSHOT}


class Unproved(FlakyStore):
    """A server that says of no put what it has kept."""

    def put_if_absent(self, key, data, metadata=None):
        return replace(super().put_if_absent(key, data, metadata), proved=False)

    def put_file_if_absent(self, key, source, size, **options):
        return replace(super().put_file_if_absent(key, source, size, **options), proved=False)


@pytest.fixture
def inner(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "remote")


@pytest.fixture
def segment(tmp_path):
    return make_segment(tmp_path / "log")


def keys_in(store: DirectoryStore) -> list[str]:
    return [found.key for found in store.list()]


def visible_segments(store: DirectoryStore) -> list[str | None]:
    """Segment ids that a reader would take for complete."""
    parsed = [keys.parse(key) for key in keys_in(store)]
    return [key.segment_id for key in parsed if key.kind in VISIBLE]


@pytest.mark.parametrize(("name", "step"), STEPS)
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_after_a_crash_at_any_step_the_next_run_leaves_one_complete_copy(inner, segment, name, step, fault):
    layout, objects = LAYOUTS[name]
    first = attempt(segment)
    with pytest.raises(Crash):
        copy_segment(RemoteLocation(FlakyStore(inner, {step: fault}), layout), segment, first)
    state = layout.inspect(inner, first)
    # complete only once the last object is there
    assert (state is StoredState.COMPLETE) == (visible_segments(inner) == [first.id.segment_id])
    assert (state is StoredState.ABSENT) == (keys_in(inner) == [])
    if state is StoredState.COMPLETE:
        finished = first
    else:
        assert delete_copy(RemoteLocation(inner, layout), first) == ()
        assert layout.inspect(inner, first) is StoredState.ABSENT
        finished = attempt(segment)
        copy_segment(RemoteLocation(inner, layout), segment, finished)
    assert layout.inspect(inner, finished) is StoredState.COMPLETE
    assert visible_segments(inner) == [finished.id.segment_id]
    assert all(finished.id.segment_id in key for key in keys_in(inner))
    assert len(keys_in(inner)) == objects
    assert list(inner.unfinished_uploads()) == []


@pytest.mark.parametrize(("name", "step"), STEPS)
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_after_a_failure_at_any_step_nothing_is_left(inner, segment, name, step, fault):
    layout, _ = LAYOUTS[name]
    store = FlakyStore(inner, {step: fault})
    with pytest.raises(TransientError, match="on schedule") as raised:
        copy_segment(RemoteLocation(store, layout), segment, attempt(segment))
    assert keys_in(inner) == []
    assert raised.value.attrs["left_behind"] == []
    # retried with a new id, nothing is in the way
    copy_segment(RemoteLocation(inner, layout), segment, attempt(segment))


def test_what_makes_a_copy_visible_is_deleted_first(inner, segment):
    class Recorder(FlakyStore):
        deleted: list[str] = []  # noqa: RUF012

        def delete(self, keys):
            wanted = tuple(keys)
            self.deleted += wanted
            return super().delete(wanted)

    layout, store = AivenLayout(), Recorder(inner, {})
    copy = attempt(segment)
    copy_segment(RemoteLocation(store, layout), segment, copy)
    delete_copy(RemoteLocation(store, layout), copy)
    assert [key.rpartition(".")[2] for key in store.deleted] == ["rsm-manifest", "indexes", "log"]


def test_what_cannot_be_deleted_is_reported_with_the_error(inner, segment, caplog):
    layout, copy = AivenLayout(), attempt(segment)
    # two puts, a listing, the third put fails; then three deletes of which two fail
    store = FlakyStore(inner, {4: Fault.FAIL_AFTER, 5: Fault.FAIL_BEFORE, 7: Fault.FAIL_BEFORE})
    with caplog.at_level(logging.WARNING), pytest.raises(TransientError) as raised:
        copy_segment(RemoteLocation(store, layout), segment, copy)
    log, _, manifest = layout.object_keys(copy)
    assert raised.value.attrs["left_behind"] == [manifest, log] == sorted(keys_in(inner), reverse=True)
    assert caplog.text.count("could not delete") == 2
    assert delete_copy(RemoteLocation(inner, layout), copy) == ()


def test_deleting_a_copy_reports_what_is_still_there_and_can_be_repeated(inner, segment):
    layout, copy = AivenLayout(), attempt(segment)
    copy_segment(RemoteLocation(inner, layout), segment, copy)
    failures = delete_copy(RemoteLocation(FlakyStore(inner, {2: Fault.FAIL_BEFORE}), layout), copy)
    assert [failure.key for failure in failures] == [layout.object_keys(copy)[1]] == keys_in(inner)
    assert delete_copy(RemoteLocation(inner, layout), copy) == delete_copy(RemoteLocation(inner, layout), copy) == ()
    assert keys_in(inner) == []


def test_the_objects_of_a_used_segment_id_are_not_deleted(inner, segment, tmp_path):
    layout, copy = AivenLayout(), attempt(segment)
    copy_segment(RemoteLocation(inner, layout), segment, copy)
    before = keys_in(inner)
    other = make_segment(tmp_path / "other")
    (tmp_path / "other" / "00000000000000001000.log").write_bytes(log_bytes(1000, 2000, other.log.size, seed=1))
    with pytest.raises(ObjectExistsError):
        copy_segment(RemoteLocation(inner, layout), other, copy)
    assert keys_in(inner) == before
    again = copy_segment(RemoteLocation(inner, layout), segment, copy)
    assert again.made == (), "they were there, with the same content"
    with pytest.raises(TransientError):
        copy_segment(RemoteLocation(Unproved(inner, {4: Fault.FAIL_BEFORE}), layout), segment, copy)
    assert keys_in(inner) == before


@pytest.mark.parametrize("change", [b"shorter", b"longer" * 5000, None])
def test_a_segment_that_changed_since_the_scan_is_not_copied(inner, segment, tmp_path, change):
    path = tmp_path / "log" / "00000000000000001000.log"
    path.unlink() if change is None else path.write_bytes(change)
    with pytest.raises(TransientError, match="the file changed after the scan"):
        copy_segment(aiven(inner), segment, attempt(segment))
    assert keys_in(inner) == []


def test_a_stalling_store_runs_into_the_deadline_and_leaves_nothing(inner, segment):
    store = FlakyStore(inner, {1: Fault.STALL, 2: Fault.STALL}, counted={"put_file_if_absent", "put_if_absent"})
    with pytest.raises(TransientError, match="not finished within") as raised:
        copy_segment(aiven(store), segment, attempt(segment), timeout=0.08)
    assert raised.value.attrs["seconds"] == 0.08
    assert keys_in(inner) == []


def test_a_store_that_kept_other_bytes_is_found_out_before_anything_is_visible(inner, segment):
    class Liar(Unproved):
        def head(self, key: str) -> ObjectInfo | None:
            found = super().head(key)
            if key.endswith(".indexes"):
                (self.inner.root / key).write_bytes(b"\xff" * found.size)
                found = super().head(key)
            return found

    store = Liar(inner, {})
    with pytest.raises(RemoteStorageError, match="the store has"):
        copy_segment(aiven(store), segment, attempt(segment))
    assert store.calls[:4] == ["put_file_if_absent", "head", "put_if_absent", "head"]
    assert "put_if_absent" not in store.calls[4:]
    assert keys_in(inner) == []


@pytest.mark.parametrize(("crc", "words"), [(None, "bytes$"), (7, "bytes with CRC 00000007$")])
def test_a_store_that_kept_less_is_found_out_by_the_size_alone(inner, segment, crc, words):
    class Short(Unproved):
        def head(self, key: str) -> ObjectInfo | None:
            found = super().head(key)
            return replace(found, size=found.size - 1, crc32c=crc)

    with pytest.raises(RemoteStorageError, match=words):
        copy_segment(aiven(Short(inner, {})), segment, attempt(segment))
    assert keys_in(inner) == []


def test_a_deletion_that_the_store_refuses_altogether_is_reported_as_well(inner, segment):
    class Refusing(FlakyStore):
        def delete(self, keys):
            raise TransientError("the server went away")

    metadata = attempt(segment)
    copy_segment(aiven(inner), segment, metadata)
    failures = delete_copy(aiven(Refusing(inner, {})), metadata)
    assert {each.reason for each in failures} == {"the server went away"}
    assert len(failures) == len(keys_in(inner)) == 3


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_segment_is_fetched_in_pieces(inner, segment, monkeypatch, piece):
    monkeypatch.setattr("tiersnap.remote_storage.remote_log.segment_bytes.FETCH_SIZE", piece)
    metadata = attempt(segment)
    copy_segment(aiven(inner), segment, metadata)
    data = segment.log.read()
    pieces = list(fetch_segment(inner, AivenLayout(), metadata))
    assert b"".join(pieces) == data
    assert all(0 < len(each) <= piece for each in pieces)
    longer = replace(metadata, segment_size=metadata.segment_size + 1)
    with pytest.raises(CorruptDataError, match=f"ends at byte {len(data)} of {len(data) + 1}"):
        list(fetch_segment(inner, AivenLayout(), longer))


def test_an_object_that_is_gone_after_the_put_is_an_error(inner, segment):
    class Forgetful(Unproved):
        def head(self, key: str) -> ObjectInfo | None:
            return None

    with pytest.raises(TransientError, match="now it is missing"):
        copy_segment(aiven(Forgetful(inner, {})), segment, attempt(segment))
    assert keys_in(inner) == []


@pytest.mark.parametrize(
    ("name", "key"), [("aiven", ".log"), ("aiven", ".indexes"), ("local", ".log"), ("local", ".timeindex")]
)
@pytest.mark.parametrize("lie", ["loses", "shortens"])
def test_copy_segment_refuses_a_lost_object_before_it_is_visible(inner, segment, name, key, lie):
    store, (layout, _) = LyingStore(inner), LAYOUTS[name]
    getattr(store, lie).add(key)
    error, words = {"loses": (TransientError, "now it is missing"), "shortens": (RemoteStorageError, "the store has")}[
        lie
    ]
    looked = []
    with pytest.raises(error, match=words):
        copy_segment(RemoteLocation(store, layout), segment, attempt(segment), before_visible=lambda: looked.append(1))
    assert looked == []
    assert keys_in(inner) == []


def test_an_interrupted_copy_cleans_up(inner, segment):
    class Interrupted(FlakyStore):
        def put_if_absent(self, key, data, metadata=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_segment(aiven(Interrupted(inner, {})), segment, attempt(segment))
    assert keys_in(inner) == []


@pytest.mark.parametrize("state", [state for state in SegmentState if state])
def test_bytes_are_copied_in_copy_segment_started_only(inner, segment, state):
    with pytest.raises(IllegalStateTransitionError, match="COPY_SEGMENT_STARTED"):
        copy_segment(aiven(inner), segment, replace(attempt(segment), state=state))


def test_metadata_of_another_segment_is_refused(inner, segment, tmp_path):
    with pytest.raises(IncompleteBundleError, match="metadata says"):
        copy_segment(aiven(inner), segment, attempt(make_segment(tmp_path / "other", base=0)))


def test_what_was_copied_is_counted(inner, segment):
    layout, copy = AivenLayout(), attempt(segment)
    result = copy_segment(RemoteLocation(inner, layout), segment, copy)
    assert result.bytes == sum(found.size for found in inner.list())
    assert sorted(result.made) == keys_in(inner)
    assert inner.get(layout.log_key(copy)) == segment.log.read()


def test_a_flaky_store_counts_and_fails_as_told(inner):
    store = FlakyStore(inner, {2: Fault.FAIL_AFTER}, counted={"put_if_absent"})
    store.put_if_absent("a", b"")
    assert store.head("a") is not None
    with pytest.raises(TransientError):
        store.put_if_absent("b", b"")
    assert keys_in(inner) == ["a", "b"]
    assert store.calls == ["put_if_absent"] * 2
    crashed = FlakyStore(inner, {1: Fault.CRASH_AFTER})
    for _, call in itertools.product(range(2), (lambda: crashed.delete(["a"]), lambda: crashed.get("b"))):
        with pytest.raises(Crash):
            call()
    assert keys_in(inner) == ["b"]
