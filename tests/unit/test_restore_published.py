"""What a cluster has deleted, or never knew, is not brought back by a restore."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reference.restoring import new_disk, restore, tiered_store
from tests.s3.segments import TOPIC_ID
from tests.unit.test_restore_chain import copy_of
from tiersnap.remote_storage.errors import DeletedByClusterError, MissingTailError, UnknownToClusterError
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition
from tiersnap.remote_storage.presence.finished import finished_segments
from tiersnap.remote_storage.restore import topic
from tiersnap.remote_storage.restore.published import as_published
from tiersnap.remote_storage.restore.remote_copies import RemoteCopy, RemotePartition
from tiersnap.remote_storage.restore.segment_chain import plan_chain

pytestmark = pytest.mark.unit

COPIES = [copy_of(start, start + 10) for start in (0, 10, 20)]
REMOTE = RemotePartition(TopicIdPartition("t", TOPIC_ID, 0), tuple(COPIES), ())
FINISHED, GONE = SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_FINISHED


def records(*known: tuple[RemoteCopy, SegmentState]) -> dict:
    return {copy.segment_id: replace(copy.metadata, state=state) for copy, state in known}


def test_a_topic_that_was_deleted_is_not_brought_back():
    for state in (GONE, SegmentState.DELETE_SEGMENT_STARTED):
        with pytest.raises(DeletedByClusterError):
            as_published(REMOTE, records(*((copy, state) for copy in COPIES)))


def test_copies_of_ours_beside_the_deleted_ones_of_the_broker_do_not_bring_it_back():
    with pytest.raises(DeletedByClusterError):
        as_published(REMOTE, records((COPIES[0], GONE), (COPIES[1], GONE)))


def test_segments_that_the_cluster_never_heard_of_are_refused():
    with pytest.raises(UnknownToClusterError):
        as_published(REMOTE, {})
    with pytest.raises(UnknownToClusterError):
        as_published(REMOTE, records((copy_of(0, 10), FINISHED)))


def test_what_retention_has_deleted_is_left_out():
    left = as_published(REMOTE, records((COPIES[0], GONE), (COPIES[1], FINISHED), (COPIES[2], FINISHED)))
    assert [copy.start_offset for copy in left.copies] == [10, 20]
    assert plan_chain(left.copies, ((0, 0),), unusable=left.unusable).end_offset == 30


def test_a_published_segment_of_which_no_object_is_left_is_a_missing_tail():
    lost = copy_of(30, 40)
    left = as_published(REMOTE, records(*((copy, FINISHED) for copy in COPIES), (lost, FINISHED)))
    with pytest.raises(MissingTailError, match=lost.segment_id):
        plan_chain(left.copies, ((0, 0),), unusable=left.unusable)
    assert plan_chain(left.copies, ((0, 0),), unusable=left.unusable, until=30).end_offset == 30
    started = as_published(REMOTE, records((COPIES[0], FINISHED), (lost, SegmentState.COPY_SEGMENT_STARTED)))
    assert started.unusable == ()


def test_what_the_cluster_said_of_a_partition_decides_what_is_planned_of_it(tmp_path, monkeypatch):
    store, disk = tiered_store(tmp_path / "remote"), new_disk(tmp_path / "disk")
    finished = finished_segments(store, AivenLayout(ObjectKeys()), lambda _: True).segments
    for state, code in ((FINISHED, 0), (GONE, 4)):
        known = {each.id.segment_id: replace(each, state=state) for each in finished}
        monkeypatch.setattr(topic, "read_published", lambda _, wanted, known=known: dict.fromkeys(wanted, known))
        ran = restore(store, disk, "--bootstrap-server", "127.0.0.1:1")
        assert ran.exit_code == code, ran.err
    assert "its remote segments are published as deleted" in ran.err
