"""`tiersnap tier`: one host's way into remote storage, with nothing but remote storage for a memory."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.protocol.installed import Inline
from tests.reference import tiered
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.killable_store import Clock, KillableStore, KilledError
from tests.reference.log_builder import data_batch, marker, write_partition
from tests.reference.lying_store import LyingStore
from tests.reference.no_finish import NoFinish
from tests.reference.recovered import DATA
from tests.reference.retention_meanwhile import delete_when_read
from tests.reference.tiered import aiven
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import STALE_AFTER_MS
from tiersnap.remote_storage.locks.process import this_process
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, new_segment_id
from tiersnap.remote_storage.remote_log.finished import finished_of, finished_segments
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.snapshot.errors import RemoteStorageError, TiersnapError, TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected_of
from tiersnap.snapshot.replay.expiry import ReplayOptions

pytestmark = pytest.mark.unit

LOGS = DATA / "kafka-3.9.1/logs"
NOW = 1_795_266_000_000  # 2026-11-21T13:00:00Z
GONE = structs.replace(this_process(), process_start=this_process().process_start + "0")
ORDERS = TopicIdPartition("orders", "lZ6vvmajTWKDBUTV6SQAtQ", 0)
SEGMENTS = {
    0: [data_batch(0, 10, 1, 0, 0)],
    10: [data_batch(10, 9, 2, 0, 0, transactional=True), marker(19, 2, 0, 0, commit=True)],
    20: [data_batch(20, 10, 1, 0, 10)],
    30: [data_batch(30, 5, 3, 0, 0)],
}


def tier(source: Path, remote: Path, *words: str | Path) -> Ran:
    return tiersnap("tier", source, "--remote", remote, "--now", "2026-11-21T13:00:00Z", *words)


def files(remote: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and modification time of every object."""
    found = [path for path in remote.rglob("*") if path.is_file() and path.parent.name != ".tiersnap-unfinished"]
    return {str(path.relative_to(remote)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def copies(remote: Path) -> Counter[tuple[str, int]]:
    """How many manifests there are of each segment."""
    parsed = [keys.recognise(key) for key in files(remote)]
    return Counter((str(key.partition), key.offset) for key in parsed if key and key.kind is KeyKind.RSM_MANIFEST)


def closed_segments(logs: Path) -> set[tuple[str, int]]:
    """(topic-partition, base offset) of all but the active segments."""
    found: set[tuple[str, int]] = set()
    for folder in logs.glob("*-[0-9]*"):
        bases = sorted(int(path.stem) for path in folder.glob("*.log"))
        found |= {(folder.name, base) for base in bases[:-1]}
    return found


def names(counts: Counter[tuple[str, int]]) -> set[tuple[str, int]]:
    return {(re.sub(r".*?([a-z0-9_]+-\d+)$", r"\1", name), offset) for name, offset in counts}


def verdicts(ran: Ran) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in ran.rows:
        found.update(row["verdicts"])
    return found


def test_a_plan_says_what_is_ready_and_writes_nothing(tmp_path: Path) -> None:
    ran = tier(LOGS, tmp_path / "remote")
    assert ran.exit_code == 0, ran.err
    assert verdicts(ran)["READY"] > 10
    assert "nothing was written" in ran.err
    assert not (tmp_path / "remote").exists()


def test_what_was_ready_is_tiered_once_and_the_second_run_writes_nothing(tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    planned = verdicts(tier(LOGS, remote))
    ran = tier(LOGS, remote, "--apply", "--report", tmp_path / "report")
    assert ran.exit_code == 0, ran.err
    assert verdicts(ran)["UPLOADED"] == planned["READY"] == copies(remote).total()
    assert set(copies(remote).values()) == {1}
    assert names(copies(remote)) <= closed_segments(LOGS)
    page = (tmp_path / "report" / "index.html").read_text()
    assert "UPLOADED" in page
    before = files(remote)
    again = tier(LOGS, remote, "--apply")
    assert (again.exit_code, files(remote)) == (0, before)
    assert verdicts(again) == verdicts(ran)
    assert "no object was written" in again.err


@pytest.mark.parametrize("layout", ["aiven", "local-tiered-storage"])
def test_two_hosts_with_a_replica_each_leave_one_copy_of_each_segment(tmp_path: Path, layout: str) -> None:
    remote = tmp_path / "remote"
    for host in ("a", "b"):
        logs = shutil.copytree(LOGS, tmp_path / host)
        assert tier(logs, remote, "--apply", "--layout", layout).exit_code == 0
        if host == "a":
            before = files(remote)
    assert files(remote) == before


@pytest.mark.parametrize("right", ["aiven", "local-tiered-storage"])
def test_what_is_tiered_in_one_layout_is_refused_in_the_other_and_stays_as_it_is(tmp_path: Path, right: str) -> None:
    remote = tmp_path / "remote"
    wrong = "local-tiered-storage" if right == "aiven" else "aiven"
    words = (LOGS, remote, "--topic", "orders", "--apply", "--layout")
    assert tier(*words, right).exit_code == 0
    before = {key: each for key, each in files(remote).items() if "/snapshots/" not in f"/{key}"}

    assert_said(tier(*words, wrong), 4, f"in the layout {right}", f"--layout {right}")

    assert {key: each for key, each in files(remote).items() if "/snapshots/" not in f"/{key}"} == before
    store = DirectoryStore(remote)
    told = finished_segments(RemoteLocation(store, open_layout(right)), lambda _: True)
    manifests = len([key for key in before if key.startswith("claims/")])
    assert len(told) == manifests > 0
    assert tier(*words, right).exit_code == 0


def test_copies_of_a_broker_which_claims_nothing_are_not_made_again(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "remote")
    made = tiered.tier(LOGS / "orders-0", store)
    assert made
    before = files(tmp_path / "remote")
    ran = tier(LOGS, tmp_path / "remote", "--topic", "orders", "--apply")
    assert ran.exit_code == 0, ran.err
    assert ran.row(partition="orders-0")["uploaded"] == 0
    assert ran.row(partition="orders-0")["verdicts"]["IN_REMOTE"] == len(made)
    after = files(tmp_path / "remote")
    assert {key: after[key] for key in before} == before
    assert set(copies(tmp_path / "remote").values()) == {1}


def test_beside_a_broker_that_copies_nothing_of_the_partition_is_tiered(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "remote")
    tiered.tier(LOGS / "orders-0", store)
    newest = max(key for key in files(tmp_path / "remote") if key.endswith(".rsm-manifest"))
    store.delete([newest])
    before = files(tmp_path / "remote")
    ran = tier(LOGS, tmp_path / "remote", "--topic", "orders", "--apply")
    assert ran.row(partition="orders-0")["verdicts"]["COPY_IN_FLIGHT"] == 1
    assert ran.row(partition="orders-0")["uploaded"] == 0
    after = files(tmp_path / "remote")
    # Whose cluster the objects are is said beside the snapshots.
    assert {key: each for key, each in after.items() if "/0/" in key and not key.endswith("cluster.json")} == before


def test_every_snapshot_that_goes_up_is_what_kafkas_own_classes_fold(tmp_path: Path) -> None:
    """Of logs that lack most of them."""
    logs = DATA / "ledger-2.7.2"
    (tmp_path / "ids").write_text("ledger 5GXaOJXiRzOuReKRIUWzvw\n")
    words = ("--topic-ids", tmp_path / "ids", "--expiration", "none", "--apply")
    assert tier(logs / "logs", tmp_path / "remote", *words).exit_code == 0
    written = sorted((tmp_path / "remote").rglob("*.snapshot"))
    assert len(written) == 8
    for path in written:
        expected = logs / "expected" / f"ledger-{path.parent.name}" / path.name
        assert snapshot_file.decode(path.read_bytes()).tolist() == snapshot_file.decode(expected.read_bytes()).tolist()
    assert copies(tmp_path / "remote").total() == 12
    before = files(tmp_path / "remote")
    again = tier(logs / "logs", tmp_path / "remote", *words)
    assert "no object was written" in again.err
    assert files(tmp_path / "remote") == before


def test_damage_of_the_directory_itself_is_said(tmp_path: Path) -> None:
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    (logs / "replication-offset-checkpoint").write_text("0\n7\n")
    assert "CORRUPT_CHECKPOINT" in tier(logs, tmp_path / "remote", "--topic", "orders").err


def test_a_segment_that_retention_deletes_meanwhile_is_no_damage_and_the_next_run_tiers_the_rest(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        delete_when_read(patch, 0)
        ran = tier(source, tmp_path / "remote", "--apply")
    assert_said(ran, 3, "deleted since it was listed", "run the same command again")
    assert_said(tier(source, tmp_path / "remote", "--apply"), 0)
    assert {base for _, base in copies(tmp_path / "remote")} == {10, 20}


def host(store: ObjectStore, run_id: str, **more: object) -> HostTier:
    tierer = Tierer(run_id, NOW, wait=0, pause=lambda _: None)
    return HostTier(aiven(store), ReplayOptions(), replace(tierer, **more), apply=True)


def run(tiers: HostTier, source: Path) -> list[HostPartition]:
    return list(tiers.partitions(selected_of(open_log_dirs([str(source)]), Selection())))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_partition(tmp_path / "logs", "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    return tmp_path / "logs"


def kept(remote: Path) -> dict[str, int]:
    """Objects by their kind and offset; ids of attempts differ from run to run."""
    parsed = [keys.recognise(key) for key in files(remote)]
    return Counter(f"{key.kind} {key.offset}" for key in parsed if key is not None)


def publishable(store: ObjectStore) -> list[int]:
    """Base offsets of what `publish` would tell the brokers of."""
    return [each.start_offset for each in finished_segments(aiven(store), lambda _: True)]


def test_killed_at_any_write_and_run_again_it_ends_as_a_fresh_run(source: Path, tmp_path: Path) -> None:
    clock = Clock()
    run(host(KillableStore(DirectoryStore(tmp_path / "fresh"), clock), "run-1"), source)
    assert copies(tmp_path / "fresh").total() == 3
    for step in range(clock.steps):
        remote = tmp_path / f"killed-{step}"
        store = DirectoryStore(remote)
        with pytest.raises(KilledError):
            run(host(KillableStore(store, Clock(step)), "run-1", process=GONE), source)
        (done,) = run(host(store, "run-2"), source)
        assert done.errors == [], step
        assert [each.verdict for each in done.readiness] == ["UPLOADED"] * 3 + ["ACTIVE_SEGMENT"], step
        observed, expected = kept(remote), kept(tmp_path / "fresh")
        # Each run says in a manifest of its own which snapshots it wrote.
        manifests = f"{KeyKind.SNAPSHOT_MANIFEST} None"
        assert observed | {manifests: 0} == expected | {manifests: 0}, step
        assert 1 <= observed[manifests] <= 2
        assert publishable(store) == [0, 10, 20], step
        before = files(remote)
        (again,) = run(host(store, "run-3"), source)
        assert (again.events, again.snapshots_written, files(remote)) == ([], 0, before), step


def test_a_copy_whose_claim_could_not_be_finished_is_finished_by_the_next_run_and_not_copied_again(
    source: Path, tmp_path: Path
) -> None:
    store = DirectoryStore(tmp_path / "remote")
    (failed,) = run(host(NoFinish(store, 1), "run-1", process=GONE), source)  # type: ignore[arg-type]
    assert [type(error) for error in failed.errors] == [TransientError]
    assert (publishable(store), copies(tmp_path / "remote").total()) == ([], 1)
    logs = {key: each for key, each in files(tmp_path / "remote").items() if key.endswith(".log")}

    (done,) = run(host(store, "run-2"), source)

    assert (done.errors, publishable(store)) == ([], [0, 10, 20])
    assert logs.items() <= files(tmp_path / "remote").items()


def test_a_copy_of_an_attempt_that_may_be_at_work_is_waited_for_and_finished_once_its_claim_is_stale(
    source: Path, tmp_path: Path
) -> None:
    """As a host that was rebooted left it: nobody can tell whether its process is gone."""
    store = DirectoryStore(tmp_path / "remote")
    elsewhere = structs.replace(this_process(), host="elsewhere")
    run(host(NoFinish(store, 1), "run-1", process=elsewhere), source)  # type: ignore[arg-type]
    before = copies(tmp_path / "remote")

    (waits,) = run(host(store, "run-2"), source)
    assert [error.message.partition(": since")[1] for error in waits.errors] == [": since"]
    assert isinstance(waits.errors[0], TransientError)
    assert (publishable(store), copies(tmp_path / "remote")) == ([], before)

    (done,) = run(host(NoFinish(store, older=STALE_AFTER_MS + 1), "run-3"), source)  # type: ignore[arg-type]
    assert (done.errors, publishable(store)) == ([], [0, 10, 20])


def test_a_copy_that_nobody_finished_is_made_again_where_its_snapshot_is_not_the_right_one(
    source: Path, tmp_path: Path
) -> None:
    remote, store = tmp_path / "remote", DirectoryStore(tmp_path / "remote")
    run(host(NoFinish(store, 1), "run-1", process=GONE), source)  # type: ignore[arg-type]
    (indexes,) = remote.rglob("*.indexes")
    indexes.write_bytes(bytes(byte ^ 1 for byte in indexes.read_bytes()))

    (done,) = run(host(store, "run-2"), source)

    assert (done.errors, publishable(store)) == ([], [0, 10, 20])
    assert not indexes.exists()
    assert set(copies(remote).values()) == {1}


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_copy_whose_claim_another_attempt_took_that_has_no_objects_is_made_again(
    source: Path, tmp_path: Path, is_finished: bool
) -> None:
    store = DirectoryStore(tmp_path / "remote")
    run(host(NoFinish(store, 1), "run-1", process=GONE), source)  # type: ignore[arg-type]
    other = Attempt.of(new_segment_id(), "run-2", process=GONE)
    taken = claim_protocol.claim(store, ClaimedSegment(ORDERS, 0, 0), other)
    if is_finished:
        claim_protocol.finish(store, taken)

    (done,) = run(host(store, "run-3"), source)

    assert (done.errors, publishable(store)) == ([], [0, 10, 20])
    assert set(copies(tmp_path / "remote").values()) == {1}


def test_the_claims_of_what_is_tiered_are_not_read_one_by_one(source: Path, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "remote")
    run(host(store, "run-1"), source)
    counted = NoFinish(store)
    list_remote_partition(aiven(counted), ORDERS)  # type: ignore[arg-type]
    assert counted.claims_read == 1


def test_two_hosts_at_the_same_time_leave_one_copy_of_each_segment(source: Path, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "remote")
    start = threading.Barrier(2)
    done: dict[str, list[HostPartition]] = {}

    def work(run_id: str) -> None:
        start.wait()
        patient = {"wait": 1000.0, "pause": lambda _: time.sleep(0.01)}
        done[run_id] = run(host(store, run_id, **patient), source)

    threads = [threading.Thread(target=work, args=(run_id,)) for run_id in ("run-1", "run-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [each.errors for partitions in done.values() for each in partitions] == [[], []]
    run(host(store, "run-3"), source)
    assert names(copies(tmp_path / "remote")) == {("orders-0", base) for base in (0, 10, 20)}
    assert set(copies(tmp_path / "remote").values()) == {1}


class BeginsMeanwhile:
    """A store in which another host begins an upload right after the claims of a partition were listed."""

    def __init__(self, store: ObjectStore, begin: Callable[[], object], listing: int) -> None:
        self._store, self._begin, self._left = store, begin, listing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, prefix: str = "", **more: Any) -> Iterator[ObjectInfo]:
        found = list(self._store.list(prefix, **more))
        if prefix.startswith("claims/"):
            self._left -= 1
            if not self._left:
                self._begin()
        yield from found


def killed_meanwhile(source: Path, tmp_path: Path, listing: int = 1) -> Iterator[tuple[ObjectStore, Any]]:
    """A store for each step of an upload, and the same one in which that upload begins and is killed at the step.

    It begins after the claims were listed for the n-th time, `listing`; what the caller wrote before, it need not.
    """
    clock = Clock()
    run(host(KillableStore(DirectoryStore(tmp_path / "fresh"), clock), "run-1"), source)
    for step in range(1, clock.steps + 1):
        store = DirectoryStore(tmp_path / f"killed-{step}")
        began = []

        def begin(store: ObjectStore = store, step: int = step, began: list[int] = began) -> None:
            began.append(step)
            with suppress(KilledError):
                run(host(KillableStore(store, Clock(step)), "run-1", process=GONE), source)

        yield store, BeginsMeanwhile(store, begin, listing)
        assert began == [step]


@pytest.mark.parametrize("listing", [1, 2])
def test_an_upload_that_begins_after_the_claims_were_listed_is_not_taken_for_a_brokers(
    source: Path, tmp_path: Path, listing: int
) -> None:
    for store, meanwhile in killed_meanwhile(source, tmp_path, listing):
        (done,) = run(host(meanwhile, "run-2"), source)
        assert done.errors == [], store.uri
        assert "COPY_IN_FLIGHT" not in [each.verdict for each in done.readiness], store.uri
        run(host(store, "run-3"), source)
        assert publishable(store) == [0, 10, 20], store.uri
        assert set(copies(Path(store.uri.removeprefix("file://"))).values()) == {1}, store.uri


def test_what_is_published_has_a_finished_claim_even_if_it_was_claimed_after_the_claims_were_listed(
    source: Path, tmp_path: Path
) -> None:
    seen = set()
    for store, meanwhile in killed_meanwhile(source, tmp_path):
        offsets = [each.start_offset for each in finished_of(aiven(meanwhile), ORDERS)]
        assert offsets == publishable(store), store.uri
        seen.add(len(offsets))
    assert seen == {0, 1, 2, 3}


class GoneStore:
    """A server that does not answer any more when something is put."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self.asked = store, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, *args: object, **kwargs: object) -> object:
        self.asked += 1
        raise TransientError(f"{key}: time-out")


def test_a_server_that_went_away_is_not_asked_for_every_boundary_of_every_partition(
    source: Path, tmp_path: Path
) -> None:
    write_partition(source, "payments", 0, SEGMENTS, topic_id="5GXaOJXiRzOuReKRIUWzvw", high_watermark=35, indexes=True)
    store = GoneStore(DirectoryStore(tmp_path / "remote"))
    done = run(host(store, "run-1"), source)  # type: ignore[arg-type]
    assert store.asked == 1
    assert [len(each.errors) for each in done] == [1, 1]
    assert all(isinstance(error, TransientError) for each in done for error in each.errors)


class SilentStore(GoneStore):
    """A server that does not even answer what is there."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self.asked += 1
        raise TransientError(f"{prefix}: time-out")


def test_a_server_that_does_not_say_what_is_there_is_asked_of_one_partition_alone(source: Path, tmp_path: Path) -> None:
    write_partition(source, "payments", 0, SEGMENTS, topic_id="5GXaOJXiRzOuReKRIUWzvw", high_watermark=35, indexes=True)
    store = SilentStore(DirectoryStore(tmp_path / "remote"))
    done = run(host(store, "run-1"), source)  # type: ignore[arg-type]
    assert store.asked == 1
    assert [[type(error) for error in each.errors] for each in done] == [[TransientError]] * 2


class MuteStore(GoneStore):
    """A server that says what is there, and gives no claim."""

    def __init__(self, store: ObjectStore, error: TiersnapError) -> None:
        super().__init__(store)
        self._error = error

    def read(self, key: str, *args: object, **kwargs: object) -> object:
        if key.startswith("claims/"):
            self.asked += 1
            raise self._error
        return self._store.read(key, *args, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "asked", "is_transient"),
    [(TransientError("time-out"), 1, True), (RemoteStorageError("the server denied"), 2, False)],
)
def test_claims_that_cannot_be_read_are_asked_again_only_where_that_helps(
    source: Path, tmp_path: Path, error: TiersnapError, asked: int, is_transient: bool
) -> None:
    write_partition(source, "payments", 0, SEGMENTS, topic_id="5GXaOJXiRzOuReKRIUWzvw", high_watermark=35, indexes=True)
    run(host(DirectoryStore(tmp_path / "remote"), "run-1"), source)
    store = MuteStore(DirectoryStore(tmp_path / "remote"), error)
    done = run(host(store, "run-2"), source)  # type: ignore[arg-type]
    assert store.asked == asked
    assert [[isinstance(error, TransientError) for error in each.errors] for each in done] == [[is_transient]] * 2


def test_a_damaged_cluster_record_holds_up_its_partition_alone(source: Path, tmp_path: Path) -> None:
    topic_id = "5GXaOJXiRzOuReKRIUWzvw"
    write_partition(source, "payments", 0, SEGMENTS, topic_id=topic_id, high_watermark=35, indexes=True)
    (source / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=EArE95XTQEqfBLWnpGnLIQ\n")
    DirectoryStore(tmp_path / "remote").put_if_absent(keys.cluster(TopicIdPartition("payments", topic_id, 0)), b"{")
    ran = tier(source, tmp_path / "remote", "--apply")
    assert_said(ran, 5, "not the name of a cluster", "move the object away")
    assert {name for name, _ in names(copies(tmp_path / "remote"))} == {"orders-0"}


def test_what_is_tiered_is_not_read_again_and_the_state_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    whole, remote, alone = tmp_path / "logs", tmp_path / "remote", tmp_path / "alone"
    first = {base: SEGMENTS[base] for base in (0, 10, 20)}
    folder = write_partition(whole, "orders", 0, first, high_watermark=30, indexes=True)
    assert tier(whole, remote, "--apply").exit_code == 0
    assert copies(remote).total() == 2
    write_partition(whole, "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    assert tier(whole, alone, "--apply", "--all").exit_code == 0
    for base in (0, 10):
        path = folder / f"{base:020d}.log"
        path.write_bytes(bytes(path.stat().st_size))

    done = tier(whole, remote, "--apply", "--all")

    assert (done.exit_code, verdicts(done)) == (0, Counter(UPLOADED=3, ACTIVE_SEGMENT=1))
    mine = {key: data for key, (data, _) in files(remote).items() if key.endswith("30.snapshot")}
    assert mine == {key: data for key, (data, _) in files(alone).items() if key.endswith("30.snapshot")}
    assert len(mine) == 1


def test_a_copy_whose_snapshot_is_not_the_claimed_one_stops_its_partition(tmp_path: Path) -> None:
    whole, remote = tmp_path / "logs", tmp_path / "remote"
    first = {base: SEGMENTS[base] for base in (0, 10, 20)}
    write_partition(whole, "orders", 0, first, high_watermark=30, indexes=True)
    assert tier(whole, remote, "--apply").exit_code == 0
    write_partition(whole, "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    (indexes,) = [remote / key for key in files(remote) if key.endswith(".indexes") and "00000000000000000010-" in key]
    data = indexes.read_bytes()
    indexes.write_bytes(bytes(byte ^ 1 for byte in data))

    done = tier(whole, remote, "--apply")

    assert done.exit_code == 5
    assert "the claim of its segment says" in done.err and f"tiersnap verify --remote file://{remote}" in done.err
    assert copies(remote).total() == 2


def test_tier_computes_a_rotten_snapshot_object_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum is that of the bytes that were written once, as S3 keeps it."""
    monkeypatch.setattr("tiersnap.remote_storage.upload.segments_in_flight.ContextPool", Inline)
    store = LyingStore(DirectoryStore(tmp_path / "remote"), loses={".log"})
    (stopped,) = run(host(store, "run-1"), source)  # type: ignore[arg-type]
    assert [type(error) for error in stopped.errors] == [TransientError]
    key = keys.snapshot(ORDERS, 10)
    right, store.flips[key] = store.get(key), 1_000
    (done,) = run(host(store, "run-2"), source)  # type: ignore[arg-type]
    assert (done.errors, done.snapshots_mended) == ([], 1)
    assert {each.verdict for each in done.readiness} == {"UPLOADED", "ACTIVE_SEGMENT"}
    assert store.get(key) == right
    (again,) = run(host(store, "run-3"), source)  # type: ignore[arg-type]
    assert (again.snapshots_mended, again.events) == (0, [])


def test_tier_says_how_many_damaged_snapshot_objects_it_mended(source: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    assert tier(source, remote, "--apply").exit_code == 0
    for path in remote.iterdir():
        if path.name != "snapshots":
            shutil.rmtree(path)
    path = remote / keys.snapshot(ORDERS, 10)
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    ran = tier(source, remote, "--apply")
    assert_said(ran, 0, "replaced 1 damaged snapshot object by snapshots computed from the log")
    assert (json.loads(ran.out)["result"]["snapshots_mended"], path.read_bytes()) == (1, right)


def test_a_file_that_may_be_uploaded_and_differs_from_the_log_starts_no_replay(tmp_path: Path) -> None:
    whole, remote, day = tmp_path / "logs", tmp_path / "remote", 86_400_000
    segments = {
        0: [data_batch(0, 10, 1, 0, 0, timestamp=NOW - 3 * day)],
        10: [data_batch(10, 10, 2, 0, 0, timestamp=NOW - 2 * day)],
    }
    empty = snapshot_file.encode(snapshot_file.decode(bytes.fromhex("000148674bc700000000")))
    write_partition(whole, "orders", 0, segments, snapshots={10: empty}, high_watermark=20, indexes=True)
    assert tier(whole, remote, "--apply").exit_code == 0
    (claim,) = [json.loads(data) for key, (data, _) in files(remote).items() if '"finished"' in data.decode("latin-1")]
    assert claim["snapshot"]["provenance"] == "BROKER"
    assert claim["snapshot"]["verdict"] == "SUSPECT", "a broker that loads it now drops what it lacks; that is all"
    segments[20] = [data_batch(20, 10, 2, 0, 10, timestamp=NOW)]
    write_partition(whole, "orders", 0, segments, snapshots={10: empty}, high_watermark=30, indexes=True)
    assert tier(whole, remote, "--apply", "--all").exit_code == 0
    (stored,) = [data for key, (data, _) in files(remote).items() if key.endswith("20.snapshot")]
    assert snapshot_file.decode(stored)["producer_id"].tolist() == [1, 2]
