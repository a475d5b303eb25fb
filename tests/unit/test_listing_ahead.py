"""Neighbouring partitions in one listing: the same objects as alone, few requests, and no ground for a change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.remote_server import objects_of
from tests.reference.paged_store import PAGE, PagedStore
from tests.reference.planned import TOPIC_ID, write_log
from tests.reference.tiered import aiven
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claim, finish
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, new_segment_id
from tiersnap.remote_storage.remote_log.listing_ahead import ListingAhead, list_keys
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.remote_log.remote_log import metadata_of
from tiersnap.snapshot.errors import RemoteStorageError
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Checkpoints, Partition, read_partition
from tiersnap.snapshot.replay.remote_listing import ListedCopy, RemoteListing, RemoteSegmentState
from tiersnap.snapshot.replay.remote_records import PartitionRecords

pytestmark = pytest.mark.unit

# Names that begin like other names and their ids, ids that look like parts of a name, and one topic under two ids.
TOPICS = [
    ("a", "-_-_-_-_-_-_-_-_-_-_-A"),
    ("a", "1-2-3-4-5-6-7-8-9-0-_Q"),
    ("a-1", "-_-_-_-_-_-_-_-_-_-_-A"),
    ("a-1-2", "AAAAAAAAAAAAAAAAAAAAAg"),
    ("a_1", "_1AAAAAAAAAAAAAAAAAAAw"),
    ("a.1", "-----------0---------A"),
]


@dataclass(frozen=True)
class Holding:
    """The objects of one partition: how many segments and claims it has."""

    partition: TopicIdPartition
    segments: int
    claims: int


@st.composite
def holdings(draw: st.DrawFn) -> list[Holding]:
    """One to three topics of up to 40 partitions."""
    held = []
    for topic in draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True)):
        for number in draw(st.sets(st.integers(0, 130), min_size=5, max_size=40)):
            # Not drawn, because it makes the examples too large.
            held.append(Holding(TopicIdPartition(*topic, number), number % 4, number % 3))
    return held


def fill(store: PagedStore, holding: Holding, *, local: bool) -> None:
    partition = holding.partition
    kinds = [KeyKind.LOCAL_LOG, KeyKind.LOCAL_SNAPSHOT] if local else [KeyKind.LOG, KeyKind.RSM_MANIFEST]
    for base in range(holding.segments):
        metadata = metadata_of(partition, new_segment_id(), base, base + 1)
        for kind in kinds:
            store.replace(keys.segment(kind, metadata), b"x")
    for base in range(holding.claims):
        store.replace(keys.claim(partition, base, 0), b"x")
    store.replace(keys.manifests(partition), b"x")
    store.replace(keys.unblock(partition.topic, partition.topic_id or ""), b"x")
    store.replace(keys.snapshot(partition, 1), b"x")


def in_order_of_folders(partitions: Iterable[TopicIdPartition]) -> list[TopicIdPartition]:
    return sorted(partitions, key=lambda each: f"{each.topic}-{each.partition}")


@given(holdings(), st.integers(1, 3), st.sampled_from(sorted(LAYOUTS)))
def test_partitions_have_the_same_keys_ahead_as_alone(held: list[Holding], disk_count: int, layout: str) -> None:
    """Several log directories, one after the other. Each begins the topics again."""
    location = RemoteLocation(store := PagedStore(), LAYOUTS[layout]())
    for each in held:
        fill(store, each, local=location.is_local)
    ahead = ListingAhead()
    for disk in range(disk_count):
        mine = [each.partition for each in held if each.partition.partition % disk_count == disk]
        for partition in in_order_of_folders(mine):
            found, alone = ahead.keys_of(location, partition), list_keys(location, partition)
            assert found is None or [*found.beside, *found.segments] == [*alone.beside, *alone.segments]
            assert ahead.keys_of(location, partition) is None, "asked again"


def served(store: PagedStore, numbers: Iterable[int], fresh_seconds: float = 60.0) -> int:
    """Return how many partitions of one topic are listed ahead; list the others alone."""
    location, ahead, count = aiven(store), ListingAhead(fresh_seconds), 0
    for partition in in_order_of_folders(TopicIdPartition("orders", TOPIC_ID, each) for each in numbers):
        if ahead.keys_of(location, partition) is None:
            list_keys(location, partition)
        else:
            count += 1
    return count


def orders(partitions: Iterable[int], segments: int) -> PagedStore:
    store = PagedStore()
    for number in partitions:
        for key, data in objects_of(number, segments):
            store.replace(key, data)
    return store


def test_a_topic_is_listed_in_pages_when_all_partitions_are_wanted() -> None:
    store = orders(range(400), segments=2)
    assert served(store, range(400)) == 396
    pages = -(-400 * 6 // PAGE) + -(-400 * 2 // PAGE)
    assert store.pages <= 2 * 4 + pages


def test_one_partition_takes_two_requests() -> None:
    store = orders(range(400), segments=2)
    assert served(store, [7]) == 0
    assert (store.pages, store.keys_read) == (2, 8)


def test_reading_ahead_begins_anew_for_each_minute_and_disk_as_long_as_it_saves() -> None:
    """With pages that are old at once, each partition begins its listing again, until that costs too much."""
    store = orders(range(400), segments=2)
    assert served(store, range(400), fresh_seconds=0.0) == 2
    assert store.pages <= 2 * 400 + 4
    disks = PagedStore(objects=store.objects)
    location, ahead, alone = aiven(disks), ListingAhead(), 0
    for disk in range(4):
        names = [TopicIdPartition("orders", TOPIC_ID, each) for each in range(disk, 400, 4)]
        alone += sum(ahead.keys_of(location, each) is None for each in in_order_of_folders(names))
    assert alone == 4
    assert disks.pages <= 2 * 4 * 3


def test_few_partitions_of_many_read_few_other_keys() -> None:
    """Of 400 partitions with 49 keys each, 1 in 20 or 1 in 80 is wanted. All have 19,600 keys."""
    objects = orders(range(400), segments=12).objects
    for wanted in (5, 20):
        store = PagedStore(objects=objects)
        served(store, range(0, 400, 400 // wanted))
        assert store.pages <= 2 * wanted + 8
        assert store.keys_read <= wanted * 49 + 6 * PAGE


def test_listing_ahead_keeps_no_more_than_a_page_of_keys() -> None:
    """Each page is requested only when a partition in it is asked for."""
    store = orders(range(600), segments=2)
    location, ahead = aiven(store), ListingAhead()
    names = in_order_of_folders(TopicIdPartition("orders", TOPIC_ID, each) for each in range(600))
    returned = 0
    for partition in names[:100]:
        found = ahead.keys_of(location, partition) or list_keys(location, partition)
        returned += len(found.segments) + len(found.beside)
    assert store.keys_read - returned <= 2 * PAGE


def test_a_listing_that_failed_is_not_read_on() -> None:
    store = orders(range(400), segments=2)
    location, ahead = aiven(store), ListingAhead()
    names = in_order_of_folders(TopicIdPartition("orders", TOPIC_ID, each) for each in range(400))
    for partition in names[:5]:
        ahead.keys_of(location, partition)
    store.fails_at = store.pages + 1
    failures = 0
    for partition in names[5:]:
        try:
            found = ahead.keys_of(location, partition)
        except RemoteStorageError:
            failures += 1
            continue
        assert found is None or found == list_keys_again(store, partition)
    assert failures == 1


def list_keys_again(store: PagedStore, partition: TopicIdPartition) -> object:
    """List a partition alone, without its requests being counted."""
    before = store.pages, store.fails_at
    store.fails_at = 0
    found = list_keys(aiven(store), partition)
    store.pages, store.fails_at = before
    return replace(found, beside=list(found.beside), segments=list(found.segments))


@pytest.fixture(name="one")
def fixture_one(tmp_path: Path) -> Partition:
    return read_partition(LOCAL, str(write_log(tmp_path)), Checkpoints())


def partitions_of(one: Partition, count: int, segments: int = 2) -> list[Partition]:
    """Partitions in the order of their folders whose closed segments `objects_of` has as remote segments."""
    closed = []
    for base in range(0, 10 * segments, 10):
        closed.append(replace(one.segments[0], base_offset=base, next_base_offset=base + 10))
    numbers = sorted(range(count), key=str)
    return [replace(one, partition=each, segments=tuple(closed), leader_epochs=((0, 0),)) for each in numbers]


def test_listings_are_equal_ahead_and_alone_whatever_the_partitions_lack(one: Partition) -> None:
    """Partitions lack each object in turn, have a broker's incomplete segment, or a claim without a segment."""
    store = orders(range(60), segments=2)
    for number in range(10, 60):
        mine = sorted(key for key in store.objects if f"/{number}/" in key)
        store.delete(mine[number % 9 : number % 9 + 1])
    partitions = partitions_of(one, 60)
    ahead, alone = Observe(aiven(store), ahead=ListingAhead()), Observe(aiven(store))
    assert [ahead(each) for each in partitions] == [alone(each) for each in partitions]


def test_a_partition_that_needs_nothing_makes_no_listing(one: Partition) -> None:
    store = orders(range(60), segments=2)
    observe = Observe(aiven(store), ahead=ListingAhead())
    assert all(len(observe(each).tiered_segments(each)) == 2 for each in partitions_of(one, 60))
    assert store.pages == 2 * 4 + 2


def begun(store: PagedStore, partitions: list[Partition]) -> Observe:
    """Return an Observe that has read the keys of all partitions ahead."""
    observe = Observe(aiven(store), ahead=ListingAhead())
    for each in partitions[:6]:
        observe(each)
    return observe


def keys_of(store: PagedStore, partition: Partition) -> list[str]:
    """Return the keys of the partition's segments and claims."""
    return sorted(key for key in store.objects if f"orders-{TOPIC_ID}/{partition.partition}/" in key)


@pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest", "-0.json", ""])
def test_an_object_that_was_put_after_the_page_is_seen(one: Partition, suffix: str) -> None:
    """The last case is a whole segment with its claim."""
    store, partitions = orders(range(60), segments=2), partitions_of(one, 60)
    last = partitions[-1]
    stored = {}
    for key in keys_of(store, last):
        if f"/{10:020d}-" in key and key.endswith(suffix):
            stored[key] = store.objects.pop(key)
    observe = begun(store, partitions)
    store.objects.update(stored)
    found = observe(last)
    assert found == Observe(aiven(store))(last)
    assert len(found.tiered_segments(last)) == 2


def newest(store: PagedStore, partition: Partition) -> tuple[ClaimedSegment, str]:
    """Return the partition's segment at offset 10 as its claim names it, and its id."""
    name = TopicIdPartition("orders", TOPIC_ID, partition.partition)
    (found,) = [each for each in list_remote_partition(aiven(store), name).segments if each.start_offset == 10]
    return found.claimed_as, found.segment_id


def put_twin(store: PagedStore, partition: Partition, segment_id: str) -> str:
    """Put a complete segment with the same offsets as another one, and return its id."""
    twin = new_segment_id()
    for key in keys_of(store, partition):
        if segment_id in key:
            data = store.objects[key].data.replace(segment_id.encode(), twin.encode())
            store.replace(key.replace(segment_id, twin), data)
    return twin


def test_an_unfinished_claim_that_was_put_after_its_page_is_seen(one: Partition) -> None:
    """A page of claims has more partitions than a page of segments, so the claims may be older."""
    store, partitions = orders(range(400), segments=2), partitions_of(one, 400)
    late = partitions[300]
    claimed, segment_id = newest(store, late)
    store.delete([keys.claim(claimed.partition, 10, 0)])
    observe = Observe(aiven(store), ahead=ListingAhead())
    for each in partitions[:300]:
        observe(each)
    claim(store, claimed, Attempt.of(segment_id, "run"))
    found = observe(late)
    assert found == Observe(aiven(store))(late)
    assert found.tiered_segments(late) == {0}


def test_a_partition_with_a_leftover_is_listed_anew(one: Partition) -> None:
    store, partitions = orders(range(60), segments=2), partitions_of(one, 60)
    last = partitions[-1]
    claimed, segment_id = newest(store, last)
    twin = put_twin(store, last, segment_id)
    store.delete([keys.claim(claimed.partition, 10, 0)])
    claim(store, claimed, Attempt.of(twin, "run"))
    finish(store, claim(store, claimed, Attempt.of(segment_id, "run")))
    observe = begun(store, partitions)
    pages = store.pages
    assert observe(last).leftover_count == 1
    assert store.pages == pages + 2


def test_an_object_of_a_published_segment_that_was_put_after_the_page_is_seen(one: Partition) -> None:
    """Two segments have the same offsets, so the partition is tiered without the published one."""
    store, partitions = orders(range(60), segments=2), partitions_of(one, 60)
    last = partitions[-1]
    _, segment_id = newest(store, last)
    put_twin(store, last, segment_id)
    stored = {key: store.objects.pop(key) for key in keys_of(store, last) if segment_id in key}
    copy = ListedCopy(segment_id, 10, 20, RemoteSegmentState.COPY_SEGMENT_FINISHED, leader_epochs=((0, 10),))
    records = {("orders", last.partition): PartitionRecords(TOPIC_ID, (copy,), is_complete=True)}
    observe = begun(store, partitions).with_records(records)
    store.objects.update(stored)
    assert observe(last) == Observe(aiven(store), records=records)(last)


def test_a_claim_that_was_damaged_after_the_page_is_reported_as_alone(one: Partition) -> None:
    store, partitions = orders(range(60), segments=2), partitions_of(one, 60)
    last = partitions[-1]
    observe = begun(store, partitions)
    store.replace(keys.claim(TopicIdPartition("orders", TOPIC_ID, last.partition), 10, 0), b"{")
    pages = store.pages
    assert observe(last) == Observe(aiven(store))(last)
    assert store.pages - pages == 2 * 2, "both list the partition"


def test_a_segment_that_vanished_after_the_page_is_missed(one: Partition) -> None:
    store, partitions = orders(range(60), segments=2), partitions_of(one, 60)
    last = partitions[-1]
    observe = begun(store, partitions)
    store.delete(keys_of(store, last))
    assert observe(last) == RemoteListing(leftover_count=0)


def test_a_segment_that_a_broker_moved_to_remote_storage_after_the_page_is_seen(one: Partition) -> None:
    """The broker uploads the segment, and deletes its local files, between the page and the look at the local log."""
    store, partitions = orders(range(60), segments=2), partitions_of(one, 60)
    last = partitions[-1]
    newest_keys = [key for key in keys_of(store, last) if f"/{10:020d}-" in key]
    moved = {key: store.objects.pop(key) for key in newest_keys}
    observe = begun(store, partitions)
    for key, stored in moved.items():
        if not key.endswith(".json"):
            store.objects[key] = stored  # brokers write no claims
    active = replace(one.segments[-1], base_offset=20, next_base_offset=None)
    local = replace(last, segments=(active,), log_start_checkpoint=0, log_start_offset=0)
    found = observe(local)
    assert found == Observe(aiven(store))(local)
    assert [copy.base_offset for copy in found.copies] == [0, 10]
