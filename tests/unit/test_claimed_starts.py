"""A replay may start from the snapshot of a copy whose claim vouches for it."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

import pytest

from tests.reference.log_builder import TIMESTAMP, data_batch, write_partition
from tests.reference.planned import PARTITION, write_log
from tests.reference.tiered import aiven, tier
from tiersnap.remote_storage.errors import SnapshotChangedError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment, ClaimedSnapshot
from tiersnap.remote_storage.locks.claim_protocol import claim, finish
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, new_segment_id
from tiersnap.remote_storage.remote_log.starts import find_start, read_start, state_at
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import ClaimedStart, ListedCopy

pytestmark = pytest.mark.unit

COMPUTED = ClaimedSnapshot.of(0xAB, Provenance.COMPUTED, "")


def row(segment_id: str, start: int = 0, *epochs: int) -> ListedCopy:
    """A copy of five offsets, as far as it is asked; leader epochs from `start` on, one an offset."""
    told = tuple((epoch, start + number) for number, epoch in enumerate(epochs or (0,)))
    return ListedCopy(segment_id, start, start + 5, leader_epochs=told)


def finished(store: DirectoryStore, start: int = 0, epoch: int = 0, snapshot: ClaimedSnapshot | None = COMPUTED) -> str:
    """The segment id of a copy whose claim is finished."""
    segment_id = new_segment_id()
    held = claim(store, ClaimedSegment(PARTITION, start, epoch), Attempt.of(segment_id, "run-1"))
    finish(store, held, snapshot)
    return segment_id


def test_the_first_copy_whose_claim_vouches_for_its_snapshot_gives_the_start(store):
    without, first, second = finished(store, 0, snapshot=None), finished(store, 5), finished(store, 10)
    copies = [row(without, 0), row(first, 5), row(second, 10)]
    assert find_start(store, PARTITION, copies, {}) == ClaimedStart(10, first, 5, 0xAB, Provenance.COMPUTED)
    assert find_start(store, PARTITION, copies[:1], {}) is None


def test_the_claim_is_that_of_the_newest_leader_epoch_of_the_copy(store):
    ours = finished(store, 0, epoch=3)
    assert find_start(store, PARTITION, [row(ours, 0, 1, 2)], {}) is None
    assert find_start(store, PARTITION, [row(ours, 0, 1, 3)], {}) is not None


def test_a_copy_that_the_claim_does_not_say_is_finished_gives_none(store):
    segment = ClaimedSegment(PARTITION, 0, 0)
    held = claim(store, segment, Attempt.of(new_segment_id(), "run-1"))
    assert find_start(store, PARTITION, [row(held.claim.holder.segment_id)], {}) is None
    finish(store, held, COMPUTED)
    assert find_start(store, PARTITION, [row(new_segment_id())], {}) is None


def test_a_claim_that_cannot_be_read_gives_none_and_the_next_copy_is_asked(store):
    store.put_if_absent(keys.claim(PARTITION, 0, 0), b"{")
    second = finished(store, 5)
    assert find_start(store, PARTITION, [row(new_segment_id()), row(second, 5)], {}).segment_id == second


@pytest.mark.parametrize("verdict", ["", *SnapshotVerdict])
@pytest.mark.parametrize("provenance", Provenance)
def test_a_state_starts_from_what_was_computed_whole_or_compared_strictly_and_from_nothing_else(
    store, provenance, verdict
):
    ours = finished(store, snapshot=ClaimedSnapshot.of(1, provenance, verdict))
    is_computed = provenance in ("COMPUTED", "COMPUTED_FROM_LOG_START", "COMPUTED_FROM_SNAPSHOT")
    is_compared = provenance == "BROKER" and verdict in ("MATCHES", "EXTENDS")
    assert (find_start(store, PARTITION, [row(ours)], {}) is not None) is (is_computed or is_compared)


def start_of(copy: RemoteLogSegmentMetadata, crc: int) -> ClaimedStart:
    return ClaimedStart(copy.end_offset + 1, copy.id.segment_id, copy.start_offset, crc, Provenance.COMPUTED)


@pytest.mark.parametrize("layout", [AivenLayout(), LocalTieredStorageLayout()], ids=["aiven", "local"])
def test_the_snapshot_of_a_copy_is_read_and_held_against_what_its_claim_says(store, layout, tmp_path):
    empty, right = bytes.fromhex("0001 48674bc7 00000000"), {10: bytes.fromhex("0001 48674bc7 00000000")}
    _, copy, _ = tier(write_log(tmp_path / "logs"), store, layout=layout, snapshots=right)
    assert read_start(RemoteLocation(store, layout), PARTITION, start_of(copy, crc32c(empty))) == empty
    with pytest.raises(
        CorruptDataError, match=f"has CRC {crc32c(empty):08x}, but the claim of its segment says 000000ab"
    ) as raised:
        read_start(RemoteLocation(store, layout), PARTITION, start_of(copy, 0xAB))
    assert shlex.join(RemoteLocation(store, layout).words) in raised.value.hint

    store.delete(info.key for info in list(store.list()) if copy.id.segment_id in info.key)
    with pytest.raises(SnapshotChangedError, match=f"{copy.id.segment_id}") as caught:
        read_start(RemoteLocation(store, layout), PARTITION, start_of(copy, crc32c(empty)))
    assert (caught.value.attrs["offset"], caught.value.attrs["at"]) == (10, "")


class CountingStore:
    """Counts the requests for content, by the suffix of the object."""

    def __init__(self, store: DirectoryStore) -> None:
        self._store, self.asked = store, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("get", "get_range"):
            return method

        def counted(key: str, *args: Any, **words: Any) -> bytes:
            self.asked[key.rpartition(".")[2]] += 1
            return method(key, *args, **words)

        return counted


@pytest.mark.parametrize(("days", "segments"), [(1, 16), (4, 24), (None, 40)])
def test_remote_segments_are_read_as_far_back_as_producers_live(store, tmp_path, days, segments):
    day, end = 86_400_000, 40
    times = {n: TIMESTAMP + n * day // 4 for n in range(end + 1)}
    batches = {n: [data_batch(n, 1, n, 0, 0, timestamp=time)] for n, time in times.items()}
    tier(write_partition(tmp_path / "whole", "orders", 0, batches, indexes=True), store, max_timestamps=times)
    left = {end: batches[end]}
    write_partition(tmp_path / "logs", "orders", 0, left, log_start_offset=0, leader_epochs=[(0, 0)], indexes=True)
    (partition,) = open_log_dir(str(tmp_path / "logs")).partitions()
    counting, expiration = CountingStore(store), None if days is None else days * day
    found = state_at(aiven(counting), partition, end, expiry=BrokerExpiry(times[end], expiration))
    assert found.entries["producer_id"].tolist() == list(range(end))
    assert counting.asked["indexes"] == segments, "a snapshot each"
    assert counting.asked["log"] == 1, "the segment of the one that is believed"
