"""Several segments of a partition in flight: their bytes come in any order, and they become visible in theirs."""

from __future__ import annotations

import re
import threading

import pytest

from tests.reference.flaky_store import FlakyStore
from tests.reference.listed_claims import list_claims
from tests.reference.planned import BASES, PARTITION, planned, write_log
from tests.reference.tiered import aiven, rows_of
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.paced_store import PacedStore
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.errors import TransientError

pytestmark = pytest.mark.unit

CLOSED = BASES[:-1]
ME = Tierer("run-1", 1_700_000_000_500, wait=0, pause=lambda _: None)
_SECONDS = 30  # that a thread waits for another before the test fails


class Watched(FlakyStore):
    """A store that says what is written, and calls `before` in front of each put of an object of a segment."""

    def __init__(self, inner: DirectoryStore) -> None:
        super().__init__(inner, {})
        self.written: list[tuple[str, int]] = []

    def before(self, kind: str, offset: int) -> None:
        pass

    def put_if_absent(self, key, data, metadata=None):
        return self._watched(key, lambda: self.inner.put_if_absent(key, data, metadata))

    def put_file_if_absent(self, key, *args, **options):
        return self._watched(key, lambda: self.inner.put_file_if_absent(key, *args, **options))

    def replace_if(self, key, data, etag, metadata=None):
        done = self.inner.replace_if(key, data, etag, metadata)
        self.written.append(("finish", _offset(key)))
        return done

    def _watched(self, key, put):
        kind = key.rpartition(".")[2]
        if kind in {"log", "indexes", "rsm-manifest"}:
            self.before(kind, _offset(key))
        done = put()
        self.written.append((kind, _offset(key)))
        return done


def _offset(key: str) -> int:
    found = re.search(r"\d{20}", key)
    return int(found[0]) if found else -1


@pytest.fixture
def segments(tmp_path):
    return planned(write_log(tmp_path / "logs"))


def run(store, segments) -> list[dict]:
    layout = AivenLayout()
    return rows_of(tier_partition(RemoteLocation(store, layout), PARTITION, segments, ME))


def visible(store) -> list[int]:
    return [each.start_offset for each in list_remote_partition(aiven(store), PARTITION).segments]


def claims_of(store) -> list[tuple[int, bool, bool]]:
    """Base offset, whether finished, and whether the holder gave up."""
    found = list_claims(store, PARTITION)
    return [(held.segment.base_offset, held.claim.finished is not None, held.claim.holder.ended) for held in found]


@pytest.mark.parametrize("paced", [False, True])
def test_segments_are_sent_at_once_and_shown_one_by_one(store, segments, paced):
    class Together(Watched):
        meet = threading.Barrier(len(CLOSED), timeout=_SECONDS)

        def before(self, kind, offset):
            if kind == "log":
                self.meet.wait()  # BrokenBarrierError unless all logs are under way

    watched = Together(store)
    rows = run(PacedStore(watched, 64 << 20) if paced else watched, segments)
    assert [row["error"] for row in rows] == [None] * 2 * len(CLOSED)
    shown = [each for each in watched.written if each[0] in {"rsm-manifest", "finish"}]
    assert shown == [(step, offset) for offset in CLOSED for step in ("rsm-manifest", "finish")]
    assert visible(store) == list(CLOSED)


def test_segment_that_fails_before_the_first_is_shown_hides_all_behind(store, segments):
    failed = threading.Event()

    class SecondFails(Watched):
        def before(self, kind, offset):
            if (kind, offset) == ("log", CLOSED[0]):
                assert failed.wait(_SECONDS)
            if (kind, offset) == ("indexes", CLOSED[1]):
                failed.set()
                raise TransientError("no")

    watched = SecondFails(store)
    rows = run(watched, segments)
    assert [(row["base_offset"], bool(row["error"])) for row in rows if row["state"] != "COPY_SEGMENT_STARTED"] == [
        (CLOSED[0], False),
        (CLOSED[1], False),  # DELETE_SEGMENT_STARTED
        (CLOSED[1], True),
    ]
    assert [offset for kind, offset in watched.written if kind == "rsm-manifest"] == [CLOSED[0]]
    assert visible(store) == [CLOSED[0]]
    assert list_remote_partition(aiven(store), PARTITION).leftovers == ()
    assert claims_of(store)[:2] == [(CLOSED[0], True, False), (CLOSED[1], False, True)]
    assert [row["error"] for row in run(store, segments)] == [None] * 5
    assert visible(store) == list(CLOSED)


def test_segments_that_were_begun_are_undone_when_the_first_fails(store, segments):
    sent = threading.Barrier(len(CLOSED), timeout=_SECONDS)

    class FirstFails(Watched):
        def before(self, kind, offset):
            if kind == "indexes":
                sent.wait()
                if offset == CLOSED[0]:
                    raise TransientError("no")

    rows = run(FirstFails(store), segments)
    assert {row["base_offset"] for row in rows} == {CLOSED[0]}
    assert rows[-1]["error"]
    assert [each.key for each in store.list() if each.key.endswith((".log", ".indexes", ".rsm-manifest"))] == []
    assert claims_of(store) == [(offset, False, True) for offset in CLOSED]


def test_caller_that_stops_listening_leaves_nothing_begun(store, segments):
    layout = AivenLayout()
    events = tier_partition(RemoteLocation(store, layout), PARTITION, segments, ME)
    assert next(events).base_offset == CLOSED[0]
    events.close()
    assert visible(store) == [CLOSED[0]]
    assert list_remote_partition(aiven(store), PARTITION).leftovers == ()


def test_large_segment_is_sent_alone(store, segments, monkeypatch):
    monkeypatch.setattr("tiersnap.remote_storage.upload.segments_in_flight.BYTES_AT_ONCE", segments[1].log.size - 1)
    threads = {}

    class Names(Watched):
        def before(self, kind, offset):
            threads[offset] = threading.current_thread()

    watched = Names(store)
    run(watched, segments)
    assert threads[CLOSED[1]] is threading.main_thread()
    logs = [each for each in watched.written if each[0] in {"log", "finish"}]
    assert logs.index(("finish", CLOSED[0])) < logs.index(("log", CLOSED[1])), logs
    assert visible(store) == list(CLOSED)
