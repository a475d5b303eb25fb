"""`tiersnap install`: the snapshots that a run stored go where `repair` would write, and nowhere else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.reference import log_builder as lb
from tests.reference.command import assert_said, tiersnap
from tests.reference.kill_steps import content
from tests.reference.privileges import run_obeying_modes
from tests.reference.stored_snapshots import put_snapshot
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.restore.install_outcome import InstallOutcome
from tiersnap.remote_storage.restore.install_plan import InstallPlanner, PartitionSnapshots, without_folding
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.snapshot_source import TrustedSnapshot
from tiersnap.remote_storage.upload.stored_snapshots import put_manifest
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition
from tiersnap.snapshot.repair.repair_plan import PlanOptions
from tiersnap.snapshot.replay.expiry import Expiry

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data" / "ledger-2.7.2"
AT = TopicIdPartition("ledger", None, 0)  # of 2.7.2: no topic id
MISSING = [183, 368, 552, 739]
EMPTY = bytes.fromhex("000148674bc700000000")


def expected(offset: int) -> bytes:
    return (DATA / "expected/ledger-0" / f"{offset:020d}.snapshot").read_bytes()


def put(store: DirectoryStore, snapshots: dict[int, bytes], *, at: TopicIdPartition = AT, run_id: str = "r1") -> None:
    """What `tiersnap run` stores, without its manifest when `run_id` is empty."""
    records = []
    for offset, data in snapshots.items():
        snapshot = TrustedSnapshot(offset, data, Provenance.COMPUTED)
        options = {"run_id": run_id or "unfinished", "fold_start_offset": 0, "replace": True}
        records.append(put_snapshot(store, at, snapshot, **options)[0])
    if run_id:
        put_manifest(store, at, run_id, records)


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    store = DirectoryStore(tmp_path / "remote")
    put(store, {offset: expected(offset) for offset in MISSING})
    return store


@pytest.fixture
def folder(tmp_path) -> Path:
    copied = shutil.copytree(DATA / "logs/ledger-0", tmp_path / "disk" / "ledger-0")
    shutil.copy(DATA / "logs/replication-offset-checkpoint", copied.parent)
    return copied


def install(store: DirectoryStore, folder: Path, *words: str):
    # A day after the logs were written their producers are forgotten, and no file lacks them any more.
    return tiersnap("install", "--remote", store.root, "--to", folder.parent, "--now", "2026-11-21T12:45:00Z", *words)


def actions(ran) -> dict[int, str]:
    return {row["offset"]: row["action"] for row in ran.rows}


def test_what_was_stored_is_written_where_it_lacks_and_nothing_else(store, folder):
    before = content(folder)
    planned = install(store, folder)
    assert (planned.exit_code, actions(planned)) == (0, dict.fromkeys(MISSING, "WRITE"))
    assert content(folder) == before, "a plan writes nothing"

    done = install(store, folder, "--apply")

    assert done.exit_code == 0, done.err
    assert content(folder) == before | {f"{offset:020d}.snapshot": expected(offset) for offset in MISSING}
    assert done.row(offset=183)["run_id"] == "r1"
    assert done.row(offset=183)["reason"] == "the snapshot equals the log: 6 producers"
    assert tiersnap("scan", folder.parent).out.count("MISSING") == 0
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = install(store, folder, "--apply")
    assert (again.exit_code, again.rows) == (0, [])
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_owner_and_mode_are_those_of_the_log(store, folder):
    for path in folder.glob("*.log"):
        path.chmod(0o640)
    install(store, folder, "--apply")
    assert (folder / f"{183:020d}.snapshot").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("compare", ["--compare", "--no-compare"])
def test_a_damaged_object_is_never_installed(store, folder, compare):
    path = store.root / keys.snapshot(AT, 368)
    for data in (path.read_bytes()[:-1], b"", path.read_bytes()[:-1] + b"\x55", expected(183)):
        path.write_bytes(data)
        failed = install(store, folder, "--apply", compare)
        assert failed.exit_code == 5
        row = failed.row(offset=368)
        assert row["action"] == "CORRUPT"
        assert "368.snapshot" in row["reason"]
        assert not (folder / f"{368:020d}.snapshot").exists()
    assert (folder / f"{183:020d}.snapshot").read_bytes() == expected(183), "the others are"


def test_what_no_finished_run_vouches_for_is_not_installed(tmp_path, folder):
    store = DirectoryStore(tmp_path / "unfinished")
    put(store, {offset: expected(offset) for offset in MISSING}, run_id="")
    ran = install(store, folder, "--apply")
    assert (ran.exit_code, set(actions(ran).values())) == (4, {"NOT_VOUCHED"})
    put(store, {183: expected(183)})
    assert actions(install(store, folder))[183] == "WRITE"


def test_of_several_runs_the_one_that_names_these_bytes_vouches(store, folder):
    put(store, {183: EMPTY}, run_id="r0")
    put(store, {183: expected(183)}, run_id="r2")
    assert install(store, folder).row(offset=183)["run_id"] == "r2"


def test_what_contradicts_the_log_is_not_installed_unless_nobody_compares(tmp_path, folder):
    store = DirectoryStore(tmp_path / "wrong")
    put(store, {183: EMPTY, 368: expected(183)})
    refused = install(store, folder, "--apply", "--now", "2026-11-21T12:45:00Z")
    assert refused.exit_code == 5
    assert (actions(refused)[183], actions(refused)[368]) == ("DISAGREES", "DISAGREES")
    assert actions(refused)[552] == "NOT_STORED"
    assert not (folder / f"{183:020d}.snapshot").exists()
    blind = install(store, folder, "--no-compare", "--apply")
    assert (blind.exit_code, actions(blind)) == (0, {183: "WRITE", 368: "WRITE"})
    assert (folder / f"{183:020d}.snapshot").read_bytes() == EMPTY


def test_producers_that_the_run_left_out_as_idle_are_not_missed(store, folder):
    put(store, dict.fromkeys(MISSING, EMPTY), run_id="r2")
    long_after = ("--now", "2027-01-01T00:00:00Z")
    assert set(actions(install(store, folder, *long_after)).values()) == {"WRITE"}
    assert set(actions(install(store, folder, *long_after, "--producer-expiration", "none")).values()) == {"DISAGREES"}


def test_files_that_are_there_are_replaced_only_when_told_and_only_if_they_are_wrong(store, folder):
    put(store, {916: expected(916)}, run_id="r2")
    right = (folder / f"{916:020d}.snapshot").read_bytes()
    assert 916 not in actions(install(store, folder, "--replace"))
    for wrong, verdict, code in ((EMPTY, "SUSPECT", 4), (right[:-1], "CORRUPT", 5)):
        (folder / f"{916:020d}.snapshot").write_bytes(wrong)
        refused = install(store, folder, "--apply")
        assert (refused.exit_code, actions(refused)[916]) == (code, "NEEDS_REPLACE"), verdict
        assert (folder / f"{916:020d}.snapshot").read_bytes() == wrong
        blind = install(store, folder, "--no-compare", "--replace")
        assert actions(blind).get(916) == ("REPLACE" if verdict == "CORRUPT" else None), "nobody looked"
        done = install(store, folder, "--replace", "--apply")
        assert (done.exit_code, actions(done)[916]) == (0, "REPLACE")
        assert (folder / f"{916:020d}.snapshot").read_bytes() == expected(916)


def test_a_wrong_newest_file_that_no_run_stored_is_named(store, folder):
    newest = max(folder.glob("*.snapshot"))
    newest.write_bytes(EMPTY)
    ran = install(store, folder, "--replace", "--apply")
    assert ran.exit_code == 4
    assert ran.row(offset=int(newest.stem))["action"] == "NOT_STORED"
    assert "tiersnap repair" in ran.err


def test_nothing_goes_above_the_newest_that_the_broker_can_load_unless_told(store, folder):
    for path in folder.glob("*.snapshot"):
        path.unlink()
    shutil.copy(DATA / "expected/ledger-0" / f"{183:020d}.snapshot", folder)
    refused = install(store, folder, "--apply")
    assert refused.exit_code == 4
    assert {offset: action for offset, action in actions(refused).items() if offset in MISSING} == dict.fromkeys(
        MISSING[1:], "ABOVE_NEWEST"
    )
    assert len(list(folder.glob("*.snapshot"))) == 1
    told = install(store, folder, "--apply", "--above-newest")
    assert actions(told)[739] == "WRITE"
    assert actions(told)[916] == "NOT_STORED"


def test_an_offset_where_no_segment_begins_is_left_alone(store, folder):
    put(store, {200: expected(183)}, run_id="r2")
    for compare in ("--compare", "--no-compare"):
        ran = install(store, folder, "--apply", compare)
        assert ran.exit_code == 0
        assert not (folder / f"{200:020d}.snapshot").exists()
    assert actions(ran) == {200: "NOT_ALIGNED"}


def test_above_damage_in_the_log_nothing_can_be_compared(store, folder):
    path = folder / f"{368:020d}.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    ran = install(store, folder, "--apply")
    assert ran.exit_code == 5
    assert {offset: action for offset, action in actions(ran).items() if offset in MISSING} == {
        183: "WRITE",
        368: "WRITE",
        552: "NOT_REACHED",
        739: "NOT_REACHED",
    }
    assert "BAD_CRC" in ran.row(offset=552)["reason"]


@pytest.mark.parametrize("here", [None, "lZ6vvmajTWKDBUTV6SQAtQ"])
def test_snapshots_of_another_topic_id_are_not_installed(tmp_path, folder, here):
    if here:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {here}")
    store = DirectoryStore(tmp_path / "other")
    there = "MWJ6FHTfRYy67jzwZdeqSQ" if here is None else None
    put(store, {183: expected(183)}, at=TopicIdPartition("ledger", there, 0))
    ran = install(store, folder, "--apply")
    assert ran.exit_code == 4
    assert "topic id" in ran.err
    assert not (folder / f"{183:020d}.snapshot").exists()
    put(store, {183: expected(183)}, at=TopicIdPartition("ledger", here, 0))
    assert install(store, folder, "--apply").exit_code == 4, "of the others none was stored"
    assert (folder / f"{183:020d}.snapshot").read_bytes() == expected(183)


def test_what_tier_left_of_a_partition_is_no_snapshot_of_another_topic_id(tmp_path, store, folder):
    at = TopicIdPartition("other", "MWJ6FHTfRYy67jzwZdeqSQ", 0)
    store.put_if_absent(keys.cluster(at), b"{}")
    shutil.copytree(folder, folder.parent / "other-0")
    (folder.parent / "other-0/partition.metadata").write_text(f"version: 0\ntopic_id: {at.topic_id}")
    ran = install(store, folder)
    assert (ran.exit_code, "topic id" in ran.err) == (0, False)


@pytest.mark.parametrize("compare", ["--compare", "--no-compare"])
def test_a_folder_that_cannot_be_read_is_not_passed_over(store, folder, compare):
    (folder.parent / "other-0").mkdir(mode=0o000)
    words = ["--output", "json", "install", "--remote", store.root, "--to", folder.parent, compare]
    ran = run_obeying_modes("-m", "tests.reference.tiersnap", *map(str, words))
    found = json.loads(ran.stdout)["result"]["findings"]
    assert (ran.returncode, [each["finding_kind"] for each in found]) == (6, ["PERMISSION_DENIED"])


def test_a_place_without_any_is_not_taken_for_good_news(tmp_path, folder):
    assert install(DirectoryStore(tmp_path / "nothing"), folder).exit_code == 2
    assert install(DirectoryStore(tmp_path / "nothing"), folder, "--topic", "ledgre").exit_code == 2


def test_a_running_broker_is_refused(store, folder):
    import subprocess
    import sys

    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'ab'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder.parent / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        planned = install(store, folder)
        refused = install(store, folder, "--apply")
        holder.stdin.close()
    assert (planned.exit_code, refused.exit_code) == (0, 2)
    assert "a broker is running" in refused.err


def test_a_snapshot_that_knows_more_than_the_log_is_better_than_what_repair_would_make(tmp_path):
    """Retention took the segments of producer 1; the run folded them while they were there."""
    segments = {10: [lb.data_batch(10, 10, 2, 0, 0)], 20: [lb.data_batch(20, 10, 2, 0, 10)], 30: [lb.data_batch(30, 1)]}
    folder = lb.write_partition(tmp_path / "disk", "t", 0, segments, high_watermark=0, indexes=True)
    entries = snapshot_file.decode(expected(183))[:2].copy()
    entries["producer_id"], entries["last_offset"], entries["offset_delta"] = (1, 2), (9, 19), 9
    entries["last_sequence"], entries["producer_epoch"], entries["coordinator_epoch"] = (9, 9), 0, -1
    entries["timestamp"], entries["current_txn_first_offset"] = lb.TIMESTAMP + 9, -1
    store = DirectoryStore(tmp_path / "remote")
    put(store, {20: snapshot_file.encode(entries)}, at=TopicIdPartition("t", "lZ6vvmajTWKDBUTV6SQAtQ", 0))
    ran = install(store, folder, "--apply")
    assert ran.row(offset=20)["action"] == "WRITE"
    assert "also has 1 producer " in ran.row(offset=20)["reason"]


def test_a_manifest_that_cannot_be_read_is_corrupt(store, folder):
    (path,) = store.root.rglob("manifest-*.json")
    path.write_text(json.dumps({"version": 1}))
    assert install(store, folder).exit_code == 5


def test_install_goes_on_when_one_partition_cannot_be_read(store, folder):
    shutil.copytree(DATA / "logs/ledger-0", folder.parent / "a-0")
    put(store, {183: expected(183)}, at=TopicIdPartition("a", None, 0))
    (path,) = store.root.rglob("a-*/0/manifest-*.json")
    path.write_text(json.dumps({"version": 1}))
    ran = install(store, folder, "--apply")
    assert_said(ran, 5, "manifest-r1.json: not a snapshot manifest", "4 snapshots are written")
    assert actions(ran) == dict.fromkeys(MISSING, "WRITE")
    assert (folder / snapshot_file.file_name(183)).is_file()


class Emptied(DirectoryStore):
    """A store from which another run removes all that was listed before it is read."""

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        self.delete([key])
        return super().get(key, limit=limit)


def test_install_takes_an_object_that_is_gone_for_none(store, folder):
    partition = read_partition(LOCAL, str(folder), Checkpoints())
    emptied = PartitionSnapshots(Emptied(store.root), AT)
    planner = InstallPlanner(partition, emptied, PlanOptions(Expiry(None, 0)), lambda _: None, compares=False)
    for boundary in without_folding(partition, emptied, lambda _: None):
        planner(boundary)
    assert {each.action for each in planner.planned} == {InstallOutcome.NOT_STORED}
