"""A location with segments in the other layout: each command refuses it, and uploads no second segment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.flaky_store import FlakyStore
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import write_partition
from tests.reference.tiered import tier
from tests.unit.test_whole_but_not_counted import ORDERS, SEGMENTS
from tiersnap.remote_storage.errors import OtherLayoutError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS, open_layout
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, new_segment_id
from tiersnap.remote_storage.remote_log.complete import check_other_layout
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.remote_log.remote_log import metadata_of
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import open_log_dirs
from tiersnap.snapshot.replay.remote_listing import ListedCopy, RemoteSegmentState
from tiersnap.snapshot.replay.remote_records import PartitionRecords

pytestmark = pytest.mark.unit

NOW = ("--now", "2023-11-15T00:00:00Z")
PAGE = 1_000


@pytest.fixture(params=sorted(LAYOUTS))
def name(request: pytest.FixtureRequest) -> str:
    """The layout of the brokers."""
    return str(request.param)


@pytest.fixture
def other(name: str) -> str:
    (found,) = LAYOUTS.keys() - {name}
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_partition(tmp_path / "logs", "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    return tmp_path / "logs"


@pytest.fixture
def uploaded(store: DirectoryStore, source: Path, name: str) -> list[RemoteLogSegmentMetadata]:
    """The closed segments, as a broker uploads them: without claims."""
    return tier(source / "orders-0", store, layout=open_layout(name))


def put_stray_log(store: DirectoryStore, layout: str, *, base_offset: int = 100) -> None:
    """Put the log of a killed upload of orders-0."""
    folder = keys.partition_segments(ORDERS, local=open_location(store, layout).is_local)
    store.put_if_absent(f"{folder}{base_offset:020d}-{new_segment_id()}.log", b"x")


def partition_of(source: Path) -> Partition:
    (log_dir,) = open_log_dirs([str(source)])
    return log_dir.log_dir.partition("orders-0")


def records(*segment_ids: str, is_complete: bool = True) -> dict[tuple[str, int], PartitionRecords]:
    """Records that name these segments as published."""
    finished = RemoteSegmentState.COPY_SEGMENT_FINISHED
    named = tuple(ListedCopy(each, 0, 10, finished, leader_epochs=((0, 0),)) for each in segment_ids)
    return {("orders", 0): PartitionRecords(ORDERS.topic_id or "", named, is_complete)}


def lists_of(store: DirectoryStore, source: Path, layout: str) -> int:
    """Return the number of listings of one look."""
    counting = FlakyStore(store, {})
    Observe(open_location(counting, layout))(partition_of(source))
    return Counter(counting.calls)["list"]


@pytest.mark.usefixtures("uploaded")
@pytest.mark.parametrize("command", ["tier", "tier --apply", "scan", "doctor"])
def test_commands_refuse_segments_in_the_other_layout(
    store: DirectoryStore, source: Path, name: str, other: str, command: str
) -> None:
    before = sorted(info.key for info in store.list())
    verb, *options = command.split()
    words = (verb, source, "--remote", store.root, *NOW, *options)
    ran = tiersnap(*words, "--layout", other)
    (error,) = json.loads(ran.out)["errors"]
    said = f"orders-0: remote segments exist in this location in the layout {name}, but this run uses {other}: "
    assert (ran.exit_code, error["message"][: len(said)]) == (4, said)
    assert error["hint"].startswith(f"give --layout {name}; to use {other}, give another --remote")
    assert sorted(info.key for info in store.list()) == before, "no object of any kind was written"
    assert json.loads(tiersnap(*words, "--layout", name).out)["errors"] == []


@pytest.mark.usefixtures("uploaded")
def test_run_uploads_no_partition_whose_segments_are_in_the_other_layout(
    tmp_path: Path, store: DirectoryStore, source: Path, name: str, other: str
) -> None:
    ran = Runner(tmp_path, source, remote=str(store.root), layout=open_layout(other))()
    (error,) = ran.errors
    assert f"in the layout {name}, but this run uses {other}" in error
    assert (ran.segments_uploaded, ran.is_transient) == (0, False)


@pytest.mark.usefixtures("uploaded")
def test_verify_refuses_a_location_with_segments_in_the_other_layout(
    store: DirectoryStore, name: str, other: str
) -> None:
    ran = tiersnap("verify", "--remote", store.root, "--layout", other)
    assert_said(ran, 4, f"orders-0: remote segments exist in this location in the layout {name}", f"--layout {name}")
    assert tiersnap("verify", "--remote", store.root, "--layout", name).exit_code == 0


@pytest.mark.usefixtures("uploaded")
@pytest.mark.parametrize("has_log_dir", [False, True], ids=["remote", "remote and files"])
def test_verify_refuses_the_partitions_that_use_the_other_layout(
    store: DirectoryStore, source: Path, name: str, other: str, has_log_dir: bool
) -> None:
    folder = write_partition(source, "payments", 0, SEGMENTS, high_watermark=35, indexes=True)
    tier(folder, store, layout=open_layout(other))
    files = (source, *NOW) if has_log_dir else ()
    for layout, refused, its in ((name, "payments-0", other), (other, "orders-0", name)):
        ran = tiersnap("verify", *files, "--remote", store.root, "--layout", layout)
        said = f"{refused}: remote segments exist in this location in the layout {its}, but this run uses {layout}"
        assert_said(ran, 4, "3 segments of 1 partition", said, f"give --layout {its}")
        (error,) = json.loads(ran.out)["errors"]
        assert (error["type"], error["message"].startswith(said)) == ("OtherLayoutError", True)


@pytest.mark.usefixtures("uploaded")
def test_verify_refuses_the_other_layout_beside_an_incomplete_segment(
    store: DirectoryStore, name: str, other: str
) -> None:
    put_stray_log(store, other)
    ran = tiersnap("verify", "--remote", store.root, "--layout", other)
    assert_said(ran, 4, f"orders-0: remote segments exist in this location in the layout {name}")


def test_verify_reports_lost_segments_beside_an_incomplete_segment_in_the_other_layout(
    store: DirectoryStore, source: Path, tmp_path: Path, name: str, other: str
) -> None:
    where = ("--remote", store.root, "--layout", name)
    assert_said(tiersnap("tier", source, *where, *NOW, "--apply"), 0)
    lost = keys.partition_segments(ORDERS, local=open_location(store, name).is_local)
    store.delete([each.key for each in store.list(lost)])
    put_stray_log(store, other)
    payments = write_partition(tmp_path / "more", "payments", 0, SEGMENTS, high_watermark=35, indexes=True)
    tier(payments, store, layout=open_layout(name))
    assert_said(tiersnap("verify", *where), 6, "3 segments of 2 partitions", "1 range of offsets is in no segment")


def test_verify_accepts_incomplete_segments_in_the_other_layout(
    store: DirectoryStore, tmp_path: Path, name: str, other: str, uploaded: list[RemoteLogSegmentMetadata]
) -> None:
    folder = write_partition(tmp_path / "logs", "payments", 0, SEGMENTS, high_watermark=35, indexes=True)
    tier(folder, store, layout=open_layout(other))
    store.delete([open_layout(name).log_key(each) for each in uploaded])
    assert_said(tiersnap("verify", "--remote", store.root, "--layout", other), 0, "3 segments of 1 partition")


@pytest.mark.usefixtures("uploaded")
def test_verify_checks_a_partition_with_segments_in_both_layouts(
    store: DirectoryStore, source: Path, other: str
) -> None:
    tier(source / "orders-0", store, layout=open_layout(other))
    assert_said(tiersnap("verify", "--remote", store.root, "--layout", other), 0, "3 segments of 1 partition")


@pytest.mark.usefixtures("uploaded")
def test_observe_refuses_the_other_layout_beside_an_incomplete_segment(
    store: DirectoryStore, source: Path, other: str
) -> None:
    """A killed upload in the wrong layout leaves an object."""
    put_stray_log(store, other, base_offset=0)
    with pytest.raises(OtherLayoutError):
        Observe(open_location(store, other))(partition_of(source))


def test_observe_accepts_incomplete_segments_in_the_other_layout(
    store: DirectoryStore, source: Path, name: str, other: str, uploaded: list[RemoteLogSegmentMetadata]
) -> None:
    store.delete([open_layout(name).log_key(each) for each in uploaded])
    assert Observe(open_location(store, other))(partition_of(source)).copies == ()


@pytest.mark.usefixtures("uploaded")
def test_observe_accepts_a_partition_with_segments_in_both_layouts(
    store: DirectoryStore, source: Path, other: str
) -> None:
    tier(source / "orders-0", store, layout=open_layout(other), bases={0})
    found = Observe(open_location(store, other))(partition_of(source))
    assert [each.base_offset for each in found.copies] == [0]


@pytest.mark.usefixtures("uploaded")
@pytest.mark.parametrize("is_complete", [True, False])
def test_observe_accepts_the_other_layout_when_records_name_other_segments(
    store: DirectoryStore, source: Path, other: str, is_complete: bool
) -> None:
    """Brokers read no segment of the other layout."""
    named = records(new_segment_id(), is_complete=is_complete)
    Observe(open_location(store, other), records=named)(partition_of(source))


@pytest.mark.parametrize("is_complete", [True, False])
def test_observe_refuses_the_other_layout_when_records_name_its_segments(
    store: DirectoryStore, source: Path, other: str, uploaded: list[RemoteLogSegmentMetadata], is_complete: bool
) -> None:
    for ids in ((), (new_segment_id(), uploaded[1].id.segment_id)):
        with pytest.raises(OtherLayoutError):
            observe = Observe(open_location(store, other), records=records(*ids, is_complete=is_complete))
            observe(partition_of(source))


def test_a_look_makes_a_third_listing_only_when_the_partition_has_no_segment(
    store: DirectoryStore, source: Path, name: str
) -> None:
    assert lists_of(store, source, name) == 3
    tier(source / "orders-0", store, layout=open_layout(name), bases={0})
    assert lists_of(store, source, name) == 2


@dataclass(frozen=True)
class ReadStore(DirectoryStore):
    """Keeps the keys that a listing yields."""

    read: list[str] = field(default_factory=list)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        for info in super().list(prefix, after=after):
            self.read.append(info.key)
            yield info


def test_check_other_layout_reads_one_page(tmp_path: Path, name: str, other: str) -> None:
    """A page of incomplete segments hides the complete one behind it."""
    store, layout = ReadStore(tmp_path / "remote"), open_layout(name)
    location = open_location(store, other)
    for key in layout.object_keys(metadata_of(ORDERS, new_segment_id(), PAGE, PAGE + 10)):
        store.put_if_absent(key, b"x")
    with pytest.raises(OtherLayoutError):
        check_other_layout(location, ORDERS, ())
    for base in range(PAGE):
        store.put_if_absent(layout.log_key(metadata_of(ORDERS, new_segment_id(), base, base + 1)), b"x")
    store.read.clear()
    check_other_layout(location, ORDERS, ())
    assert len(store.read) == PAGE
