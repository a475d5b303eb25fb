"""`tiersnap restore` of what `tiersnap expire` took, or was taking when it was killed: its record is believed."""

from __future__ import annotations

import pytest

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.restoring import END, ORIGINAL, TOPIC, new_disk, restore, tiered_store
from tests.reference.tiered import LOCAL, age
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.own_objects.deletion_record import Deleting, ExpireRecord, write_record
from tiersnap.remote_storage.restore.find_topic import find_topic
from tiersnap.remote_storage.restore.request import RestoreRequest
from tiersnap.remote_storage.restore.restore import carry_out
from tiersnap.remote_storage.restore.restore_plan import plan_topic
from tiersnap.remote_storage.restore.target import open_target
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition
from tiersnap.snapshot.replay.expiry import BrokerExpiry

pytestmark = pytest.mark.unit

DAY = 86_400_000


def partition() -> TopicIdPartition:
    found = read_partition(LOCAL, str(ORIGINAL), Checkpoints())
    return TopicIdPartition(found.topic, found.topic_id, found.partition)


def lose_oldest_log(store) -> str:
    """The segment id of the copy that has no log any more."""
    (path,) = store.root.rglob(f"{0:020d}-*.log")
    path.unlink()
    return path.stem.removeprefix(f"{0:020d}-")


def record(store, **said: object) -> None:
    write_record(store, partition(), ExpireRecord(**said))


def expire_all(store) -> Ran:
    for info in list(store.list()):
        age(store, info.key, 2 * DAY)
    words = ("--topic", TOPIC, "--log-start", str(END), "--unmanaged", "--apply")
    return tiersnap("expire", "--remote", store.root, *words)


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


def test_where_expire_took_everything_that_is_said_and_not_that_the_place_is_wrong(store, disk):
    taken = expire_all(store)
    assert taken.exit_code == 0, taken.err
    said = f"tiersnap expire deleted {TOPIC}-0 ({partition().topic_id}) below offset {END}"
    for refused in (restore(store, disk), restore(store, disk, "--partition", "0")):
        assert_said(refused, 2, "no remote segment of", said, "old versions")
        assert "--remote names" not in refused.err
    for other in (("--partition", "1"), ("--topic-id", "BBBBBBBBBBBBBBBBBBBBBQ")):
        assert_said(restore(store, disk, *other), 2, "--remote names the place")


def test_a_topic_whose_name_only_begins_alike_was_not_expired(store, disk):
    assert expire_all(store).exit_code == 0
    assert_said(restore(store, disk, topic=TOPIC[:-1]), 2, "--remote names the place")


class Expiring(DirectoryStore):
    """Retention deletes the first segment between the plan and its fetch."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if key.endswith(".log"):
            self.delete([key])
        return super().get_range(key, start, length)


def test_restore_ends_as_transient_when_a_segment_goes_after_the_plan(tmp_path):
    store, disk = Expiring(tiered_store(tmp_path / "remote").root), new_disk(tmp_path / "disk")
    asked = RestoreRequest(TOPIC, (), None, None, None, None, None, None, None, (), True, BrokerExpiry(0, None))
    target = open_target(disk, None)
    plans = plan_topic(store, target, find_topic(store, asked), asked, None)
    failed = carry_out(store, target, plans, begin=lambda _: None, talk=lambda _: None)
    assert (failed.done, failed.exit_code) == ((), ExitCode.TRANSIENT)
    assert failed.failure is not None
    assert "no such object" in failed.failure.message
    assert "run restore again" in failed.failure.hint
