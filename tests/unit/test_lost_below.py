"""Offsets below the first local file that remote storage lost: every command names them, and none by mistake."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.protocol import commands
from tests.protocol.logs import PARTITION
from tests.protocol.published import published_world
from tests.protocol.world import World
from tests.reference import log_builder as lb
from tests.reference.broker_lock import broker
from tests.reference.command import Ran, tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.tiered import tier
from tests.unit.test_lost_head import lose as lose_in
from tests.unit.test_lost_head import result_of
from tests.unit.test_lost_remote_segments import lose, run
from tests.unit.test_presence import Counted
from tests.unit.test_whole_but_not_counted import ORDERS
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS, open_layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim_protocol import claimed_segments
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.lost_below import LostBelow
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.tier_host import HostPartition
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.replay.remote_listing import CopyEvent, ListedCopy, RemoteSegmentState
from tiersnap.snapshot.replay.remote_records import PartitionRecords

pytestmark = pytest.mark.unit

FINISHED, DELETING = RemoteSegmentState.COPY_SEGMENT_FINISHED, RemoteSegmentState.DELETE_SEGMENT_STARTED
LOST = [
    ([0], [(0, 10)]),
    ([10], [(10, 20)]),
    ([20], [(20, 30)]),
    ([0, 10], [(0, 20)]),
    ([0, 20], [(0, 10), (20, 30)]),
    ([0, 10, 20], [(0, 30)]),
]


def log(folder: Path, last: int = 50, epochs: tuple[tuple[int, int], ...] = ((0, 0),)) -> Path:
    """A log directory with segments of ten offsets, of which the one at `last` is active."""

    def epoch_of(offset: int) -> int:
        return max(epoch for epoch, start in epochs if start <= offset)

    segments = {
        base: [lb.data_batch(base, 10, 1, 0, base, leader_epoch=epoch_of(base))] for base in range(0, last + 1, 10)
    }
    named = {"high_watermark": last + 5, "log_start_offset": 0, "leader_epochs": list(epochs)}
    lb.write_partition(folder, "orders", 0, segments, indexes=True, **named)  # type: ignore[arg-type]
    return folder


def retain_locally(source: Path, first: int) -> None:
    """Delete the files of the segments below an offset, as local retention does."""
    for path in (source / "orders-0").glob("0*.*"):
        if int(path.stem) < first:
            path.unlink()


def start_at(source: Path, offset: int) -> None:
    (source / "log-start-offset-checkpoint").write_text(lb.offsets_text({("orders", 0): offset}))


def partition_of(source: Path) -> Partition:
    return open_log_dir(str(source)).partition("orders-0")


def lost_in(store: object, source: Path, name: str = "aiven", **options: object) -> list[tuple[int, int]]:
    location = RemoteLocation(store, open_layout(name))  # type: ignore[arg-type]
    return [tuple(each) for each in Observe(location, **options)(partition_of(source)).lost]  # type: ignore[arg-type,misc]


def finished(done: HostPartition) -> list[CopyEvent]:
    return [each for each in done.events if each.is_finished]


def records(*segments: ListedCopy, is_complete: bool = True) -> dict[tuple[str, int], PartitionRecords]:
    return {("orders", 0): PartitionRecords(ORDERS.topic_id or "", segments, is_complete)}


@pytest.fixture(params=sorted(LAYOUTS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return log(tmp_path / "logs")


@pytest.fixture
def uploaded(store: DirectoryStore, source: Path, name: str) -> list[ListedCopy]:
    """The segments, all of them uploaded; local retention has deleted the files of the first three."""
    events = finished(run(store, source, "run-1", open_layout(name)))
    retain_locally(source, 30)
    return [
        ListedCopy(each.segment_id or "", each.base_offset, each.next_base_offset, FINISHED, leader_epochs=((0, 0),))  # type: ignore[arg-type]
        for each in events
    ]


def words(store: DirectoryStore, name: str) -> tuple[object, ...]:
    return "--remote", store.root, "--layout", name, "--now", "2026-11-21T13:00:00Z"


@pytest.mark.usefixtures("uploaded")
@pytest.mark.parametrize(("bases", "ranges"), LOST)
def test_every_command_names_lost_offsets(
    store: DirectoryStore, source: Path, name: str, bases: list[int], ranges: list[tuple[int, int]]
) -> None:
    lose(store, *bases) if len(bases) == 1 else [lose(store, base) for base in bases]
    said = ", ".join(f"{start} to {end - 1}" for start, end in ranges)
    for command in (("tier",), ("tier", "--apply"), ("scan",), ("doctor",)):
        ran = tiersnap(command[0], source, *words(store, name), *command[1:])  # type: ignore[arg-type]
        found = [each["message"] for each in json.loads(ran.out)["errors"]]
        assert f"orders-0: no complete remote segment of this log has the offsets {said}" in found, (command, ran.err)
        assert ran.exit_code == 5, command
    ran = tiersnap("verify", source, *words(store, name), "--depth", "metadata")  # type: ignore[arg-type]
    rows = [(row["base_offset"], row["next_base_offset"]) for row in ran.rows if row["verdict"] == "MISSING"]
    assert (ran.exit_code, rows) == (5, [pair for pair in ranges if pair[0]] + [pair for pair in ranges if not pair[0]])


@pytest.mark.usefixtures("uploaded")
def test_next_command_of_lost_offsets_verifies_them(store: DirectoryStore, source: Path, name: str) -> None:
    lose(store, 10)
    plan = tiersnap("tier", source, *words(store, name))  # type: ignore[arg-type]
    (error,) = json.loads(plan.out)["errors"]
    program, *line = shlex.split(error["hint"])
    assert (program, tiersnap(*line).exit_code) == ("tiersnap", 5)
    assert "next: tiersnap tier" not in plan.err, "--apply would write nothing"


@pytest.mark.usefixtures("uploaded")
def test_tier_uploads_segments_above_lost_offsets(store: DirectoryStore, source: Path, name: str) -> None:
    lose(store, 10)
    log(source, last=60)
    retain_locally(source, 30)
    done = run(store, source, "run-2", open_layout(name))
    assert [each.base_offset for each in finished(done)] == [50]
    assert [each.exit_code for each in done.errors] == [ExitCode.DATA_CORRUPT]


@pytest.mark.usefixtures("uploaded")
def test_run_lists_lost_offsets(store: DirectoryStore, source: Path, name: str, tmp_path: Path) -> None:
    lose(store, 10)
    ran = Runner(tmp_path, source, str(store.root), open_layout(name))()
    assert [row["lost"] for row in ran.listed] == [[{"start_offset": 10, "end_offset": 20}]]


# The log start.


@pytest.mark.usefixtures("uploaded")
def test_nothing_is_lost_that_retention_deleted(store: DirectoryStore, source: Path, name: str) -> None:
    lose(store, 0)
    lose(store, 10)
    start_at(source, 20)
    assert lost_in(store, source, name) == []
    start_at(source, 15)
    assert lost_in(store, source, name) == [(15, 20)], "the log starts inside of the second segment"
    (source / "log-start-offset-checkpoint").unlink()
    assert lost_in(store, source, name) == [], "the log start is unknown"


@pytest.mark.usefixtures("uploaded")
@pytest.mark.parametrize("ask", [None, 0, 10, 20])
def test_checkpoint_of_a_running_broker_proves_no_lost_head(
    store: DirectoryStore, source: Path, name: str, ask: int | None
) -> None:
    """Retention may have passed it within the last minute; the cluster tells the log start of now."""
    lose(store, 0)
    lose(store, 10)
    (source / ".lock").touch()
    told = {} if ask is None else {"ask_log_start": lambda _: ask}
    with broker(source):
        assert lost_in(store, source, name, **told) == {0: [(0, 20)], 10: [(10, 20)]}.get(
            -1 if ask is None else ask, []
        )
        lose(store, 20)
        assert lost_in(store, source, name) == []


@pytest.mark.usefixtures("uploaded")
def test_checkpoint_of_a_copied_log_directory_proves_no_lost_head(
    store: DirectoryStore, source: Path, name: str
) -> None:
    lose(store, 0)
    elsewhere = replace(partition_of(source), is_of_this_host=False)
    look = Observe(RemoteLocation(store, open_layout(name)))
    assert look(elsewhere).lost == ()
    lose(store, 20)
    assert look(elsewhere).lost == ((20, 30),)


@pytest.mark.usefixtures("uploaded")
def test_checkpoint_that_was_collected_proves_no_lost_head(
    store: DirectoryStore, source: Path, name: str, tmp_path: Path
) -> None:
    assert tiersnap("collect", source, "--to", tmp_path / "sent", "--apply").exit_code == 0

    def lost(folder: Path) -> list[dict[str, int]]:
        (row,) = Runner(tmp_path, folder, str(store.root), open_layout(name))(apply=False).listed
        return row["lost"]

    lose(store, 0)
    (sent,) = (path.parent for path in (tmp_path / "sent").rglob("collected.json"))
    assert (lost(sent), lost(source)) == ([], [{"start_offset": 0, "end_offset": 10}])
    lose(store, 20)
    assert lost(sent) == [{"start_offset": 20, "end_offset": 30}]


@pytest.mark.usefixtures("uploaded")
def test_lost_middle_is_named_beside_a_running_broker(store: DirectoryStore, source: Path, name: str) -> None:
    lose(store, 10)
    (source / ".lock").touch()
    with broker(source):
        assert lost_in(store, source, name) == [(10, 20)]


# Was it uploaded?


def test_records_name_lost_segments_without_a_claim(
    store: DirectoryStore, source: Path, name: str, uploaded: list[ListedCopy]
) -> None:
    lose(store, 10)
    store.delete([info.key for info in list(store.list(keys.partition_claims(ORDERS)))])
    assert lost_in(store, source, name) == []
    assert lost_in(store, source, name, records=records(*uploaded)) == [(10, 20)]
    assert lost_in(store, source, name, records=records(*uploaded, is_complete=False)) == []


def test_segments_that_brokers_delete_are_not_lost(
    store: DirectoryStore, source: Path, name: str, uploaded: list[ListedCopy]
) -> None:
    lose(store, 0)
    first, *others = uploaded
    for is_complete in (True, False):
        told = records(replace(first, state=DELETING), *others, is_complete=is_complete)
        assert lost_in(store, source, name, records=told) == []
    assert lost_in(store, source, name, records=records(*others)) == [(0, 10)], "it was never published"


@pytest.mark.usefixtures("uploaded")
@pytest.mark.parametrize("base", [0, 10])
def test_damaged_claim_proves_an_upload(store: DirectoryStore, source: Path, name: str, base: int) -> None:
    lose(store, base)
    (key,) = (info.key for info in store.list(keys.partition_claims(ORDERS)) if f"{base:020d}" in info.key)
    store.replace(key, store.get(key)[:20])
    assert lost_in(store, source, name) == [(base, base + 10)]
    for command in (("tier",), ("scan",), ("doctor",), ("verify", "--depth", "metadata")):
        assert tiersnap(command[0], source, *words(store, name), *command[1:]).exit_code == 5, command  # type: ignore[arg-type]


@pytest.mark.usefixtures("uploaded")
def test_claims_that_were_never_finished_prove_no_upload(store: DirectoryStore, source: Path, name: str) -> None:
    lose(store, 10)
    (key,) = (info.key for info in store.list(keys.partition_claims(ORDERS)) if f"{10:020d}" in info.key)
    claim = json.loads(store.get(key))
    store.replace(key, json.dumps({**claim, "finished": None, "snapshot": None}).encode())
    assert lost_in(store, source, name) == []
    store.replace(key, json.dumps({**claim, "finished": None, "snapshot": None, "kept": [claim["finished"]]}).encode())
    assert lost_in(store, source, name) == [(10, 20)]


@pytest.mark.usefixtures("uploaded")
def test_segments_that_are_complete_in_the_other_layout_are_not_lost(
    store: DirectoryStore, source: Path, name: str
) -> None:
    """The next segment is in both layouts, so commands accept both."""
    (other,) = LAYOUTS.keys() - {name}
    tier(source / "orders-0", store, layout=open_layout(other), bases={30})
    assert lost_in(store, source, other) == []
    lose(store, 10)
    assert lost_in(store, source, other) == [(10, 20)]


def test_lost_segments_of_another_lineage_are_not_those_of_the_log(store: DirectoryStore, tmp_path: Path) -> None:
    """Two leaders wrote on from offset 10; each uploaded its segments."""
    own = log(tmp_path / "own", epochs=((0, 0), (2, 10)))
    diverged = log(tmp_path / "diverged", epochs=((0, 0), (1, 10)))
    mine, theirs = (finished(run(store, each, each.name, open_layout("aiven"))) for each in (own, diverged))
    retain_locally(own, 30)
    assert ([each.base_offset for each in theirs], lost_in(store, own)) == ([10, 20, 30, 40], [])
    ids = {
        (number, each.base_offset): each.segment_id or ""
        for number, found in enumerate((mine, theirs))
        for each in found
    }

    def lose_id(segment_id: str) -> None:
        store.delete([info.key for info in list(store.list()) if segment_id in info.key])

    lose_id(ids[1, 20])
    assert lost_in(store, own) == []
    lose_id(ids[0, 10])
    assert lost_in(store, own) == [(10, 20)]


# Requests.


@pytest.mark.usefixtures("uploaded")
def test_search_makes_no_request_when_nothing_is_missing(store: DirectoryStore, source: Path, name: str) -> None:
    counted = Counted(store)
    location = RemoteLocation(counted, open_layout(name))  # type: ignore[arg-type]
    found, known = list_remote_partition(location, ORDERS, local_start=30), KnownManifests(counted, ORDERS)  # type: ignore[arg-type]
    counted.calls.clear()
    assert LostBelow(location, partition_of(source), found, known).find() == ()
    start_at(source, 25)
    lose(store, 0)
    assert LostBelow(location, partition_of(source), found, known).find() == ()
    assert counted.calls == []


def test_search_reads_few_objects_of_a_long_log(store: DirectoryStore, source: Path) -> None:
    log(source, last=1000)
    run(store, source, "run-1", open_layout("aiven"))
    retain_locally(source, 990)
    (store.root / keys.manifests(ORDERS)).unlink()
    lose(store, 50)
    counted = Counted(store)
    assert lost_in(counted, source) == [(50, 60)]
    assert len([key for key in counted.named("get") if key.endswith(".rsm-manifest")]) <= 40
    assert len(counted.named("list")) <= 4
    claims = [call for call in counted.calls if call[1].startswith("claims/") and f"/{50:020d}" in call[1]]
    assert len(claims) == 2, "one for each listing"


@pytest.mark.usefixtures("uploaded")
def test_segment_that_another_host_finishes_meanwhile_is_not_lost(
    store: DirectoryStore, source: Path, name: str
) -> None:
    class Late(Counted):
        """A store that shows the segment at 10 from its second listing on."""

        def list(self, prefix: str = "", *words: object, **options: object) -> Iterator[object]:
            self.calls.append(("list", prefix))
            is_late = self.named("list").count(prefix) == 1
            return (
                each for each in self._store.list(prefix, *words, **options) if not (is_late and _is_at_10(each.key))
            )

    assert lost_in(Late(store), source, name) == []
    lose(store, 10)
    assert lost_in(Late(store), source, name) == [(10, 20)]


def _is_at_10(key: str) -> bool:
    return f"{10:020d}-" in key and not key.startswith("claims/")


# Beside a cluster.


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """All closed segments are published, and local retention has deleted the files of the first two."""
    with published_world("lost below", tmp_path) as made:
        disk = Path(made.disks["a"])
        retain_locally(disk, 10)
        start_at(disk, 0)
        (disk / ".lock").touch()
        yield made


@pytest.mark.parametrize("command", ["doctor", "scan", "tier"])
def test_commands_ask_the_cluster_whether_a_head_is_lost(world: World, command: str) -> None:
    def said() -> bool:
        ran: Ran = result_of(world, world.disks["a"], *commands.CLUSTER, command=command)
        return "no complete remote segment of this log has the offsets 0 to 4" in ran.out

    lose_in(world, 0)
    with broker(Path(world.disks["a"])):
        assert said()
        world.cluster.there[PARTITION.topic].offsets[0] = 5, 20
        assert not said(), "retention deleted this part"
    assert len(claimed_segments(world.store, PARTITION)) == 3
