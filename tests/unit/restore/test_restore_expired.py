"""`tiersnap restore` of what `tiersnap expire` took, or was taking when it was killed: its record is believed."""

from __future__ import annotations

import pytest

from tests.reference.command import assert_said
from tests.reference.restoring import ORIGINAL, restore
from tests.reference.tiered import LOCAL
from tiersnap.remote_storage.expire.record import Deleting, ExpireRecord, write_record
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition

pytestmark = pytest.mark.unit


def partition() -> TopicIdPartition:
    found = read_partition(LOCAL, str(ORIGINAL), Checkpoints())
    return TopicIdPartition(found.topic, found.topic_id, found.partition)


def lose_oldest_log(store) -> str:
    """The segment id of the copy that has no log any more."""
    (path,) = store.root.rglob(f"{0:020d}-*.log")
    path.unlink()
    return path.stem.removeprefix(f"{0:020d}-")


def record(store, **said: object) -> None:
    write_record(store, ObjectKeys(), partition(), ExpireRecord(**said))


def test_a_head_that_expire_is_deleting_is_not_lost(store, disk):
    segment_id = lose_oldest_log(store)
    record(store, log_start_offset=0, deleting=(Deleting(segment_id, 0, 695),))
    done = restore(store, disk, "--apply")
    assert done.exit_code == 0, done.err
    assert done.rows[0]["log_start_offset"] == 695


def test_what_is_left_below_the_log_start_of_expire_is_not_lost(store, disk):
    lose_oldest_log(store)
    record(store, log_start_offset=695)
    assert restore(store, disk).rows[0]["log_start_offset"] == 695


def test_a_head_that_expire_did_not_take_is_lost_whatever_else_it_took(store, disk):
    lose_oldest_log(store)
    record(store, log_start_offset=0, deleting=(Deleting("BBBBBBBBBBBBBBBBBBBBBQ", 0, 5),))
    assert_said(restore(store, disk), 4, "the log would begin at offset 695")
