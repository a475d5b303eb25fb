"""What ended attempts and killed processes left goes with the next run, and no cluster is asked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import structs

from tests.reference.command import assert_said, tiersnap
from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.left_over import DAY, make_old, tier_ours
from tests.reference.listed_claims import list_claims
from tests.reference.log_builder import write_partition
from tests.reference.lying_store import LyingStore
from tests.reference.planned import PARTITION, planned, write_log
from tests.reference.tiered import age, aiven, rows_of, tier
from tests.unit.test_replace_wrong import flipped
from tests.unit.test_whole_but_not_counted import NOW, ORDERS, SEGMENTS
from tiersnap.remote_storage.errors import UnknownTopicError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment, HeldClaim
from tiersnap.remote_storage.locks.claim_protocol import STALE_AFTER_MS
from tiersnap.remote_storage.locks.process import this_process
from tiersnap.remote_storage.metadata.segment_metadata import new_segment_id
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory, list_remote_partition
from tiersnap.remote_storage.retire.partition_leftovers import Swept, sweep_partition
from tiersnap.remote_storage.retire.store_leftovers import SweptStore, sweep_store
from tiersnap.remote_storage.retire.sweep_task import LEFT, SweepTask
from tiersnap.remote_storage.stores.directory_files import UNFINISHED
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.remote_storage.stores.probe import PROBES
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.upload.host_outcome import HostOutcome
from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected_of
from tiersnap.snapshot.replay.expiry import ReplayOptions

pytestmark = pytest.mark.unit

LAYOUT = AivenLayout()
ELSEWHERE = structs.replace(this_process(), host="elsewhere")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_partition(tmp_path / "logs", "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    return tmp_path / "logs"


def run(store: ObjectStore, source: Path, run_id: str) -> HostPartition:
    tiers = HostTier(aiven(store), ReplayOptions(), Tierer(run_id, NOW, wait=0), apply=True)
    (done,) = tiers.partitions(selected_of(open_log_dirs([str(source)]), Selection()))
    return done


def present(store: ObjectStore) -> RemoteInventory:
    return list_remote_partition(aiven(store), PARTITION)


def late_write(store: DirectoryStore, source: Path, *, suffix: str) -> str:
    """A partition tiered beside an object that an attempt, which ended, had sent; the key of that object."""
    lying = LyingStore(store, late={suffix})
    assert run(lying, source, "run-1").errors
    assert run(store, source, "run-2").errors == []
    before = {info.key for info in store.list()}
    lying.deliver()
    (key,) = {info.key for info in store.list()} - before
    return key


@pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
def test_tier_removes_a_late_object_of_an_ended_attempt(store: DirectoryStore, source: Path, suffix: str) -> None:
    key = late_write(store, source, suffix=suffix)
    done = run(store, source, "run-3")
    assert (done.errors, done.leftovers_removed, done.events) == ([], 1, [])
    assert store.head(key) is None
    assert [copy.start_offset for copy in list_remote_partition(aiven(store), ORDERS).segments] == [0, 10, 20]


def test_a_plan_recommends_no_removal_from_a_topic_that_the_cluster_lacks(store: DirectoryStore, source: Path) -> None:
    """With `apply` nothing of such a topic is removed, so the plan would name the same command for ever."""
    key = late_write(store, source, suffix=".log")
    refusal = UnknownTopicError("orders: no such topic in the cluster")
    tiers = HostTier(aiven(store), ReplayOptions(), Tierer("run-3", NOW, wait=0))
    for apply in (False, True):
        refused = replace(tiers, refusal_of=lambda _: refusal, apply=apply)
        done = HostOutcome(tuple(refused.partitions(selected_of(open_log_dirs([str(source)]), Selection()))))
        assert (done.may_write, done.leftovers_removed, done.errors) == (False, 0, [])
    assert store.head(key) is not None


def test_tier_partition_removes_a_late_log_once_another_is_there(store: DirectoryStore, tmp_path: Path) -> None:
    """Before that it may be the only one."""
    segments = planned(write_log(tmp_path / "logs"))
    lying, me = LyingStore(store, late={".log"}), Tierer("run-1", NOW, wait=0)
    rows_of(tier_partition(aiven(lying), PARTITION, segments[:1], me))
    lying.deliver()
    ((key, age_ms),) = [(info.key, STALE_AFTER_MS + 1000) for info in store.list() if info.key.endswith(".log")]
    age(store, key, age_ms)
    for left in (1, 0):
        rows = rows_of(tier_partition(aiven(store), PARTITION, segments, me))
        assert [row["error"] for row in rows] == [None] * len(rows)
        assert len(present(store).leftovers) == left


def test_sweep_task_removes_a_late_object_and_says_what_it_cannot_remove(store: DirectoryStore, source: Path) -> None:
    key = late_write(store, source, suffix=".log")
    refused = FlakyStore(store, {1: Fault.FAIL_BEFORE}, counted={"delete"})
    left = {"topic": ORDERS.topic, "topic_id": ORDERS.topic_id, "partition": 0, "local_start": 0}
    batch = pa.RecordBatch.from_pylist([left], schema=LEFT)
    for each, expected in ((refused, (0, True)), (store, (1, False))):
        (done,) = SweepTask(aiven(each))(iter([batch]))
        (row,) = done.to_pylist()
        assert (row["objects"], row["failure"] is not None) == expected
    assert store.head(key) is None


def killed_attempt(store: DirectoryStore, tmp_path: Path) -> HeldClaim:
    """An attempt of another host that was killed behind its log; nobody goes on with it."""
    segments = planned(write_log(tmp_path / "logs"))
    me = Tierer("run-1", NOW, process=ELSEWHERE, wait=0)
    with pytest.raises(Crash):
        flaky = FlakyStore(store, {1: Fault.CRASH_AFTER}, counted={"put_file_if_absent"})
        rows_of(tier_partition(aiven(flaky), PARTITION, segments[:1], me))
    (held,) = list_claims(store, PARTITION)
    return held


def test_sweep_partition_ends_a_killed_attempt_before_it_deletes(store: DirectoryStore, tmp_path: Path) -> None:
    killed = killed_attempt(store, tmp_path)
    for info in list(store.list()):
        age(store, info.key, STALE_AFTER_MS + 1000)
    assert sweep_partition(store, present(store)) == Swept(), "its log is the only one"
    assert claim_protocol.is_still_ours(store, killed)
    tier(tmp_path / "logs" / "orders-0", store, bases={0})
    assert sweep_partition(store, present(store)).objects == 1
    assert present(store).leftovers == ()
    assert not claim_protocol.is_still_ours(store, killed), "who wakes up makes nothing visible"


def test_sweep_partition_keeps_a_killed_attempts_log_beside_a_damaged_one(
    store: DirectoryStore, tmp_path: Path
) -> None:
    """A broker copied the segment, too, and the store has flipped a bit of its log since."""
    killed_attempt(store, tmp_path)
    (theirs,) = tier(tmp_path / "logs" / "orders-0", store, bases={0})
    path = store.root / LAYOUT.log_key(theirs)
    path.write_bytes(flipped(path.read_bytes()))
    for info in list(store.list()):
        age(store, info.key, STALE_AFTER_MS + 1000)
    assert sweep_partition(store, present(store)) == Swept()
    assert sweep_partition(store, present(store), log_start=5).objects == 1, "no consumer needs its offsets"


def test_sweep_partition_keeps_a_superseded_log_beside_a_damaged_one(store: DirectoryStore, source: Path) -> None:
    """The attempt lost its indexes, so that its log was deleted unread."""
    first, second = superseded(store, source)
    store.delete([key for key in keys_of(store, first) if key.endswith(".indexes")])
    path = next((store.root / key) for key in keys_of(store, second) if key.endswith(".log"))
    right = path.read_bytes()
    path.write_bytes(flipped(right))
    found = list_remote_partition(aiven(store), ORDERS)
    (doubt,) = sweep_partition(store, found).doubts
    kept = f"{first} at offset 10, but tiersnap keeps the replaced segment"
    assert f"{kept}: segment {second}, which has the same offsets" in doubt.message
    assert len(keys_of(store, first)) == 2
    path.write_bytes(right)
    assert sweep_partition(store, found).objects == 2


def test_sweep_partition_leaves_an_attempt_that_may_be_at_work(store: DirectoryStore, tmp_path: Path) -> None:
    killed = killed_attempt(store, tmp_path)
    (log,) = [info.key for info in store.list() if info.key.endswith(".log")]
    age(store, log, STALE_AFTER_MS + 1000)
    assert sweep_partition(store, present(store)).objects == 0, "its claim is young"
    assert claim_protocol.is_still_ours(store, killed)


def test_sweep_partition_leaves_what_no_claim_names_and_whole_segments(store: DirectoryStore, tmp_path: Path) -> None:
    tier_ours(store, LAYOUT, tmp_path / "logs")
    key = f"{keys.partition_segments(PARTITION)}{5:020d}-{new_segment_id()}.log"
    store.put_if_absent(key, b"a broker's")
    make_old(store)
    before = [info.key for info in store.list()]
    assert sweep_partition(store, present(store)).objects == 0
    assert [info.key for info in store.list()] == before


def test_sweep_store_removes_old_probes_and_temporary_files_of_ours(store: DirectoryStore) -> None:
    folder = store.root / UNFINISHED
    folder.mkdir(parents=True)
    ours, young, theirs = f"tiersnap-{'a' * 32}.log", f"tiersnap-{'b' * 32}.log", "notes.txt"
    for name in (ours, young, theirs):
        (folder / name).write_text("x")
    probes = [f"{PROBES}{digit * 32}" for digit in "ab"]
    for key in probes:
        store.put_if_absent(key, b"?")
    for key in (f"{UNFINISHED}/{ours}", f"{UNFINISHED}/{theirs}", probes[0]):
        age(store, key, 2 * DAY)
    assert sweep_store(store, lambda _: True) == SweptStore(probes=1, files=1)
    assert sorted(path.name for path in folder.iterdir() if path.name != "lock") == [theirs, young]
    assert [info.key for info in store.list()] == probes[1:]


def test_tier_says_what_killed_processes_left(store: DirectoryStore, source: Path) -> None:
    probe = f"{PROBES}{'a' * 32}"
    store.put_if_absent(probe, b"?")
    age(store, probe, 2 * DAY)
    ran = tiersnap("tier", source, "--remote", store.root, "--apply")
    assert_said(ran, 0, "removed leftovers of ended attempts and killed processes: 1 probe")
    assert json.loads(ran.out)["result"]["leftovers_removed"] == {"probes": 1}
    assert store.head(probe) is None


def test_a_claim_of_an_ended_attempt_names_it(store: DirectoryStore) -> None:
    """What the sweep relies on: who gives up stays named."""
    segment = ClaimedSegment(PARTITION, 0, 0)
    held = claim_protocol.claim(store, segment, Attempt.of(new_segment_id(), "run"))
    assert claim_protocol.release(store, held)
    found = claim_protocol.read_claim(store, segment)
    assert found is not None
    assert (found.holder.segment_id, found.holder.ended) == (held.claim.holder.segment_id, True)


class StoreOfRegion(DirectoryStore):
    """A store that is reached by an option."""

    words = S3Settings(region="eu-1").words


def superseded(store: DirectoryStore, source: Path) -> tuple[str, str]:
    """A whole copy of the segment at 10 that another attempt finished without; the ids of both."""
    assert run(store, source, "run-1").errors == []
    (claim,) = (held.claim for held in list_claims(store, ORDERS) if held.segment.base_offset == 10)
    first = claim.holder.segment_id
    attempt = Attempt.of(new_segment_id(), "run-2")
    for info in [info for info in store.list() if first in info.key]:
        data = store.get(info.key).replace(first.encode(), attempt.segment_id.encode())
        store.put_if_absent(info.key.replace(first, attempt.segment_id), data)
    # As if the first attempt had been killed before it said that it had finished.
    told = structs.replace(claim, attempts=(claim.holder, attempt), finished=attempt.segment_id)
    (key,) = (info.key for info in store.list("claims/") if f"/{10:020d}-" in info.key)
    store.replace(key, told.encode())
    found = list_remote_partition(aiven(store), ORDERS)
    assert [each.segment_id for each in found.superseded] == [first]
    return first, attempt.segment_id


def keys_of(store: DirectoryStore, segment_id: str) -> set[str]:
    return {info.key for info in store.list(keys.partition_segments(ORDERS)) if segment_id in info.key}


def test_tier_removes_a_superseded_copy_once_the_one_that_remains_was_read(store: DirectoryStore, source: Path) -> None:
    first, second = superseded(store, source)
    done = run(store, source, "run-3")
    assert (done.errors, done.leftovers_removed) == ([], 3)
    assert (keys_of(store, first), len(keys_of(store, second))) == (set(), 3)


class StoreWithHold(DirectoryStore):
    """A store that deletes no manifest, as with Object Lock."""

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        wanted = list(keys)
        held = tuple(DeleteFailure(key, "held") for key in wanted if key.endswith(".rsm-manifest"))
        return held + DirectoryStore.delete(self, [key for key in wanted if not key.endswith(".rsm-manifest")])


def test_tier_counts_no_object_as_removed_that_stays_behind_one_that_cannot_be(
    store: DirectoryStore, source: Path
) -> None:
    """Two of three objects were counted as removed, and all three were there."""
    first, _ = superseded(store, source)
    before = keys_of(store, first)
    done = run(StoreWithHold(store.root), source, "run-3")
    assert (keys_of(store, first), done.leftovers_removed) == (before, 0)
    assert any("held" in each.message for each in done.errors), done.errors


@pytest.mark.parametrize("suffix", [".log", ".indexes"])
def test_tier_keeps_and_names_a_superseded_copy_beside_a_damaged_one(
    store: DirectoryStore, source: Path, suffix: str
) -> None:
    """The finished copy has the right sizes, and zeros in one object."""
    first, second = superseded(store, source)
    path = next((store.root / key) for key in keys_of(store, second) if key.endswith(suffix))
    path.write_bytes(bytes(path.stat().st_size))
    before = keys_of(store, first)
    store = StoreOfRegion(store.root)
    done = run(store, source, "run-3")
    assert keys_of(store, first) == before and len(before) == 3
    assert done.errors[0].hint == f"tiersnap verify --remote {store.uri} --region eu-1 --depth full"
    assert [each.exit_code for each in done.errors] == [ExitCode.DATA_CORRUPT]
    assert f"{first} at offset 10, but tiersnap keeps the replaced segment" in done.errors[0].message
    left = {"topic": ORDERS.topic, "topic_id": ORDERS.topic_id, "partition": 0, "local_start": 0}
    (swept,) = SweepTask(aiven(store))(iter([pa.RecordBatch.from_pylist([left], schema=LEFT)]))
    assert first in swept.to_pylist()[0]["failure"]
    assert keys_of(store, first) == before
