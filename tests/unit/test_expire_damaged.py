"""`tiersnap expire`: a segment with a damaged object goes once the log start has passed all that it may hold."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.left_over import DAY, make_old, tier_ours
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.planned import PARTITION, write_log, write_replica_that_rolled_later
from tests.reference.tiered import tier
from tiersnap.remote_storage.inventory.partition_objects import list_partition_objects
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.own_objects.deletion_record import ExpireRecord, read_record, write_record
from tiersnap.remote_storage.retire.expire_plan import plan_partition
from tiersnap.remote_storage.retire.known_to_cluster import Managed, Manager
from tiersnap.remote_storage.retire.retention import ExpireAction, Retention
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo

pytestmark = pytest.mark.unit

AIVEN, LOCAL = AivenLayout(), LocalTieredStorageLayout()
EPOCHS = KeyKind.LOCAL_LEADER_EPOCHS
BASES = [0, 5, 10]  # of three segments with five offsets each


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "remote")


def fill(store: DirectoryStore, layout: Layout, logs: Path, *, is_ours: bool) -> None:
    """Copy three segments, two days ago, with claims of ours or as a broker does."""
    if is_ours:
        tier_ours(store, layout, logs)
    else:
        tier(write_log(logs), store, layout=layout)
    make_old(store)


def damage(store: DirectoryStore, offset: int, kind: KeyKind) -> None:
    """Write something else in the place of an object of the segment at an offset."""
    for each in list_partition_objects(store, PARTITION).attempts:
        if each.start_offset == offset:
            (store.root / each.objects[kind].key).write_bytes(b"{")
    make_old(store)


def lose(store: DirectoryStore, offset: int, kind: KeyKind) -> None:
    """Delete an object of the segment at an offset."""
    for each in list_partition_objects(store, PARTITION).attempts:
        if each.start_offset == offset:
            store.delete([each.objects[kind].key])


def expire(store: DirectoryStore, log_start: int = 0, retention: str = "none") -> list[int]:
    """Return base offsets of which any object is left when `expire` has ended."""
    words = ("--topic", "orders", "--log-start", log_start, "--retention", retention, "--unmanaged", "--apply")
    ran = tiersnap("expire", "--remote", store.root, *words)
    assert ran.exit_code == 0, ran.err
    return [each.start_offset for each in list_partition_objects(store, PARTITION).attempts]


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "a broker's"])
@pytest.mark.parametrize(("layout", "kind"), [(AIVEN, KeyKind.RSM_MANIFEST), (LOCAL, EPOCHS)], ids=["aiven", "local"])
@pytest.mark.parametrize("offset", BASES)
def test_expire_deletes_a_damaged_segment_once_the_log_start_has_passed_its_end(
    store: DirectoryStore, tmp_path: Path, layout: Layout, kind: KeyKind, offset: int, is_ours: bool
) -> None:
    """No log start but its end lets it go, whether or not segments lie behind it, and is at no time inside of it."""
    fill(store, layout, tmp_path / "logs", is_ours=is_ours)
    damage(store, offset, kind)
    for log_start in range(16):
        assert expire(store, log_start) == [each for each in BASES if each + 5 > log_start], log_start
        recorded = read_record(store, PARTITION).log_start_offset
        assert recorded == log_start // 5 * 5, log_start
    assert list_partition_objects(store, PARTITION).claims == {}


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "a broker's"])
def test_expire_deletes_a_damaged_segment_below_the_log_start_that_an_earlier_run_recorded(
    store: DirectoryStore, tmp_path: Path, is_ours: bool
) -> None:
    fill(store, AIVEN, tmp_path / "logs", is_ours=is_ours)
    write_record(store, PARTITION, ExpireRecord(log_start_offset=10))
    damage(store, 5, KeyKind.RSM_MANIFEST)
    damage(store, 10, KeyKind.RSM_MANIFEST)
    assert expire(store, 0) == [0, 10]


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "a broker's"])
def test_expire_leaves_a_damaged_segment_that_nothing_tells_the_end_of_until_the_next_one_has_gone(
    store: DirectoryStore, tmp_path: Path, is_ours: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As it is of one that the plugin compressed: the next may begin before its end, if another leader copied it."""
    fill(store, AIVEN, tmp_path / "logs", is_ours=is_ours)
    for each in list_partition_objects(store, PARTITION).attempts[:1]:
        (store.root / each.objects[KeyKind.LOG].key).write_bytes(b"compressed")
    damage(store, 0, KeyKind.RSM_MANIFEST)
    with caplog.at_level(logging.WARNING):
        assert expire(store, 9) == [0, 5, 10]
    assert "it may hold offsets up to 9, and the log start is 5" in caplog.text
    assert expire(store, 10) == [10]


def test_expire_leaves_a_damaged_segment_that_ends_behind_the_next_ones_start(
    store: DirectoryStore, tmp_path: Path
) -> None:
    """Another leader copied [5, 10) when the first one had copied [0, 10)."""
    tier(write_replica_that_rolled_later(tmp_path / "long"), store, layout=AIVEN, bases={0})
    tier(write_log(tmp_path / "logs"), store, layout=AIVEN, bases={5, 10})
    make_old(store)
    damage(store, 0, KeyKind.RSM_MANIFEST)
    assert expire(store, 5) == [0, 5, 10]
    assert expire(store, 10) == [10]


@pytest.mark.parametrize("kind", [KeyKind.RSM_MANIFEST, KeyKind.INDEXES])
def test_expire_leaves_a_segment_of_ours_that_lost_an_object_while_its_log_holds_an_offset_that_stays(
    store: DirectoryStore, tmp_path: Path, kind: KeyKind
) -> None:
    """`mend` puts the object back."""
    fill(store, AIVEN, tmp_path / "logs", is_ours=True)
    lose(store, 5, kind)
    assert expire(store, 7) == [5, 10]
    assert expire(store, 10) == [10]


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "a broker's"])
@pytest.mark.parametrize("kind", [KeyKind.RSM_MANIFEST, KeyKind.LOG])
@pytest.mark.parametrize("offset", BASES)
def test_expire_deletes_a_damaged_segment_by_the_time_of_its_objects_behind_what_goes(
    store: DirectoryStore, tmp_path: Path, offset: int, kind: KeyKind, is_ours: bool
) -> None:
    fill(store, AIVEN, tmp_path / "logs", is_ours=is_ours)
    damage(store, offset, kind)
    assert expire(store, retention="100000d") == BASES
    assert expire(store, retention="1d") == []


@pytest.mark.parametrize("lose_or_damage", [lose, damage])
def test_expire_deletes_no_incomplete_segment_of_ours_by_time_behind_one_that_stays(
    store: DirectoryStore, tmp_path: Path, lose_or_damage: Callable[[DirectoryStore, int, KeyKind], None]
) -> None:
    """A client stamped a record with a time that is to come, or the store locks a segment."""
    batches = {0: [data_batch(0, 5, 7, 0, 0, timestamp=4_102_444_800_000)]}
    batches |= {base: [data_batch(base, 5, 7, 0, base)] for base in (5, 10)}
    write_partition(tmp_path / "logs", "orders", 0, batches, high_watermark=15, topic_id=PARTITION.topic_id)
    ran = tiersnap("tier", tmp_path / "logs", "--remote", store.root, "--apply")
    assert ran.exit_code == 0, ran.err
    make_old(store)
    lose_or_damage(store, 5, KeyKind.RSM_MANIFEST)
    assert expire(store, retention="1d") == [0, 5]


class Locking(DirectoryStore):
    """A store that locks the objects of the segment at offset 5."""

    def head(self, key: str) -> ObjectInfo | None:
        found = super().head(key)
        return replace(found, lock="a legal hold") if found and f"{5:020d}" in key else found


@pytest.mark.parametrize("words", [{"log_start_offset": 10}, {"milliseconds": DAY}], ids=["log-start", "retention"])
def test_expire_takes_the_log_start_behind_no_locked_segment_that_the_damaged_one_before_it_may_reach_into(
    store: DirectoryStore, tmp_path: Path, words: dict[str, int]
) -> None:
    """A legal hold is no use to a segment below the log start, which nobody restores."""
    fill(store, AIVEN, tmp_path / "logs", is_ours=True)
    for each in list_partition_objects(store, PARTITION).attempts[:1]:
        (store.root / each.objects[KeyKind.LOG].key).write_bytes(b"compressed")
    damage(store, 0, KeyKind.RSM_MANIFEST)
    locking, nobody = Locking(store.root), Managed(Manager.NOBODY, "")
    stored = list_partition_objects(locking, PARTITION)
    found = plan_partition(locking, stored, nobody, Retention(locking.now(), **words))
    assert [each.action for each in found.segments][:2] == [ExpireAction.DELETE, ExpireAction.LOCKED]
    assert found.log_start_offset == 5
