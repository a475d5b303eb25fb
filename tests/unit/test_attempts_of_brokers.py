"""What failed copy attempts of brokers left in remote storage is counted, and removed once others hold its offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.reference.left_over import CLUSTER, copies, make_old, orphans, removable
from tests.reference.planned import PARTITION, write_log
from tests.reference.tiered import tier
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.retire.attempts_of_brokers import AttemptLeftovers, ended_attempts, find_leftovers
from tiersnap.remote_storage.retire.known_to_cluster import KnownPartition
from tiersnap.remote_storage.retire.orphan_kinds import Fate
from tiersnap.remote_storage.retire.orphans_find import remove
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED


def began(cache: MetadataCache, *segments: RemoteLogSegmentMetadata, broker: int = 1) -> None:
    for each in segments:
        assert cache.apply(SegmentRecord(replace(each, broker_id=broker, state=STARTED)))


def finished(cache: MetadataCache, *segments: RemoteLogSegmentMetadata, broker: int = 1) -> None:
    began(cache, *segments, broker=broker)
    for each in segments:
        assert cache.apply(SegmentUpdate(each.id, broker, 1, FINISHED))


def known(cache: MetadataCache, **changes: object) -> KnownPartition:
    """What the cluster says by these records."""
    ended = ended_attempts(cache, PARTITION)
    told = KnownPartition(PARTITION, CLUSTER, dict(cache.segments(PARTITION)), ended_attempts=ended, log_start=0)
    return replace(told, **changes)


def ids(segments: Iterable[RemoteLogSegmentMetadata]) -> set[str]:
    return {each.id.segment_id for each in segments}


def keys_of(store: DirectoryStore, segments: Iterable[RemoteLogSegmentMetadata]) -> set[str]:
    return {info.key for info in store.list() if any(each in info.key for each in ids(segments))}


def test_attempts_end_when_their_broker_begins_another(store, layout, tmp_path):
    write_log(tmp_path / "logs")
    first, second, third, *_ = tier(tmp_path / "logs" / "orders-0", store, layout=layout)
    cache = MetadataCache()
    began(cache, first, second)
    began(cache, third, broker=2)
    assert ended_attempts(cache, PARTITION) == ids([first]), "the newest of each broker may be at work"


def test_what_failed_attempts_left_goes_once_the_cluster_knows_others(store, layout, tmp_path):
    write_log(tmp_path / "logs")
    log = tmp_path / "logs" / "orders-0"
    cache = MetadataCache()
    failed = [tier(log, store, layout=layout, bases={0})[0] for _ in range(3)]
    began(cache, *failed)
    *ended, newest = failed
    size = sum(info.size for info in store.list() if info.key in keys_of(store, ended))
    assert list(find_leftovers(store, cache)) == [AttemptLeftovers("orders-0", 2, size)]
    make_old(store)
    found = orphans(store, known(cache))
    assert {each.segment_id: each.action for each in found} == dict.fromkeys(ids(ended), Fate.LEAVE)
    assert all("remote log of the cluster ends at offset 0; next: tiersnap unblock" in each.reason for each in found)

    whole = tier(log, store, layout=layout)
    finished(cache, *whole)
    found = orphans(store, known(cache))
    assert removable(found) == keys_of(store, failed), "the broker went on: its newest attempt has ended, too"
    assert orphans(store, known(cache, has_leader=False)) == []
    assert orphans(store, known(cache, log_start=None)) == []
    assert all(not failures for _, failures in remove(store, found))
    assert copies(store) == ids(whole)
    assert newest.id.segment_id not in copies(store)
    assert (orphans(store, known(cache)), list(find_leftovers(store, cache))) == ([], [])


def test_young_attempts_wait(store, layout, tmp_path):
    write_log(tmp_path / "logs")
    log, cache = tmp_path / "logs" / "orders-0", MetadataCache()
    failed = tier(log, store, layout=layout, bases={0})
    began(cache, *failed)
    finished(cache, *tier(log, store, layout=layout))
    assert [each.action for each in orphans(store, known(cache))] == [Fate.WAIT]


@pytest.mark.parametrize("is_partial", [False, True])
def test_an_attempt_stays_while_what_holds_its_offsets_is_damaged(store, layout, tmp_path, is_partial):
    """Also a partial one: its log may be all that is left."""
    write_log(tmp_path / "logs")
    log, cache = tmp_path / "logs" / "orders-0", MetadataCache()
    failed = tier(log, store, layout=layout, bases={0})
    began(cache, *failed)
    whole = tier(log, store, layout=layout)
    finished(cache, *whole)
    if is_partial:
        left_out = next(key for key in keys_of(store, failed) if not key.endswith(".log"))
        store.delete([left_out])
    (holder,) = (key for key in keys_of(store, whole[:1]) if key.endswith(".log"))
    path = tmp_path / "remote" / holder
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    make_old(store)
    (found,) = orphans(store, known(cache))
    assert (found.action, "is not proven to be right" in found.reason) == (Fate.LEAVE, True), found.reason
    path.unlink()
    (found,) = (each for each in orphans(store, known(cache)) if each.segment_id in ids(failed))
    assert (found.action, "no other complete segment" in found.reason) == (Fate.LEAVE, True), found.reason
