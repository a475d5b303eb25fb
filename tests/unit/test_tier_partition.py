"""One partition into remote storage: whatever fails, dies or runs beside it, one visible copy of a segment is left."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.protocol.installed import Inline
from tests.reference.examples import examples
from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.interleaved import Killed, Turns
from tests.reference.killable_store import Clock, KillableStore, KilledError
from tests.reference.listed_claims import list_claims
from tests.reference.planned import (
    BASES,
    PARTITION,
    planned,
    with_snapshot,
    write_log,
    write_replica_that_rolled_later,
)
from tests.reference.tiered import age, rows_of, tier
from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.process import this_process
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentId, new_segment_id
from tiersnap.remote_storage.remote_log.cluster_record import read_cluster_id
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory, list_remote_partition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import list_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.remote_storage.upload.tier_task import TIERED
from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.formats.transaction_index import decode as decode_transactions
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.coverage import coverage_of

pytestmark = pytest.mark.unit

LAYOUTS = {"aiven": AivenLayout(), "local": LocalTieredStorageLayout()}
OBJECTS = {"aiven": 3, "local": 5}
CLOSED = BASES[:-1]
OF_FIRST = f"/{CLOSED[0]:020d}-"  # in the keys of the first segment's objects
ME = Tierer("run-1", 1_700_000_000_500, wait=0, pause=lambda _: None)


@pytest.fixture(params=list(LAYOUTS))
def name(request) -> str:
    return request.param


@pytest.fixture
def layout(name):
    return LAYOUTS[name]


@pytest.fixture
def segments(tmp_path):
    return planned(write_log(tmp_path / "logs"))


def run(store: ObjectStore, layout, segments, tierer: Tierer = ME) -> list[dict]:
    rows = rows_of(tier_partition(RemoteLocation(store, layout), PARTITION, segments, tierer))
    pa.Table.from_pylist(rows, schema=TIERED)  # a row is what its schema says
    return rows


def present(store: ObjectStore, layout) -> RemoteInventory:
    return list_remote_partition(RemoteLocation(store, layout), PARTITION)


def assert_tiered_once(store: DirectoryStore, layout, name: str, bases=CLOSED) -> None:
    """One complete copy of each segment, its claim finished, and nothing else."""
    found = present(store, layout)
    assert [copy.start_offset for copy in found.segments] == list(bases)
    assert found.leftovers == found.problems == ()
    assert [held.claim.finished for held in list_claims(store, PARTITION)] == [
        copy.segment_id for copy in found.segments
    ]
    kept = [info.key for info in store.list() if not info.key.startswith("claims/")]
    transactions = sum(key.endswith(".txnindex") for key in kept)
    assert len(kept) - transactions == OBJECTS[name] * len(bases)
    assert list(store.unfinished_uploads()) == []


def test_every_ready_segment_is_copied_once_and_says_so(store, layout, name, segments):
    rows = run(store, layout, segments)
    assert [(row["base_offset"], row["state"]) for row in rows] == [
        (base, state) for base in CLOSED for state in ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED")
    ]
    assert_tiered_once(store, layout, name)
    assert {row["error"] for row in rows} == {None}
    assert len({row["segment_id"] for row in rows}) == 3
    found = present(store, layout)
    for copy, row in zip(found.segments, rows[1::2], strict=True):
        assert (copy.segment_id, copy.start_offset, copy.end_offset) == (
            row["segment_id"],
            row["base_offset"],
            row["next_base_offset"],
        )
        assert row["object_bytes"] == sum(store.head(key).size for key in copy.keys)
        assert copy.leader_epochs == tuple((each["epoch"], each["start_offset"]) for each in row["leader_epochs"])


def test_tier_partition_fails_at_its_first_segment_when_the_store_lists_nothing(store, layout, segments):
    flaky = FlakyStore(store, {1: Fault.FAIL_BEFORE}, counted={"list"})
    (row,) = run(flaky, layout, segments)
    assert (row["base_offset"], row["state"]) == (CLOSED[0], None)
    assert row["error"]


def test_tier_partition_names_the_cluster_before_its_first_object(tmp_path, layout, segments):
    store = FlakyStore(DirectoryStore(tmp_path / "remote"), {1: Fault.CRASH_AFTER}, counted={"put_if_absent"})
    with pytest.raises(Crash):
        list(tier_partition(RemoteLocation(store, layout), PARTITION, segments, ME, cluster_id="a"))
    assert read_cluster_id(store.inner, PARTITION) == "a"


def test_an_abort_that_has_no_index_on_disk_has_one_in_remote_storage(store, layout, segments):
    rows = run(store, layout, segments)
    (row,) = [row for row in rows if row["base_offset"] == 5 and row["state"] == "COPY_SEGMENT_FINISHED"]
    assert dict(row["rebuilt_indexes"])["transaction index"] == "it is missing"
    ready = segments[1].bundle(store)
    metadata = ready.metadata(segment_id_of(row), broker_id=-1, event_timestamp=0)
    data = layout.fetch_index(store, metadata, IndexType.TRANSACTION)
    assert decode_transactions(data, base_offset=5).tolist() == [(8, 4, 9, 10)]


def segment_id_of(row: dict) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(row["topic"], row["topic_id"], row["partition"], row["segment_id"])


def test_a_second_run_writes_nothing(store, layout, name, segments):
    first = run(store, layout, segments)
    before = {info.key: store.get(info.key) for info in store.list()}
    again = run(store, layout, segments, replace(ME, run_id="run-2"))
    assert {info.key: store.get(info.key) for info in store.list()} == before
    assert [row["segment_id"] for row in again] == [row["segment_id"] for row in first[1::2]]
    assert [row["object_bytes"] for row in again] == [0, 0, 0]


def sizes(store, layout) -> dict[int, int]:
    """Bytes of all objects of each copy, by its start offset."""
    return {
        copy.start_offset: sum(store.head(key).size for key in copy.keys) for copy in present(store, layout).segments
    }


def test_repeated_task_counts_what_its_lost_attempt_sent(store, layout, segments):
    """A worker is lost with the rows of what it copied, and Spark begins its task again in the same run."""
    run(store, layout, segments)
    assert {row["base_offset"]: row["object_bytes"] for row in run(store, layout, segments)} == sizes(store, layout)
    assert {row["object_bytes"] for row in run(store, layout, segments, replace(ME, run_id="run-2"))} == {0}


def test_killed_at_any_step_and_run_again_it_ends_as_a_fresh_run(tmp_path, layout, name, segments):
    clock = Clock()
    run(KillableStore(DirectoryStore(tmp_path / "counted"), clock), layout, segments)
    assert clock.steps >= len(CLOSED) * (OBJECTS[name] + 2)
    for step in range(clock.steps):
        store = DirectoryStore(tmp_path / f"killed-{step}")
        with pytest.raises(KilledError):
            run(KillableStore(store, Clock(step)), layout, segments)
        assert [copy.start_offset for copy in present(store, layout).segments] == sorted(
            {copy.start_offset for copy in present(store, layout).segments}
        )
        rows = run(store, layout, segments)
        assert [row["error"] for row in rows] == [None] * len(rows), step
        finished = {row["base_offset"]: row["object_bytes"] for row in rows if row["state"] == "COPY_SEGMENT_FINISHED"}
        assert finished == sizes(store, layout), step
        assert_tiered_once(store, layout, name)


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_killed_around_any_call_of_the_store_it_ends_as_a_fresh_run(tmp_path, layout, name, segments, fault):
    counting = FlakyStore(DirectoryStore(tmp_path / "counted"), {})
    run(counting, layout, segments[:2])
    for call in range(1, len(counting.calls) + 1):
        store = DirectoryStore(tmp_path / f"killed-{call}")
        with pytest.raises(Crash):
            run(FlakyStore(store, {call: fault}), layout, segments[:2])
        run(store, layout, segments[:2])
        assert_tiered_once(store, layout, name, CLOSED[:2])


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_whatever_call_fails_there_is_no_hole_and_the_next_run_makes_it_whole(tmp_path, layout, name, segments, fault):
    counting = FlakyStore(DirectoryStore(tmp_path / "counted"), {})
    run(counting, layout, segments)
    for call in range(1, len(counting.calls) + 1):
        store = DirectoryStore(tmp_path / f"failed-{call}")
        rows = run(FlakyStore(store, {call: fault}), layout, segments)
        starts = [copy.start_offset for copy in present(store, layout).segments]
        assert starts == list(CLOSED[: len(starts)])
        for row in rows[:-1]:
            assert row["error"] is None
        assert rows[-1]["error"] is None or rows[-1]["is_transient"]
        run(store, layout, segments)
        assert_tiered_once(store, layout, name)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choices=st.lists(st.integers(0, 1), max_size=60), killed=st.one_of(st.none(), st.integers(0, 30)))
def test_two_attempts_of_one_task_leave_one_copy_however_they_interleave(
    tmp_path_factory, monkeypatch, choices, killed
):
    """A speculative attempt beside the first; one of them may die at any call."""
    for module in ("stores.requests", "upload.segments_in_flight"):
        monkeypatch.setattr(f"tiersnap.remote_storage.{module}.ContextPool", Inline)
    folder: Path = tmp_path_factory.mktemp("interleaved")
    store, layout = DirectoryStore(folder / "remote"), LAYOUTS["aiven"]
    segments = planned(write_log(folder / "logs"))[:2]
    order, turn = iter(choices), iter(range(10_000))

    def choose(names: list[str]) -> str:
        name = names[next(order, 0) % len(names)]
        if next(turn) == killed:
            turns.kill(name)
        return name

    turns = Turns(choose)
    for name in "ab":
        turns.add(name, lambda view: run(view, layout, segments, replace(ME, wait=6)))
    results = turns.run(store)
    for rows in results.values():
        assert isinstance(rows, Killed) or all(row["is_transient"] for row in rows if row["error"])
    counts = Counter(copy.start_offset for copy in present(store, layout).segments)
    if killed is None:
        assert max(counts.values()) == 1
        assert any(
            {row["base_offset"] for row in rows if not row["error"]} >= set(CLOSED[:2]) for rows in results.values()
        )
        assert present(store, layout).leftovers == ()
    run(store, layout, segments)
    assert_tiered_once(store, layout, "aiven", CLOSED[:2])


def test_after_a_failure_the_rest_of_the_partition_waits(store, layout, name, segments):
    Path(segments[1].log.path).write_bytes(b"x" * segments[1].log.size)
    rows = run(store, layout, segments)
    assert [(row["base_offset"], row["state"]) for row in rows] == [
        (0, "COPY_SEGMENT_STARTED"),
        (0, "COPY_SEGMENT_FINISHED"),
        (5, "COPY_SEGMENT_STARTED"),
        (5, "DELETE_SEGMENT_STARTED"),
        (5, "DELETE_SEGMENT_FINISHED"),
    ]
    assert rows[-1]["error_type"] == "CorruptSegmentError"
    assert not rows[-1]["is_transient"]
    assert "segment 5" in rows[-1]["error"]
    assert rows[-1]["hint"]
    assert [copy.start_offset for copy in present(store, layout).segments] == [0]
    assert present(store, layout).leftovers == ()


def test_what_cannot_be_deleted_stays_named_by_the_claim_and_goes_next_time(store, layout, name, segments):
    class Undeletable(FlakyStore):
        def put_if_absent(self, key, data, metadata=None):
            if key.startswith("claims/"):
                return self.inner.put_if_absent(key, data, metadata)
            raise TransientError("no")

        def delete(self, keys):
            raise TransientError("nor that")

    rows = run(Undeletable(store, {}), layout, segments)
    assert rows[-1]["state"] == "DELETE_SEGMENT_STARTED"
    first, *behind = present(store, layout).leftovers
    assert first.segment_id == rows[-1]["segment_id"]
    assert all(each.claim is not None for each in (first, *behind))
    run(store, layout, segments)
    assert_tiered_once(store, layout, name)


def test_segments_that_another_run_finished_since_the_listing_count(store, layout, name, segments):
    """`unblock` names the segments of brokers that count; those with a claim count as well, and nothing waits."""
    run(store, layout, segments)
    paused: list[float] = []
    tierer = replace(ME, run_id="run-2", wait=10, pause=paused.append)
    place = RemoteLocation(store, layout)
    events = list(tier_partition(place, PARTITION, segments, tierer, of_brokers=frozenset()))
    assert [event.error for event in events] == [None] * len(CLOSED)
    assert paused == [], "a finished segment is not waited for"
    assert_tiered_once(store, layout, name)


def test_a_segment_that_another_process_holds_waits_for_its_copy(store, layout, name, segments):
    held = ClaimedSegment(PARTITION, 0, 0)
    other = Attempt.of(new_segment_id(), "run-other", process=structs.replace(this_process(), host="elsewhere"))
    claim_protocol.claim(store, held, other)
    paused = []
    (row,) = run(store, layout, segments, replace(ME, wait=10, pause=paused.append))
    assert row["error_type"] == "ClaimedError"
    assert row["is_transient"]
    assert present(store, layout).segments == ()
    assert sum(paused) == 10, "waited for once"

    paused.clear()

    def other_finishes(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            run(store, layout, segments[:1], replace(ME, run_id="run-other"))

    rows = run(store, layout, segments, replace(ME, wait=10, pause=other_finishes))
    assert len(paused) == 2
    assert [row["error"] for row in rows] == [None] * len(rows)
    assert_tiered_once(store, layout, name)


def test_an_attempt_whose_claim_was_taken_by_one_that_died_takes_it_back(store, layout, name, segments):
    """As Spark does it: a speculative attempt takes the claim over, and its executor is lost before it has copied."""
    held = ClaimedSegment(PARTITION, 0, 0)
    taken = []

    class TakenWhileItCopies(FlakyStore):
        def put_file_if_absent(self, key, *args, **options):
            if not taken and OF_FIRST in key:
                taken.append(claim_protocol.claim(self.inner, held, Attempt.of(new_segment_id(), ME.run_id)))
            return self.inner.put_file_if_absent(key, *args, **options)

    paused = []
    rows = run(TakenWhileItCopies(store, {}), layout, segments, replace(ME, wait=10, pause=paused.append))
    assert taken, "the claim was taken over"
    assert sum(paused) >= 10, "it waited for the copy of the other"
    assert [row["error"] for row in rows] == [None] * len(rows)
    assert_tiered_once(store, layout, name)


def test_an_attempt_whose_claim_was_taken_makes_nothing_visible(store, segments):
    sent, shown = [], []

    class TakenWhileItCopies(FlakyStore):
        def put_file_if_absent(self, key, *args, **options):
            if not sent:
                held = ClaimedSegment(PARTITION, 0, 0)
                claim_protocol.claim(self.inner, held, Attempt.of(new_segment_id(), ME.run_id))
            sent.append(key)
            return self.inner.put_file_if_absent(key, *args, **options)

        def put_if_absent(self, key, data, metadata=None):
            shown.append(key)
            return self.inner.put_if_absent(key, data, metadata)

    rows = run(TakenWhileItCopies(store, {}), AivenLayout(), segments[:1])
    assert [row["error"] for row in rows if row["state"] == "COPY_SEGMENT_FINISHED"] == [None]
    assert sent[0].replace(".log", ".rsm-manifest") not in shown
    assert sent[1].replace(".log", ".rsm-manifest") in shown


def test_an_attempt_whose_objects_another_one_deleted_takes_the_copy_of_that_one(store, layout, name, segments):
    """Who takes a claim over deletes what it finds of the attempt before, which may be at work still."""
    others = []

    class OvertakenWhileItCopies(FlakyStore):
        def put_file_if_absent(self, key, *args, **options):
            put = self.inner.put_file_if_absent(key, *args, **options)
            if others or OF_FIRST not in key:
                return put
            others.append(None)
            others[0] = run(self.inner, layout, segments[:1])
            raise ObjectNotFoundError(f"{key}: the object does not exist", key=key)

    rows = run(OvertakenWhileItCopies(store, {}), layout, segments)
    assert [row["error"] for row in others[0]] == [None] * len(others[0])
    assert [row["error"] for row in rows] == [None] * len(rows)
    assert_tiered_once(store, layout, name)


def test_beside_a_copier_that_works_nothing_is_tiered(store, layout, segments):
    folder = keys.partition_segments(PARTITION, local=isinstance(layout, LocalTieredStorageLayout))
    key = f"{folder}{5:020d}-{new_segment_id()}.log"
    store.put_if_absent(key, b"a broker's")
    (row,) = run(store, layout, segments, replace(ME, now=ME.now + 10 * ME.copy_grace))
    assert row["error_type"] == "CopyInFlightError"
    assert row["is_transient"]
    assert [info.key for info in store.list()] == [key]
    age(store, key, ME.copy_grace + 1000)
    rows = run(store, layout, segments)
    assert rows[-1]["error"] is None
    assert store.get(key) == b"a broker's", "nobody knows whose it is"


def test_what_an_attempt_left_that_another_one_finished_without_is_deleted(tmp_path, store, layout, name, segments):
    """As after an attempt that Spark held for dead: its copy is whole, and the claim names another one as finished."""
    first, second = (tier(tmp_path / "logs" / "orders-0", store, layout=layout, bases={0})[0] for _ in range(2))
    held = ClaimedSegment(PARTITION, 0, 0)
    claim_protocol.claim(store, held, Attempt.of(first.id.segment_id, "run-0"))
    claim_protocol.finish(store, claim_protocol.claim(store, held, Attempt.of(second.id.segment_id, "run-0")))
    assert [left.segment_id for left in present(store, layout).superseded] == [first.id.segment_id]
    (row,) = run(store, layout, segments[:1])
    assert (row["segment_id"], row["error"]) == (second.id.segment_id, None)
    assert_tiered_once(store, layout, name, CLOSED[:1])


def test_a_complete_copy_stays_until_another_one_is_finished(tmp_path, store, layout, name, segments):
    """The copy that the claim calls finished lost its log; that of an attempt before is all that there is."""
    first, second = (tier(tmp_path / "logs" / "orders-0", store, layout=layout, bases={0})[0] for _ in range(2))
    held = ClaimedSegment(PARTITION, 0, 0)
    claim_protocol.claim(store, held, Attempt.of(first.id.segment_id, "run-0"))
    claim_protocol.finish(store, claim_protocol.claim(store, held, Attempt.of(second.id.segment_id, "run-0")))
    store.delete([layout.log_key(second)])
    calls = 0
    while True:
        calls += 1
        again = DirectoryStore(tmp_path / str(calls))
        shutil.copytree(store.root, again.root)
        try:
            run(FlakyStore(again, {calls: Fault.CRASH_AFTER}), layout, segments[:1])
            break
        except Crash:
            listed = list_segments(RemoteLocation(again, layout), PARTITION)
            assert any(isinstance(read_segment(again, each), RemoteSegment) for each in listed), calls
        rows = run(again, layout, segments[:1])
        assert [row["error"] for row in rows] == [None] * len(rows)
        run(again, layout, segments[:1])
        # Records may name the one that was finished.
        left = [info.key for info in again.list() if second.id.segment_id in info.key]
        assert len(left) == OBJECTS[name] - 1
        again.delete(left)
        assert_tiered_once(again, layout, name, CLOSED[:1])
    assert calls > 10


def test_what_a_broker_has_tiered_is_not_copied_again(tmp_path, store, segments):
    layout = AivenLayout()
    theirs = tier(tmp_path / "logs" / "orders-0", store, layout=layout, bases={0, 5})
    before = {info.key for info in store.list()}
    rows = run(store, layout, segments)
    assert [row["state"] for row in rows] == [None, None, "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"]
    assert [row["segment_id"] for row in rows[:2]] == [each.id.segment_id for each in theirs]
    added = {info.key for info in store.list()} - before
    assert all(f"{10:020d}" in key for key in added)


def test_copies_under_leader_epochs_that_lost_the_election_are_no_copies_of_this_log(tmp_path, store, segments):
    layout = AivenLayout()
    tier(tmp_path / "logs" / "orders-0", store, layout=layout)
    ours = planned(write_log(tmp_path / "ours", epoch=3))
    rows = run(store, layout, ours)
    assert [(row["base_offset"], row["state"]) for row in rows] == [
        (0, None),
        (5, "COPY_SEGMENT_STARTED"),
        (5, "COPY_SEGMENT_FINISHED"),
        (10, "COPY_SEGMENT_STARTED"),
        (10, "COPY_SEGMENT_FINISHED"),
    ]


def test_a_whole_copy_of_a_replica_that_rolled_earlier_stays_whatever_happens_to_the_longer_one(
    tmp_path, layout, name, segments
):
    longer = planned(write_replica_that_rolled_later(tmp_path / "longer"))
    assert (longer[0].base_offset, longer[0].next_base_offset) == (0, 10)
    before = DirectoryStore(tmp_path / "before")
    run(before, layout, segments[:1])
    (first,) = (replace(copy, claim=None, is_brokers=False) for copy in present(before, layout).segments)
    for step in range(30):
        store = DirectoryStore(tmp_path / f"killed-{step}")
        shutil.copytree(before.root, store.root)
        try:
            run(KillableStore(store, Clock(step)), layout, longer)
            is_whole = True
        except KilledError:
            is_whole = False
        for again in ((), longer, longer):
            rows = run(store, layout, again)
            assert [row["error"] for row in rows] == [None] * len(rows)
            found = present(store, layout)
            assert first in [replace(copy, claim=None, is_brokers=False) for copy in found.segments]
        assert [
            (copy.start_offset, copy.end_offset) for copy in found.segments if copy.segment_id != first.segment_id
        ] == [
            (0, 10),
            (10, 15),
        ]
        assert found.leftovers == ()
        if is_whole:
            break
    assert is_whole
    assert step > OBJECTS[name]


def test_a_replica_that_rolled_elsewhere_was_killed_anywhere_and_all_is_finished_as_this_log_has_it(
    tmp_path, layout, segments
):
    longer, clock = planned(write_replica_that_rolled_later(tmp_path / "longer")), Clock()
    run(KillableStore(DirectoryStore(tmp_path / "counted"), clock), layout, longer)
    for step in range(clock.steps):
        store = DirectoryStore(tmp_path / f"killed-{step}")
        with pytest.raises(KilledError):
            run(KillableStore(store, Clock(step)), layout, longer)
        rows = run(store, layout, segments)
        assert [row["error"] for row in rows] == [None] * len(rows), step
        finished = {held.claim.finished for held in list_claims(store, PARTITION)}
        counts = [copy.facts for copy in present(store, layout).segments if copy.segment_id in finished]
        assert coverage_of(counts, ((0, 0),), 15).covered == ((0, 15),), step


def test_a_manifest_without_its_log_is_no_copy(tmp_path, store, segments):
    layout = AivenLayout()
    (theirs,) = tier(tmp_path / "logs" / "orders-0", store, layout=layout, bases={0})
    store.delete([layout.log_key(theirs)])
    (left,) = present(store, layout).leftovers
    assert left.is_visible
    assert "no .log" in left.problem
    rows = run(store, layout, segments[:1])
    assert [row["state"] for row in rows] == ["COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"]


# --- the snapshot


def test_a_snapshot_object_that_vanished_is_said_by_its_type(store, layout, segments):
    first = with_snapshot(segments[0], data=None, object_key=keys.snapshot(PARTITION, 5))
    (row,) = run(store, layout, [first])
    assert (row["error_type"], row["is_transient"], row["state"]) == ("SnapshotVanishedError", True, None)
    assert [info.key for info in store.list()] == []


@pytest.mark.parametrize("content", [bytes.fromhex("000148674bc700000000"), b"", b"no snapshot at all"])
def test_a_snapshot_object_that_was_overwritten_is_not_uploaded(store, layout, segments, content):
    key = keys.snapshot(PARTITION, 5)
    store.put_if_absent(key, content)
    first = with_snapshot(segments[0], data=None, object_key=key)
    (row,) = run(store, layout, [first])
    assert row["error_type"] == "SnapshotChangedError"
    assert [info.key for info in store.list()] == [key]


def test_a_brokers_snapshot_that_was_replaced_by_an_empty_one_is_not_uploaded(tmp_path, store, layout, name, segments):
    data = segments[0].snapshot.data
    path = tmp_path / "00000000000000000005.snapshot"
    path.write_bytes(data)
    file = replace(segments[0].log, path=str(path), size=len(data))
    first = with_snapshot(
        segments[0], data=None, file=file, provenance=Provenance.BROKER, verdict=SnapshotVerdict.MATCHES
    )
    same_size = bytearray(data)
    same_size[-1] ^= 1
    for content, error in (
        (bytes.fromhex("000148674bc700000000"), "SnapshotChangedError"),
        (bytes(same_size), "SnapshotChangedError"),
        (None, "SnapshotVanishedError"),
    ):
        path.unlink() if content is None else path.write_bytes(content)
        (row,) = run(store, layout, [first])
        assert row["error_type"] == error
    path.write_bytes(data)
    run(store, layout, [first])
    assert_tiered_once(store, layout, name, CLOSED[:1])
