"""What a cluster has deleted, or never knew, is not brought back by a restore."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.planned import PARTITION, planned, write_log
from tests.reference.restoring import CLUSTER, DATA, ORIGINAL, TOPIC, new_disk, restore, tiered_store
from tests.reference.tiered import aiven, tier
from tests.s3.segments import TOPIC_ID
from tests.unit.test_restore_chain import copy_of
from tiersnap.remote_storage.errors import DeletedByClusterError, MissingTailError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim_and_age, reopen
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition, new_segment_id
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.restore.published import as_published, refusing, taking_all
from tiersnap.remote_storage.restore.segment_chain import plan_chain
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition

pytestmark = pytest.mark.unit

COPIES = [copy_of(start, start + 10) for start in (0, 10, 20)]
REMOTE = RemoteInventory(TopicIdPartition("t", TOPIC_ID, 0), tuple(COPIES), ())
FINISHED, GONE = SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_FINISHED


def records(*known: tuple[RemoteSegment, SegmentState]) -> dict:
    return {copy.segment_id: replace(copy.metadata, state=state) for copy, state in known}


def test_a_topic_that_was_deleted_is_not_brought_back():
    for state in (GONE, SegmentState.DELETE_SEGMENT_STARTED):
        with pytest.raises(DeletedByClusterError):
            as_published(REMOTE, records(*((copy, state) for copy in COPIES)))


def test_copies_of_ours_beside_the_deleted_ones_of_the_broker_do_not_bring_it_back():
    with pytest.raises(DeletedByClusterError):
        as_published(REMOTE, records((COPIES[0], GONE), (COPIES[1], GONE)))


def test_what_the_cluster_never_heard_of_is_set_apart():
    assert as_published(REMOTE, {}).unpublished == REMOTE.segments
    apart = as_published(REMOTE, records((COPIES[0], FINISHED)))
    assert (apart.segments, apart.unpublished) == (REMOTE.segments[:1], REMOTE.segments[1:])
    assert taking_all(apart).segments == REMOTE.segments
    assert [each.problem for each in refusing(apart).leftovers] == ["never published"] * 2
    assert as_published(REMOTE, records((COPIES[0], GONE)), unpublished=True).unpublished == REMOTE.segments[1:]


def test_what_retention_has_deleted_is_left_out():
    left = as_published(REMOTE, records((COPIES[0], GONE), (COPIES[1], FINISHED), (COPIES[2], FINISHED)))
    assert [copy.start_offset for copy in left.segments] == [10, 20]
    assert plan_chain(left.segments, ((0, 0),), unusable=left.leftovers).end_offset == 30


def test_a_published_segment_of_which_no_object_is_left_is_a_missing_tail():
    lost = copy_of(30, 40)
    left = as_published(REMOTE, records(*((copy, FINISHED) for copy in COPIES), (lost, FINISHED)))
    with pytest.raises(MissingTailError, match=lost.segment_id):
        plan_chain(left.segments, ((0, 0),), unusable=left.leftovers)
    assert plan_chain(left.segments, ((0, 0),), unusable=left.leftovers, until=30).end_offset == 30
    started = as_published(REMOTE, records((COPIES[0], FINISHED), (lost, SegmentState.COPY_SEGMENT_STARTED)))
    assert started.leftovers == ()


def test_a_published_segment_that_reaches_behind_the_end_is_a_missing_tail():
    lost, held = copy_of(28, 40), copy_of(22, 30)
    for absent in (lost, held):
        left = as_published(REMOTE, records(*((copy, FINISHED) for copy in COPIES), (absent, FINISHED)))
        if absent is held:
            assert plan_chain(left.segments, ((0, 0),), unusable=left.leftovers).end_offset == 30
            continue
        with pytest.raises(MissingTailError, match=lost.segment_id):
            plan_chain(left.segments, ((0, 0),), unusable=left.leftovers)


def test_what_the_cluster_said_of_a_partition_decides_what_is_planned_of_it(tmp_path, monkeypatch):
    store, disk = tiered_store(tmp_path / "remote"), new_disk(tmp_path / "disk")
    finished = finished_segments(aiven(store), lambda _: True)
    asked = ("--bootstrap-server", "127.0.0.1:1")

    def said(state: SegmentState, *bases: int) -> None:
        known = {each.id.segment_id: replace(each, state=state) for each in finished if each.start_offset in bases}
        answer = "tiersnap.remote_storage.cluster.cluster_records.read_published"
        monkeypatch.setattr(answer, lambda _, wanted, *, unpublished: dict.fromkeys(wanted, known))

    said(FINISHED, 0, 695)
    ran = restore(store, disk, *asked)
    assert_said(ran, 0)
    assert "did not check" not in ran.err
    said(GONE, 0, 695)
    assert_said(restore(store, disk, *asked), 4, "all published remote segments have been deleted by the cluster")
    assert_said(
        restore(store, disk, *asked, "--unpublished"),
        4,
        "all published remote segments have been deleted by the cluster",
    )
    for known in ((), (0,), (695,)):
        said(FINISHED, *known)
        ran = restore(store, disk, *asked)
        assert_said(ran, 4, "never published", "--unpublished")
        assert "retention" not in ran.err
        assert "leave out" not in ran.err
        assert_said(restore(store, disk, *asked, "--unpublished"), 0)


def tiered_by_us(tmp_path: Path) -> DirectoryStore:
    """As `tier` leaves it, which publishes nothing."""
    words = ("--topic", TOPIC, "--apply", "--now", "2026-11-21T12:45:00Z")
    assert_said(tiersnap("tier", DATA / "logs", "--remote", tmp_path / "ours", *words), 0)
    return DirectoryStore(tmp_path / "ours")


def test_without_a_cluster_what_brokers_copied_is_restored_and_the_plan_says_what_was_not_checked(tmp_path):
    store, disk = tiered_store(tmp_path / "remote"), new_disk(tmp_path / "disk")
    for words in ((), ("--apply",)):
        ran = restore(store, disk, *words)
        assert_said(ran, 0, "tiersnap did not check whether the topic still exists")
    assert [row["topic_is_checked"] for row in ran.rows] == [False]


def test_without_a_cluster_what_tiersnap_made_is_restored_only_when_that_is_asked_for(tmp_path):
    store, disk = tiered_by_us(tmp_path), new_disk(tmp_path / "disk")
    refused = restore(store, disk, "--apply")
    assert_said(refused, 4, "not known to be published", "--bootstrap-server", "--unpublished")
    assert "retention" not in refused.err
    assert not (disk / f"{TOPIC}-0").exists()
    assert_said(
        restore(store, disk, "--apply", "--unpublished"), 0, "tiersnap did not check whether the topic still exists"
    )
    assert (disk / f"{TOPIC}-0").is_dir()


def test_restore_takes_a_copy_of_ours_that_was_replaced_for_none_of_a_broker(tmp_path):
    store = tiered_by_us(tmp_path)
    for key in [info.key for info in store.list("claims/")]:
        claimed = keys.parse(key)
        held, _ = read_claim_and_age(store, ClaimedSegment(claimed.partition, claimed.offset, claimed.leader_epoch))
        reopen(store, held, Attempt.of(new_segment_id(), "run-2"))
    assert_said(restore(store, new_disk(tmp_path / "disk")), 4, "not known to be published")


def test_a_copy_of_ours_that_nothing_needs_is_in_nobody_s_way(tmp_path):
    store, disk = tiered_by_us(tmp_path), new_disk(tmp_path / "disk")
    tier(ORIGINAL, store)
    ran = restore(store, disk)
    assert_said(ran, 0)
    assert ran.err.count("not known to be published") == 2


def test_a_claim_that_nobody_can_read_leaves_the_copies_of_its_segment_in_doubt(tmp_path):
    store, disk = tiered_by_us(tmp_path), new_disk(tmp_path / "disk")
    for path in store.root.glob("claims/*/*/*.json"):
        path.write_text("{")
    assert_said(restore(store, disk), 4, "not known to be published")


def test_a_lost_segment_is_named_whatever_else_is_in_doubt(tmp_path):
    store, disk = tiered_by_us(tmp_path), new_disk(tmp_path / "disk")
    for path in store.root.rglob(f"{0:020d}-*.log"):
        path.unlink()
    assert_said(restore(store, disk), 4, "1 older segment cannot be used", "no .log")


def test_restore_asks_for_no_copy_of_ours_that_lost_an_election(tmp_path):
    """Brokers copied [0, 10); ours is [12, 15) of a leader whose epoch no copy of theirs knows."""
    store, disk = DirectoryStore(tmp_path / "remote"), new_disk(tmp_path / "disk")
    tier(write_log(tmp_path / "logs", epoch=2), store, bases={0, 5})
    segments = {base: [data_batch(base, 3, 7, 0, base, leader_epoch=1)] for base in (12, 15)}
    options = {"high_watermark": 18, "topic_id": PARTITION.topic_id, "leader_epochs": [(1, 12)]}
    lost = write_partition(tmp_path / "lost", PARTITION.topic, 0, segments, **options)
    tierer = Tierer("run-1", 1_700_000_000_500)
    events = tier_partition(aiven(store), PARTITION, planned(lost), tierer, cluster_id=CLUSTER)
    assert [event.error for event in events] == [None, None]
    (row,) = restore(store, disk, topic=PARTITION.topic).rows
    assert (row["log_end_offset"], [each["base_offset"] for each in row["left_out"]]) == (10, [12])


def test_restore_takes_the_cluster_that_is_given_when_the_record_is_damaged(tmp_path):
    store, disk = tiered_store(tmp_path / "remote"), new_disk(tmp_path / "disk")
    (record,) = store.root.rglob("cluster.json")
    record.write_bytes(b"{")
    assert_said(restore(store, disk), 5, "give the cluster id with --cluster-id")
    assert_said(restore(store, disk, "--cluster-id", CLUSTER), 0)
    record.write_bytes(b'{"version":2}')
    assert_said(restore(store, disk, "--cluster-id", CLUSTER), 2, "newer tiersnap")
