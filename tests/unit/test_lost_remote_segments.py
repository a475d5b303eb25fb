"""Remote segments of ours that lost objects: uploaded again if nobody can have deleted them, and left alone if so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.flaky_store import Fault, FlakyStore
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import write_partition
from tests.reference.tiered import age, tier
from tests.unit.test_whole_but_not_counted import NOW, ORDERS, SEGMENTS, publishable
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS, open_layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim_protocol import STALE_AFTER_MS
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected_of
from tiersnap.snapshot.replay.expiry import ReplayOptions
from tiersnap.snapshot.replay.remote_listing import ListedCopy
from tiersnap.snapshot.replay.remote_records import PartitionRecords, Records
from tiersnap.snapshot.tables.remote_log_segments import COPY_FINISHED

pytestmark = pytest.mark.unit

KINDS = [
    (name, kind)
    for name in LAYOUTS
    for kind in KeyKind
    if kind.is_local is (name != "aiven") and kind.suffix in {".log", ".indexes", ".rsm-manifest", ".timeindex"}
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_partition(tmp_path / "logs", "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    return tmp_path / "logs"


def run(
    store: DirectoryStore | FlakyStore,
    source: Path,
    run_id: str,
    layout: Layout,
    records: Records | None = None,
) -> HostPartition:
    tierer = Tierer(run_id, NOW, wait=0)
    tiers = HostTier(RemoteLocation(store, layout), ReplayOptions(), tierer, records=records, apply=True)
    (done,) = tiers.partitions(selected_of(open_log_dirs([str(source)]), Selection()))
    return done


def lose(store: DirectoryStore, offset: int, *kinds: KeyKind) -> None:
    """Delete objects of the segment at an offset; all of its objects where no kinds are given."""
    parsed = {info.key: keys.recognise(info.key) for info in store.list()}
    of_it = [key for key, found in parsed.items() if found and found.segment_id and found.offset == offset]
    wanted = [key for key in of_it if not kinds or parsed[key].kind in kinds]
    assert wanted
    store.delete(wanted)


def verdicts(done: HostPartition) -> dict[int, str]:
    return {each.base_offset: each.verdict for each in done.readiness}


@pytest.mark.parametrize(("name", "kind"), KINDS)
@pytest.mark.parametrize("offset", [0, 10])
def test_tier_uploads_a_segment_of_ours_again_when_it_lost_an_object(
    store: DirectoryStore, source: Path, name: str, kind: KeyKind, offset: int
) -> None:
    layout = open_layout(name)
    run(store, source, "run-1", layout)
    lose(store, offset, kind)
    done = run(store, source, "run-2", layout)
    assert (done.errors, Counter(verdicts(done).values())["UPLOADED"]) == ([], 3)
    found = list_remote_partition(RemoteLocation(store, layout), ORDERS)
    assert [copy.start_offset for copy in found.segments] == [0, 10, 20]
    assert run(store, source, "run-3", layout).events == []
    assert tiersnap("verify", "--remote", store.root, "--layout", name).exit_code == 0


@pytest.mark.parametrize(("name", "kind"), KINDS)
@pytest.mark.parametrize("is_killed", [False, True])
def test_tier_and_sweep_delete_no_object_of_a_segment_that_was_finished(
    store: DirectoryStore, source: Path, name: str, kind: KeyKind, is_killed: bool
) -> None:
    """The records of a cluster may name it, and no cluster was asked."""
    layout = open_layout(name)
    (segment_id, *_) = (each.segment_id for each in run(store, source, "run-1", layout).events)
    lose(store, 0, kind)
    left = {info.key for info in store.list() if segment_id in info.key}
    if is_killed:
        fails = FlakyStore(store, {1: Fault.FAIL_BEFORE}, counted={"put_file_if_absent"})
        assert run(fails, source, "run-2", layout).errors
    for number in (3, 4):
        assert run(store, source, f"run-{number}", layout).errors == []
        for info in list(store.list()):
            age(store, info.key, 2 * STALE_AFTER_MS)
    done = run(store, source, "run-5", layout)
    assert (done.leftover_count, done.events) == (0, [])
    assert {info.key for info in store.list() if segment_id in info.key} == left
    found = list_remote_partition(RemoteLocation(store, layout), ORDERS)
    assert [copy.start_offset for copy in found.segments] == [0, 10, 20]


@pytest.mark.parametrize("kind", [KeyKind.LOG, KeyKind.INDEXES])
def test_tier_deletes_no_finished_segment_with_an_object_of_another_size(
    store: DirectoryStore, source: Path, kind: KeyKind
) -> None:
    layout = open_layout("aiven")
    (segment_id, *_) = (each.segment_id for each in run(store, source, "run-1", layout).events)
    (key,) = (info.key for info in store.list() if info.key.endswith(f"{segment_id}{kind.suffix}"))
    store.replace(key, store.get(key) + b"?")
    left = {info.key for info in store.list() if segment_id in info.key}
    assert run(store, source, "run-2", layout).errors == []
    assert {info.key for info in store.list() if segment_id in info.key} == left
    assert publishable(store) == [0, 10, 20]


@pytest.mark.parametrize(
    ("name", "kind"), [each for each in KINDS if each[1] not in (KeyKind.RSM_MANIFEST, KeyKind.LOCAL_LEADER_EPOCHS)]
)
def test_tier_uploads_a_wrong_segment_again_when_its_log_is_moved_away(
    store: DirectoryStore, source: Path, name: str, kind: KeyKind
) -> None:
    """No listing shows that it is wrong: `verify` names it, and tier leaves it until then."""
    layout, verify = open_layout(name), ("verify", "--remote", store.root, "--layout", name, "--depth", "full")
    run(store, source, "run-1", layout)
    parsed = {info.key: keys.recognise(info.key) for info in store.list()}
    (wrong,) = (key for key, found in parsed.items() if found and found.kind is kind and found.offset == 10)
    store.replace(wrong, store.get(wrong)[:-1] + b"?")
    damaged = tiersnap(*verify)
    assert (damaged.exit_code, damaged.row(base_offset=10)["verdict"]) == (5, "CORRUPT")
    assert run(store, source, "run-2", layout).events == []
    lose(store, 10, KeyKind.LOCAL_LOG if kind.is_local else KeyKind.LOG)
    assert run(store, source, "run-3", layout).errors == []
    assert tiersnap(*verify).exit_code == 0
    found = list_remote_partition(RemoteLocation(store, layout), ORDERS)
    assert [copy.start_offset for copy in found.segments] == [0, 10, 20]


@pytest.mark.parametrize("lost", [[0], [10], [0, 10]])
def test_tier_uploads_segments_again_when_all_of_them_is_gone(
    store: DirectoryStore, source: Path, lost: list[int]
) -> None:
    run(store, source, "run-1", open_layout("aiven"))
    for offset in lost:
        lose(store, offset)
    assert run(store, source, "run-2", open_layout("aiven")).errors == []
    assert publishable(store) == [0, 10, 20]


def test_tier_asks_the_records_whether_a_lost_segment_may_be_uploaded_again(
    store: DirectoryStore, source: Path
) -> None:
    """`mend` brings back what a record names."""
    layout = open_layout("aiven")
    named = tuple(
        ListedCopy(
            each.segment_id or "",
            each.base_offset,
            each.next_base_offset,
            COPY_FINISHED,
            leader_epochs=each.leader_epochs,
        )
        for each in run(store, source, "run-1", layout).events
    )
    lose(store, 0)
    lose(store, 10, KeyKind.LOG)
    topic_id = ORDERS.topic_id or ""
    done = run(store, source, "run-2", layout, {("orders", 0): PartitionRecords(topic_id, named, is_complete=True)})
    assert (verdicts(done)[0], verdicts(done)[10], done.events) == ("GAP_IN_REMOTE", "GAP_IN_REMOTE", [])
    none = PartitionRecords(topic_id, is_complete=True)
    assert run(store, source, "run-3", layout, {("orders", 0): none}).errors == []
    assert publishable(store) == [0, 10, 20]


def test_tier_reads_a_damaged_manifest_once_in_a_run(source: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    words = ("--log-level", "warning", "tier", source, "--remote", remote, "--now", "2026-11-21T13:00:00Z", "--apply")
    assert tiersnap(*words).exit_code == 0
    for path in sorted(remote.rglob("*.rsm-manifest"))[1:]:
        path.write_text("{")
    again = tiersnap(*words)
    assert again.err.count("reading again") == 2, again.err
    assert again.exit_code == 0, again.err


def test_tier_leaves_a_gap_where_a_brokers_segment_lost_an_object(store: DirectoryStore, source: Path) -> None:
    tier(source / "orders-0", store)
    lose(store, 10, KeyKind.LOG)
    assert verdicts(run(store, source, "run-1", open_layout("aiven")))[10] == "GAP_IN_REMOTE"


def test_run_uploads_a_lost_segment_again_whatever_its_tables_say(tmp_path: Path, source: Path) -> None:
    runner = Runner(tmp_path, source)
    assert runner().verdicts == {"ACTIVE_SEGMENT": 1, "UPLOADED": 3}
    lose(runner.store, 10, KeyKind.INDEXES)
    ran = runner()
    assert (ran.errors, ran.verdicts) == ([], {"ACTIVE_SEGMENT": 1, "UPLOADED": 3})
    assert publishable(runner.store) == [0, 10, 20]
    runner()
    assert runner().did_nothing


def test_tier_uploads_a_lost_segment_again_after_an_upload_was_cut_short(store: DirectoryStore, source: Path) -> None:
    """Its claim names no finished copy by then."""
    layout = open_layout("aiven")
    run(store, source, "run-1", layout)
    lose(store, 0, KeyKind.LOG)
    fails = FlakyStore(store, {1: Fault.FAIL_BEFORE}, counted={"put_file_if_absent"})
    assert run(fails, source, "run-2", layout).errors
    assert publishable(store) == [10, 20]
    assert run(store, source, "run-3", layout).errors == []
    assert publishable(store) == [0, 10, 20]
