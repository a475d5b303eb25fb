"""`tiersnap expire`: only what no broker manages and nobody is at, recorded first, and ended wherever it is killed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.protocol import commands
from tests.protocol.installed import Inline, installed
from tests.protocol.logs import BASES
from tests.protocol.world import DAY, World
from tests.reference.command import assert_said, tiersnap
from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.left_over import CLUSTER, copies, finished, known, make_old, put_snapshots, tier_ours
from tests.reference.log_builder import TIMESTAMP, data_batch, write_partition
from tests.reference.planned import PARTITION, planned, write_log
from tests.reference.tiered import rows_of, tier
from tiersnap.remote_storage.errors import ObjectChangedError
from tiersnap.remote_storage.inventory.partition_objects import list_partition_objects
from tiersnap.remote_storage.inventory.remote_inventory import COPY_GRACE_MS, list_remote_partition
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, new_segment_id
from tiersnap.remote_storage.own_objects.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.own_objects.claim_protocol import STALE_AFTER_MS, claim
from tiersnap.remote_storage.own_objects.deletion_record import (
    Deleting,
    ExpireRecord,
    read_record,
    read_records,
    write_record,
)
from tiersnap.remote_storage.own_objects.process import Process, this_process
from tiersnap.remote_storage.own_objects.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.retire.expire_delete import carry_out, delete_expired, errors_of, exit_code_of
from tiersnap.remote_storage.retire.expire_plan import PartitionInUseError, in_use, plan_partition
from tiersnap.remote_storage.retire.known_to_cluster import Managed, Manager, manager_of
from tiersnap.remote_storage.retire.retention import Breach, ExpireAction, Retention
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.errors import CorruptDataError, ExitCode

pytestmark = pytest.mark.unit

NOBODY = Managed(Manager.NOBODY, "")
DELETED = SegmentState.DELETE_SEGMENT_FINISHED
ELSEWHERE = Process("another-host", 1, "x")


@pytest.fixture(params=[AivenLayout(), LocalTieredStorageLayout()], ids=["aiven", "local"])
def layout(request):
    return request.param


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "remote")


@pytest.fixture
def archive(store, layout, tmp_path):
    """Three segments of ours, [0, 5), [5, 10) and [10, 15), two days old."""
    tier_ours(store, layout, tmp_path / "logs")
    make_old(store)
    return store


def plan(store, managed: Managed = NOBODY, **limits: int):
    return plan_partition(store, list_partition_objects(store, PARTITION), managed, Retention(store.now(), **limits))


def left_of(store, layout) -> list[int]:
    return [each.start_offset for each in finished(store, layout)]


def test_what_retention_has_passed_goes_with_its_claims_and_snapshots_and_the_rest_stays_readable(archive, layout):
    put_snapshots(archive, [5, 10, 15])
    make_old(archive)
    going = plan(archive, log_start_offset=10)
    assert [(each.start_offset, each.breach) for each in going.segments] == [
        (0, Breach.LOG_START),
        (5, Breach.LOG_START),
    ]
    done = list(delete_expired(archive, going))
    assert {each.state for each in done} == {DELETED}
    assert left_of(archive, layout) == [10]
    (left,) = finished(archive, layout)
    assert copies(archive) == {left.id.segment_id}, "no object of the others"
    assert list(list_partition_objects(archive, PARTITION).claims) == [ClaimedSegment(PARTITION, 10, 0)]
    assert sorted(list_partition_objects(archive, PARTITION).snapshots) == [10, 15]
    assert read_record(archive, PARTITION) == ExpireRecord(log_start_offset=10)
    assert plan(archive, log_start_offset=10).segments == ()


def test_all_segments_of_an_archive_go_when_all_are_old(archive, layout):
    everything = plan(archive, milliseconds=archive.now() - TIMESTAMP - 100)
    assert [each.breach for each in everything.segments] == [Breach.TIME] * 3
    list(delete_expired(archive, everything))
    assert left_of(archive, layout) == []


@pytest.mark.parametrize("log_start", [10, 15])
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_killed_at_any_change_the_same_command_ends_it(archive, layout, fault, log_start, tmp_path):
    put_snapshots(archive, [5, 10, 15])
    make_old(archive)
    staying = [each for each in (0, 5, 10) if each >= log_start]
    kills = 0
    while True:
        store = DirectoryStore(tmp_path / f"killed-{kills}")
        shutil.copytree(archive.root, store.root)
        flaky = FlakyStore(store, {kills + 1: fault}, counted={"delete", "replace_if", "put_if_absent"})
        try:
            list(delete_expired(flaky, plan(store, log_start_offset=log_start)))
        except Crash:
            kills += 1
        else:
            break
        # Whatever lacks an object is recorded, so that the next run knows it, and the segment that stays is whole.
        begun = {each.segment_id for each in read_record(store, PARTITION).deleting}
        assert {each.segment_id for each in list_partition_objects(store, PARTITION).attempts if each.missing} <= begun
        assert set(staying) <= set(left_of(store, layout))
        ended = expire(store, "--log-start", str(log_start), "--unmanaged", "--apply")
        assert ended.exit_code == 0, ended.err
        assert left_of(store, layout) == staying
        assert read_record(store, PARTITION) == ExpireRecord(log_start_offset=log_start)
        left = list_partition_objects(store, PARTITION)
        assert [each.missing for each in left.attempts] == [()] * len(staying)
        assert [each.base_offset for each in left.claims] == staying
        assert sorted(left.snapshots) == [each for each in (5, 10, 15) if each >= log_start]
    assert kills >= 7, "two records, two requests a segment, what is left over"


def test_a_deletion_that_was_begun_is_ended_whatever_retention_says_now(archive, layout):
    (first, *_) = plan(archive, log_start_offset=10).segments
    flaky = FlakyStore(archive, {2: Fault.CRASH_BEFORE}, counted={"delete"})
    with pytest.raises(Crash):
        list(delete_expired(flaky, plan(archive, log_start_offset=10)))
    again = plan(archive, size=1 << 40)
    assert [(each.start_offset, each.breach) for each in again.segments] == [(0, Breach.BEGUN), (5, Breach.BEGUN)]
    assert again.segments[0].segment_id == first.segment_id
    list(delete_expired(archive, again))
    assert left_of(archive, layout) == [10]


def test_of_two_runs_at_one_partition_the_slower_one_stops_before_it_deletes_anything(archive, layout):
    slow, quick = plan(archive, log_start_offset=10), plan(archive, log_start_offset=5)
    list(delete_expired(archive, quick))
    with pytest.raises(ObjectChangedError, match="another run"):
        list(delete_expired(archive, slow))
    assert left_of(archive, layout) == [5, 10]


def test_an_object_that_may_not_be_deleted_ends_it_there_and_nothing_half_is_visible(archive, layout):
    put_snapshots(archive, [5, 10, 15])
    make_old(archive)
    flaky = FlakyStore(archive, {1: Fault.FAIL_BEFORE}, counted={"delete"})
    done = list(delete_expired(flaky, plan(archive, log_start_offset=10)))
    assert [each.state for each in done] == [SegmentState.DELETE_SEGMENT_STARTED]
    left = list_partition_objects(archive, PARTITION)
    assert [(each.start_offset, each.missing) for each in left.attempts] == [(0, ()), (5, ()), (10, ())]
    assert (sorted(left.snapshots), len(left.claims)) == ([5, 10, 15], 3), "of segments that are whole"
    assert len(read_record(archive, PARTITION).deleting) == 2
    assert left_of(archive, layout) == [10], "what is recorded is published to nobody"


def test_who_came_since_it_was_planned_is_seen_before_anything_goes(archive, layout):
    late = plan(archive, log_start_offset=10)
    claim(archive, ClaimedSegment(PARTITION, 15, 0), Attempt(new_segment_id(), "run-2", process=ELSEWHERE))
    with pytest.raises(PartitionInUseError, match="run-2"):
        list(delete_expired(archive, late))
    assert left_of(archive, layout) == [0, 5, 10]
    assert read_record(archive, PARTITION) == ExpireRecord()
    make_old(archive)
    list(delete_expired(archive, plan(archive, log_start_offset=10)))
    assert left_of(archive, layout) == [10]


class Locking(FlakyStore):
    """A store that holds what begins at some offset, as S3 Object Lock does."""

    def __init__(self, inner, offset: int) -> None:
        super().__init__(inner, {})
        self.offset = offset

    def head(self, key: str):
        found = super().head(key)
        is_locked = found is not None and f"{self.offset:020d}" in key
        return replace(found, lock="locked until 2027-01-01T00:00:00Z") if is_locked else found


def test_what_is_locked_and_all_behind_it_stays(archive, layout):
    found = plan(Locking(archive, 5), log_start_offset=15)
    actions = [each.action for each in found.segments]
    assert actions == [ExpireAction.DELETE, ExpireAction.LOCKED, ExpireAction.WAIT]
    assert found.segments[1].reason == "locked until 2027-01-01T00:00:00Z"
    assert found.log_start_offset == 5
    later = plan(Locking(archive, 10), log_start_offset=15)
    assert [each.action for each in later.segments] == [ExpireAction.DELETE, ExpireAction.DELETE, ExpireAction.LOCKED]
    assert later.log_start_offset == 10
    list(delete_expired(archive, found))
    assert left_of(archive, layout) == [5, 10]


def test_a_copy_that_lost_an_election_does_not_take_the_log_start_into_what_is_locked(store, layout, tmp_path):
    (tmp_path / "lost").mkdir()
    tier(write_log(tmp_path / "right", epoch=2), store, layout=layout)
    segments = {
        3: [data_batch(3, 2, 7, 0, 0), data_batch(5, 2, 7, 0, 2, leader_epoch=1)],
        7: [data_batch(7, 1, 7, 0, 4, leader_epoch=1)],
    }
    epochs = [(0, 3), (1, 5)]
    lost = write_partition(
        tmp_path / "lost", "orders", 0, segments, high_watermark=8, topic_id=PARTITION.topic_id, leader_epochs=epochs
    )
    tier(lost, store, layout=layout, bases={3})
    make_old(store)
    free, locked = (plan(each, log_start_offset=10) for each in (store, Locking(store, 5)))
    assert [(each.start_offset, each.breach) for each in free.segments] == [
        (0, Breach.LOG_START),
        (3, Breach.OUTSIDE_LINEAGE),
        (5, Breach.LOG_START),
    ]
    assert (free.log_start_offset, len(free.going)) == (10, 3)
    assert [each.action for each in locked.segments] == [ExpireAction.DELETE, ExpireAction.WAIT, ExpireAction.LOCKED]
    assert locked.log_start_offset == 5


def test_what_is_half_gone_and_locked_since_stays_recorded(archive, layout):
    flaky = FlakyStore(
        archive, {2: Fault.FAIL_BEFORE}, counted={"delete"}
    )  # of the first only what made it visible goes
    list(delete_expired(flaky, plan(archive, log_start_offset=10)))
    half = read_record(archive, PARTITION).deleting[0].segment_id
    locked = plan(Locking(archive, 0), log_start_offset=10)
    assert [each.action for each in locked.segments] == [ExpireAction.LOCKED, ExpireAction.WAIT]
    later = plan(Locking(archive, 5), log_start_offset=10)
    assert [each.action for each in later.segments] == [ExpireAction.DELETE, ExpireAction.LOCKED]
    list(delete_expired(archive, later))
    assert [each.start_offset for each in read_record(archive, PARTITION).deleting] == [5]
    assert half not in copies(archive)
    list(delete_expired(archive, plan(archive, log_start_offset=0)))
    assert left_of(archive, layout) == [10]


def tier_again(store, layout, logs: Path, exit_code: int = 0) -> dict[str, int]:
    """Closed segments by the verdict that `tiersnap tier` leaves."""
    page = store.root.with_name("page")
    ran = tiersnap("tier", logs, "--remote", store.root, "--layout", layout.name, "--report", page, "--apply")
    assert ran.exit_code == exit_code, ran.err
    told = json.loads((page / "readiness.json").read_text())["cluster"]["verdicts"]
    return {verdict: each["segments"] for verdict, each in told.items() if verdict != "ACTIVE_SEGMENT"}


@pytest.mark.parametrize("log_start", [10, 15])
def test_what_went_is_not_tiered_again_until_its_record_is_moved_away(archive, layout, log_start, tmp_path):
    list(delete_expired(archive, plan(archive, log_start_offset=log_start)))
    left = left_of(archive, layout)
    expected = {10: {"EXPIRED": 2, "ALREADY_TIERED": 1}, 15: {"EXPIRED": 3}}
    assert tier_again(archive, layout, tmp_path / "logs") == expected[log_start]
    assert left_of(archive, layout) == left
    (archive.root / keys.expire(PARTITION)).unlink()
    # Below the highest remote offset a broker copies nothing.
    without = {10: (4, {"GAP_IN_REMOTE": 2, "ALREADY_TIERED": 1}), 15: (0, {"ALREADY_TIERED": 3})}
    exit_code, verdicts = without[log_start]
    assert tier_again(archive, layout, tmp_path / "logs", exit_code) == verdicts


@pytest.mark.parametrize(("log_start", "recorded"), [(4, 4), (7, 5), (10, 10), (12, 10), (15, 15), (99, 15)])
def test_expire_moves_the_log_start_past_what_is_lost(archive, layout, log_start, recorded, tmp_path):
    lost = plan(archive, log_start_offset=5).going
    archive.delete(key for each in lost for key in each.keys)
    said = expire(archive, "--log-start", str(log_start), "--unmanaged").err
    assert ("records that the log begins at" in said) == (log_start < 10), said
    assert expire(archive, "--log-start", str(log_start), "--unmanaged", "--apply").exit_code == 0
    assert read_record(archive, PARTITION) == ExpireRecord(log_start_offset=recorded)
    assert tier_again(archive, layout, tmp_path / "logs", 4 if recorded < 5 else 0).get("EXPIRED", 0) == recorded // 5


def test_expire_records_no_log_start_below_what_is_there(archive):
    assert_said(expire(archive, "--log-start", "4", "--unmanaged", "--apply"), 0, "nothing to delete")
    assert read_record(archive, PARTITION) == ExpireRecord()


def test_a_copy_whose_deletion_has_begun_is_none_while_its_objects_are_all_there(archive, layout):
    flaky = FlakyStore(archive, {1: Fault.CRASH_BEFORE}, counted={"delete"})
    with pytest.raises(Crash):
        list(delete_expired(flaky, plan(archive, log_start_offset=10)))
    assert [each.missing for each in list_partition_objects(archive, PARTITION).attempts] == [()] * 3
    found = list_remote_partition(RemoteLocation(archive, layout), PARTITION)
    assert [copy.start_offset for copy in found.segments] == [10]
    assert (found.leftovers, found.expired_to) == ((), 10)


class TieredAndExpiredMeanwhile(FlakyStore):
    """A store of which another run fills a partition, and `expire` takes it, just before the first claim."""

    def __init__(self, inner, layout, logs: Path) -> None:
        super().__init__(inner, {})
        self.layout, self.logs, self.is_first = layout, logs, True

    def put_if_absent(self, key, data, metadata=None):
        if self.is_first and keys.recognise(key).kind is KeyKind.CLAIM:
            self.is_first = False
            tier_ours(self.inner, self.layout, self.logs, run_id="run-2")
            list(delete_expired(self.inner, plan(self.inner, log_start_offset=15)))
        return super().put_if_absent(key, data, metadata)


@pytest.mark.parametrize("is_seen_at_once", [True, False])
def test_what_expire_takes_after_it_was_planned_is_not_copied(store, layout, tmp_path, monkeypatch, is_seen_at_once):
    monkeypatch.setattr("tiersnap.remote_storage.upload.segments_in_flight.ContextPool", Inline)
    segments, logs = planned(write_log(tmp_path / "planned")), tmp_path / "logs"
    tierer = Tierer("run-1", 1_700_000_000_500, process=ELSEWHERE, wait=0)
    if is_seen_at_once:
        write_record(store, PARTITION, ExpireRecord(log_start_offset=15))
    asked = store if is_seen_at_once else TieredAndExpiredMeanwhile(store, layout, logs)
    (row,) = rows_of(tier_partition(RemoteLocation(asked, layout), PARTITION, segments, tierer))
    assert "tiersnap expire deleted what lies below 15" in row["error"]
    assert row["is_transient"]
    assert copies(store) == set()


def test_a_claim_that_may_be_at_work_anywhere_in_the_partition_keeps_all_of_it(archive, layout):
    elsewhere = Attempt(new_segment_id(), "run-2", process=ELSEWHERE)
    claim(archive, ClaimedSegment(PARTITION, 15, 0), elsewhere)
    held = plan(archive, log_start_offset=10)
    assert (held.action, held.segments) == (ExpireAction.IN_USE, ())
    assert "run-2" in held.reason
    make_old(archive)  # no upload lasts so long
    assert plan(archive, log_start_offset=10).action is ExpireAction.DELETE


def test_a_copy_under_way_that_nobody_claimed_keeps_the_partition(archive, layout):
    folder = keys.partition_segments(PARTITION, local=isinstance(layout, LocalTieredStorageLayout))
    archive.put_if_absent(f"{folder}{15:020d}-{new_segment_id()}.log", b"half")
    assert plan(archive, log_start_offset=10).action is ExpireAction.IN_USE
    make_old(archive)
    assert plan(archive, log_start_offset=10).action is ExpireAction.DELETE


def test_a_claim_and_a_copy_under_way_keep_it_to_the_last_millisecond_that_they_may_take(archive, layout):
    claimed, mine = ClaimedSegment(PARTITION, 15, 0), new_segment_id()
    claim(archive, claimed, Attempt(mine, "run-2", process=ELSEWHERE))
    stored = list_partition_objects(archive, PARTITION)
    last = stored.claims[claimed].modified + STALE_AFTER_MS
    assert "run-2" in in_use(archive, stored, set(), last)
    assert in_use(archive, stored, set(), last + 1) == ""

    archive.delete([keys.claim(PARTITION, 15, 0)])
    assert in_use(archive, stored, set(), last) == "", "who had claimed it has gone meanwhile"
    folder = keys.partition_segments(PARTITION, local=isinstance(layout, LocalTieredStorageLayout))
    archive.put_if_absent(f"{folder}{15:020d}-{mine}.log", b"half")
    stored = list_partition_objects(archive, PARTITION)
    (copy,) = (each for each in stored.attempts if each.segment_id == mine)
    assert mine in in_use(archive, stored, set(), copy.modified + COPY_GRACE_MS)
    assert in_use(archive, stored, {mine}, copy.modified + COPY_GRACE_MS) == "", "expire has begun with it"
    assert in_use(archive, stored, set(), copy.modified + COPY_GRACE_MS + 1) == ""


@pytest.mark.parametrize(("ended", "is_gone"), [(True, False), (False, True), (False, False)])
def test_a_claim_whose_holder_gave_up_or_whose_process_is_gone_keeps_nothing(archive, ended, is_gone):
    process = replace(this_process(), pid=2**22 + 1) if is_gone else ELSEWHERE
    held = Attempt(new_segment_id(), "run-2", process=process, ended=ended)
    claim(archive, ClaimedSegment(PARTITION, 15, 0), held)
    expected = ExpireAction.DELETE if ended or is_gone else ExpireAction.IN_USE
    assert plan(archive, log_start_offset=10).action is expected


def test_copies_of_a_broker_go_like_ours(store, layout, tmp_path):
    tier_ours(store, layout, tmp_path / "logs")
    for info in list(store.list()):
        (store.root / info.key).unlink()
    tier(tmp_path / "logs" / "orders-0", store, layout=layout)
    make_old(store)
    list(delete_expired(store, plan(store, log_start_offset=10)))
    assert left_of(store, layout) == [10]


def test_copies_that_the_plugin_encrypted_go_by_what_their_manifests_tell(store, tmp_path):
    tier_ours(store, AivenLayout(), tmp_path / "logs")
    for path in store.root.rglob("*.rsm-manifest"):
        manifest = json.loads(path.read_bytes())
        path.write_text(json.dumps(manifest | {"encryption": {"dataKey": "k:x", "aad": "y"}}))
    for path in store.root.rglob("*.indexes"):
        path.write_bytes(bytes(byte ^ 0x5A for byte in path.read_bytes()))
    make_old(store)
    going = plan(store, log_start_offset=10)
    assert [each.start_offset for each in going.segments] == [0, 5], going.reason
    assert [each.breach for each in plan(store, milliseconds=store.now() - TIMESTAMP - 100).segments] == [
        Breach.TIME
    ] * 3
    list(delete_expired(store, going))
    assert [each.start_offset for each in list_partition_objects(store, PARTITION).attempts] == [10]


def test_a_record_of_a_newer_or_a_damaged_form_refuses_the_partition(archive):
    key = keys.expire(PARTITION)
    for content, reason in (
        (b'{"version":2}', "newer tiersnap"),
        (b'{"version":1}', "not a record"),
        (b"x", "malformed"),
    ):
        archive.replace(key, content)
        refused = plan(archive, log_start_offset=10)
        assert refused.action is ExpireAction.REFUSE
        assert reason in refused.reason


def test_a_damaged_record_of_what_brokers_manage_ends_no_other_partition(archive, layout):
    left = list_partition_objects(archive, PARTITION).attempts[1]
    archive.delete(left.keys[:1])
    archive.replace(keys.expire(PARTITION), b"x")
    refused = plan(archive, Managed(Manager.BROKERS, ""), milliseconds=1)
    assert (refused.action, "malformed" in refused.reason) == (ExpireAction.REFUSE, True)


SEGMENT = '{"segmentId":"AAAAAAAAAAAAAAAAAAAAAQ","startOffset":%s,"endOffset":%s}'


@pytest.mark.parametrize(
    ("rows", "is_taken"),
    [
        (SEGMENT % (10, 11), True),
        (SEGMENT % (10, 10), False),
        (SEGMENT % (10, 9), False),
        (SEGMENT % (-1, 5), False),
        (SEGMENT.replace("AQ", "A*") % (10, 11), False),
        ('{"startOffset":10,"endOffset":11}', False),
        ("7", False),
    ],
)
def test_a_record_names_segments_that_have_an_id_and_an_offset_or_is_none(rows, is_taken):
    data = f'{{"version":1,"logStartOffset":0,"deleting":[{rows}]}}'.encode()
    if is_taken:
        record = ExpireRecord.decode(data, name="expire.json")
        assert record.deleting == (Deleting("AAAAAAAAAAAAAAAAAAAAAQ", 10, 11),)
        assert record.encode() == data
    else:
        with pytest.raises(CorruptDataError, match="not a record"):
            ExpireRecord.decode(data, name="expire.json")


def test_what_is_being_deleted_or_begins_below_the_log_start_is_missed_by_nobody():
    record = ExpireRecord(10, (Deleting("a", 20, 30), Deleting("c", 30, 40)))
    assert [record.has_taken("b", start) for start in (9, 10, 20)] == [True, False, False]
    assert record.has_taken("a", 20)


def test_a_record_is_read_as_it_was_written_and_replaces_only_the_one_that_was_read(store):
    first = write_record(store, PARTITION, ExpireRecord(7))
    write_record(store, PARTITION, replace(first, log_start_offset=8))
    assert read_record(store, PARTITION).log_start_offset == 8
    for stale in (first, ExpireRecord(9)):
        with pytest.raises(ObjectChangedError):
            write_record(store, PARTITION, replace(stale, log_start_offset=10))


def test_records_of_a_topic_are_those_of_its_partitions_whatever_their_id_and_of_nothing_else(store):
    other_id, other = new_segment_id(), replace(PARTITION, topic="orders-2")
    written = {each: write_record(store, each, ExpireRecord(at)) for at, each in enumerate(
        (PARTITION, replace(PARTITION, partition=1), replace(PARTITION, topic_id=other_id), other))}  # fmt: skip
    claim(store, ClaimedSegment(replace(PARTITION, partition=2), 5, 0), Attempt(new_segment_id(), "run"))
    store.put_if_absent(f"{keys.topic_claims(PARTITION.topic)}notes.txt", b"?")
    del written[other]
    assert read_records(store, PARTITION.topic) == written


def judged(told, *, cluster_id: str | None = CLUSTER, unblocking: bool = False, unmanaged: bool = False) -> Manager:
    return manager_of(told, cluster_id, ["a"], unblocking=unblocking, unmanaged=unmanaged).manager


def test_only_a_cluster_that_has_deleted_all_or_the_users_word_says_that_nobody_manages_a_partition(
    store, layout, tmp_path
):
    tier_ours(store, layout, tmp_path / "logs")
    records = finished(store, layout)
    deleted = known(*(replace(each, state=DELETED) for each in records), log_start=None)
    for unmanaged in (False, True):
        word = Manager.NOBODY if unmanaged else Manager.UNKNOWN
        assert judged(None, unmanaged=unmanaged) is word
        assert judged(deleted, unmanaged=unmanaged) is Manager.NOBODY
        assert judged(deleted, cluster_id=None, unmanaged=unmanaged) is word
        assert judged(deleted, cluster_id="AnotherClusterAnother_", unmanaged=unmanaged) is word
        assert judged(replace(deleted, metadata_start=7), unmanaged=unmanaged) is word
        assert judged(known(log_start=None), unmanaged=unmanaged) is word, "never heard of, or not to be seen"
        # What a cluster says counts more than the user's word.
        assert judged(known(log_start=0), unmanaged=unmanaged) is Manager.BROKERS
        assert judged(known(*records, log_start=None), unmanaged=unmanaged) is Manager.BROKERS
        assert judged(replace(deleted, doubtful=frozenset({"a"})), unmanaged=unmanaged) is Manager.BROKERS
        assert judged(None, unblocking=True, unmanaged=unmanaged) is Manager.BROKERS


@pytest.mark.parametrize("manager", [Manager.BROKERS, Manager.UNKNOWN])
def test_nothing_goes_of_what_brokers_manage_or_nobody_knows(archive, manager):
    found = plan(archive, Managed(manager, "why"), log_start_offset=15)
    assert found.segments == ()
    assert list(delete_expired(archive, found)) == []


def expire(store, *words: str):
    return tiersnap("expire", "--remote", str(store.root), "--topic", "orders", *words)


def test_what_ends_a_partition_is_told_beside_what_became_of_the_others(archive, layout):
    slow, quick = plan(archive, log_start_offset=10), plan(archive, log_start_offset=5)
    went = carry_out(archive, quick)
    stopped = carry_out(archive, slow)
    assert [each.state for each in went.deleted] == [DELETED]
    assert (stopped.deleted, exit_code_of([stopped])) == ([], ExitCode.TRANSIENT)
    assert exit_code_of([stopped, went]) is ExitCode.PARTIAL
    assert errors_of([stopped, went]) == [stopped.error]


def test_of_a_topic_that_was_made_anew_one_id_can_be_named(archive, layout):
    again = replace(PARTITION, topic_id="BBBBBBBBBBBBBBBBBBBBBQ")
    for info in list(archive.list()):
        path = archive.root / info.key.replace(PARTITION.topic_id, again.topic_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = (archive.root / info.key).read_bytes().replace(PARTITION.topic_id.encode(), again.topic_id.encode())
        path.write_bytes(content)
    make_old(archive)
    assert_said(expire(archive, "--log-start", "10", "--unmanaged"), 2, "for 2 partitions", "--topic-id")
    ran = expire(archive, "--log-start", "10", "--unmanaged", "--topic-id", again.topic_id, "--apply")
    assert ran.exit_code == 0, ran.err
    assert {row["topic_id"] for row in ran.rows} == {again.topic_id}
    assert left_of(archive, layout) == [0, 5, 10]


@pytest.mark.parametrize("is_file", [True, False])
def test_a_place_that_is_not_there_is_said_and_not_made(tmp_path, is_file):
    place = tmp_path / "mistyped"
    if is_file:
        place.write_text("x")
    ran = tiersnap("expire", "--remote", place, "--topic", "orders", "--unmanaged", "--retention", "1d")
    assert_said(ran, 2, "a file, and no directory" if is_file else "no such directory")
    assert [path.name for path in tmp_path.iterdir()] == (["mistyped"] if is_file else [])


def test_the_command_plans_refuses_without_a_word_and_deletes_when_told(archive, layout):
    refused = expire(archive, "--log-start", "10", "--apply")
    assert_said(refused, 4, "no cluster was asked", "--unmanaged")
    assert refused.row(action="REFUSE")["topic"] == "orders"
    planned = expire(archive, "--log-start", "10", "--unmanaged")
    assert_said(planned, 0, "nothing was deleted: give --apply")
    assert [row["state"] for row in planned.rows] == ["COPY_SEGMENT_FINISHED"] * 2
    assert left_of(archive, layout) == [0, 5, 10]
    done = expire(archive, "--log-start", "10", "--unmanaged", "--apply")
    assert_said(done, 0)
    assert [row["state"] for row in done.rows] == ["DELETE_SEGMENT_FINISHED"] * 2
    assert left_of(archive, layout) == [10]
    assert_said(expire(archive, "--log-start", "10", "--unmanaged", "--apply"), 0, "nothing to delete")
    mistyped = tiersnap("expire", "--remote", str(archive.root), "--topic", "order", "--retention", "1d", "--unmanaged")
    assert_said(mistyped, 0, "no remote segments of a topic and partition that was asked for")


def times_in(folder: Path) -> dict[str, int]:
    """When each file and folder was last changed: a folder is when a file in it was made, and removed again."""
    return {str(path): path.lstat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize("is_there", [False, True], ids=["", "the folder is there"])
@pytest.mark.parametrize("command", ["expire", "tier"])
def test_a_plan_leaves_the_directory_as_it_is_to_the_last_time_stamp(archive, layout, tmp_path, command, is_there):
    unfinished = archive.root / ".tiersnap-unfinished"
    if not is_there:
        shutil.rmtree(unfinished)
    (first, *_) = finished(archive, layout)
    archive.root.joinpath(layout.object_keys(first)[-1]).unlink()
    shutil.rmtree(archive.root / "claims")
    before = times_in(archive.root)
    name = "local-tiered-storage" if isinstance(layout, LocalTieredStorageLayout) else "aiven"
    words = {
        "expire": ("expire", "--remote", archive.root, "--topic", "orders", "--log-start", "10", "--unmanaged"),
        "tier": ("tier", tmp_path / "logs", "--remote", archive.root, "--layout", name),
    }
    ran = tiersnap(*words[command])
    assert_said(ran, 0)
    assert times_in(archive.root) == before


def test_the_command_takes_sizes_and_says_what_it_needs(archive):
    assert_said(expire(archive, "--unmanaged"), 2, "no limit given")
    assert_said(expire(archive, "--retention-bytes", "10GB", "--unmanaged"), 2, "is not a size")
    assert len(expire(archive, "--retention-bytes", "0", "--unmanaged").rows) == 3
    assert expire(archive, "--retention-bytes", "10 GiB", "--unmanaged").rows == []
    assert expire(archive, "--retention", "none", "--retention-bytes", "1TiB", "--unmanaged").rows == []


def test_topics_that_unblock_has_begun_with_are_left_to_their_brokers(archive):
    begun = SavedConfigs(CLUSTER, PARTITION.topic, PARTITION.topic_id, (0,), {"remote.log.copy.disable": None})
    SavedConfigsStore(archive).put(begun)
    left = expire(archive, "--retention-bytes", "0", "--unmanaged", "--apply")
    assert_said(left, 0, "unblock")
    assert [row["action"] for row in left.rows] == ["LEAVE_TO_BROKERS"]
    assert len(copies(archive)) == 3


def test_expire_aborts_an_upload_whose_claim_it_deletes(tmp_path):
    world = World(Random(1), tmp_path, snapshots={*BASES})
    with installed(world, 1):
        assert world.run({"tier": lambda hand: commands.tier(world, hand, "a")}) == {"tier": ExitCode.OK}
        key = next(key for key in world.store.objects if key.endswith(".log"))
        world.store.leave_unfinished(key, is_file=False)
        world.advance(2 * DAY)
        assert world.run({"expire": lambda hand: commands.expire(world, hand, BASES[-1])}) == {"expire": ExitCode.OK}
    assert not world.store.uploads
