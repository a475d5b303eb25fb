"""`tiersnap restore` from a directory: what it writes and what it never touches."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from tests.reference import log_builder as lb
from tests.reference.command import assert_said, tiersnap
from tests.reference.kill_steps import content
from tests.reference.restoring import (
    CLUSTER,
    DATA,
    EMPTY,
    END,
    ORIGINAL,
    TOPIC,
    expected_snapshot,
    new_disk,
    restore,
)
from tests.reference.tiered import LOCAL, folded_snapshots, tier
from tiersnap.jobs.cli.progress import Progress
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats import snapshot_file, transaction_index
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition

pytestmark = pytest.mark.unit

LAYOUTS = {"aiven": AivenLayout(), "local-tiered-storage": LocalTieredStorageLayout()}


def test_what_takes_long_says_how_far_it_is(store, disk, monkeypatch):
    monkeypatch.setitem(Progress.__init__.__kwdefaults__, "line_every", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())  # no terminal
    ran = restore(store, disk, "--apply")
    assert ran.exit_code == 0, ran.err
    assert "planning: 0 s" in ran.err
    assert "restoring: 0 of 1 partition in 0 s" in ran.err


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_folder_is_what_a_broker_had_up_to_the_last_tiered_boundary(tmp_path, disk, layout):
    store = DirectoryStore(tmp_path / "remote")
    tier(ORIGINAL, store, layout=LAYOUTS[layout])
    planned = restore(store, disk, "--cluster-id", CLUSTER)
    assert planned.exit_code == 0
    assert sorted(path.name for path in disk.iterdir()) == ["meta.properties"], "a plan writes nothing"

    done = restore(store, disk, "--cluster-id", CLUSTER, "--apply")

    assert done.exit_code == 0, done.err
    folder = disk / f"{TOPIC}-0"
    expected = {
        name: data
        for name, data in content(ORIGINAL).items()
        if not name.endswith(".snapshot") and (not name[0].isdigit() or int(name.partition(".")[0]) < END)
    }
    expected |= {f"{END:020d}.{suffix}": b"" for suffix in ("log", "index", "timeindex")}
    found = content(folder)
    snapshots = {name: found.pop(name) for name in list(found) if name.endswith(".snapshot")}
    assert found == expected, "logs, indexes, transaction indexes, leader epochs, topic id; an empty active segment"
    assert {int(name.partition(".")[0]): snapshot_file.decode(data).tolist() for name, data in snapshots.items()} == {
        offset: snapshot_file.decode(
            (DATA / "expected" / f"{TOPIC}-0" / f"{offset:020d}.snapshot").read_bytes()
        ).tolist()
        for offset in (695, END)
    }, "as Kafka's own classes fold them"
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert (disk / name).read_text() == f"0\n1\n{TOPIC} 0 {END}\n"
    assert not (disk / "log-start-offset-checkpoint").exists()
    row = done.rows[0]
    assert (row["log_start_offset"], row["log_end_offset"], row["last_stable_offset"]) == (0, END, 1375)
    assert row["open_transactions"] == [{"producer_id": 170, "producer_epoch": 18, "first_offset": 1375}]
    assert row["open_transactions"] == planned.rows[0]["open_transactions"]
    assert "--start-offset 1375" in done.err
    assert (row["snapshots"], row["rebuilt_snapshots"], row["transaction_indexes"], row["doubts"]) == (2, [], 2, [])
    assert tiersnap("scan", disk).exit_code == 0


def test_done_again_it_writes_nothing(store, disk):
    restore(store, disk, "--apply")
    times = {path: path.stat().st_mtime_ns for path in disk.rglob("*")}
    again = restore(store, disk, "--apply")
    assert (again.exit_code, again.rows[0]["action"]) == (0, "COMPARE")
    assert {path: path.stat().st_mtime_ns for path in disk.rglob("*")} == times


@pytest.mark.parametrize(
    "name", [f"{695:020d}.log", f"{695:020d}.index", f"{END:020d}.snapshot", "leader-epoch-checkpoint"]
)
@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_folder_that_is_not_the_same_is_not_touched(store, disk, name, how):
    restore(store, disk, "--apply")
    path = disk / f"{TOPIC}-0" / name
    if how == "missing":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    before = content(disk)
    refused = restore(store, disk, "--apply")
    assert refused.exit_code == 4
    assert name in refused.err
    assert content(disk) == before


def test_the_plan_refuses_a_folder_to_which_a_broker_has_written_since(store, disk):
    assert_said(restore(store, disk, "--apply"), 0)
    (disk / f"{TOPIC}-0" / f"{END:020d}.log").write_bytes(b"records")
    assert_said(restore(store, disk), 4, f"{END:020d}.log has 7 bytes, but the remote segment has 0")


def test_a_folder_with_another_file_is_not_touched(store, disk):
    restore(store, disk, "--apply")
    (disk / f"{TOPIC}-0" / f"{2000:020d}.snapshot").write_bytes(EMPTY)
    assert restore(store, disk, "--apply").exit_code == 4


def test_the_empty_folder_of_a_broker_that_missed_the_partition_is_named_as_that(store, disk):
    (disk / f"{TOPIC}-0").mkdir()
    (disk / f"{TOPIC}-0" / f"{0:020d}.log").touch()
    refused = restore(store, disk)
    assert refused.exit_code == 4
    assert "contains no record" in refused.err


def test_checkpoints_keep_what_they_have_of_other_partitions(store, disk):
    (disk / "recovery-point-offset-checkpoint").write_text(f"0\n2\nother 3 77\n{TOPIC} 0 5\n")
    (disk / "replication-offset-checkpoint").write_text("0\n1\nother 3 78\n")
    (disk / "log-start-offset-checkpoint").write_text(f"0\n2\nother 3 7\n{TOPIC} 0 700\n")
    done = restore(store, disk, "--apply")
    assert (disk / "recovery-point-offset-checkpoint").read_text() == f"0\n2\nother 3 77\n{TOPIC} 0 {END}\n"
    assert (disk / "replication-offset-checkpoint").read_text() == f"0\n2\nother 3 78\n{TOPIC} 0 {END}\n"
    assert (disk / "log-start-offset-checkpoint").read_text() == f"0\n2\nother 3 7\n{TOPIC} 0 700\n"
    assert done.rows[0]["log_start_offset"] == 700, "what the directory itself still knows"
    assert sorted(path.name for path in (disk / f"{TOPIC}-0").glob("*.log"))[0] == f"{695:020d}.log"


def test_a_damaged_checkpoint_is_not_written_over(store, disk):
    (disk / "recovery-point-offset-checkpoint").write_text("0\n5\nother 3 77\n")
    assert restore(store, disk, "--apply").exit_code == 5
    assert (disk / "recovery-point-offset-checkpoint").read_text() == "0\n5\nother 3 77\n"
    assert not (disk / f"{TOPIC}-0").exists()


def test_the_clean_marker_stays_where_all_is_sure_and_goes_where_it_is_not(store, disk, tmp_path):
    (disk / ".kafka_cleanshutdown").touch()
    restore(store, disk, "--apply")
    assert (disk / ".kafka_cleanshutdown").exists()

    doubtful = DirectoryStore(tmp_path / "doubtful")
    tier(ORIGINAL, doubtful, snapshots={695: EMPTY})
    other = new_disk(tmp_path / "other")
    (other / ".kafka_cleanshutdown").touch()
    done = restore(doubtful, other, "--cluster-id", CLUSTER, "--apply")
    assert done.exit_code == 0
    assert done.rows[0]["rebuilt_snapshots"] == [[695, "the snapshot is empty, but the log has 5 producers"]]
    assert "SUSPECT" in done.rows[0]["doubts"][0]
    assert not (other / ".kafka_cleanshutdown").exists()
    assert ".kafka_cleanshutdown" in done.err
    assert f"{TOPIC} 0 0" in (other / "recovery-point-offset-checkpoint").read_text(), "the broker scans all of it"
    right = expected_snapshot(695)
    made = (other / f"{TOPIC}-0" / f"{695:020d}.snapshot").read_bytes()
    assert snapshot_file.decode(made).tolist() == snapshot_file.decode(right).tolist()


def test_with_the_empty_state_the_broker_is_not_made_to_fold_it_from_the_log_again(disk, tmp_path):
    doubtful = DirectoryStore(tmp_path / "doubtful")
    tier(ORIGINAL, doubtful, snapshots={695: EMPTY})
    (disk / ".kafka_cleanshutdown").touch()
    done = restore(doubtful, disk, "--cluster-id", CLUSTER, "--producer-state", "empty", "--apply")
    assert done.rows[0]["doubts"]
    assert (disk / ".kafka_cleanshutdown").exists()
    assert f"{TOPIC} 0 {END}" in (disk / "recovery-point-offset-checkpoint").read_text()


def test_a_log_start_of_the_disk_that_the_tier_does_not_reach_is_named_with_the_way_round_it(store, disk):
    (disk / "log-start-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 5000\n")
    refused = restore(store, disk, "--apply")
    assert refused.exit_code != 0
    assert "no complete remote segment has offset 5000" in refused.err
    assert "log-start-offset-checkpoint in the log directory" in refused.err
    done = restore(store, disk, "--apply", "--log-start", "0")
    assert done.exit_code == 0, done.err
    assert f"add --log-start 0 --partition {TOPIC}-0" in refused.err


def test_a_transaction_that_began_below_the_log_start_is_known_by_the_tier_alone(tmp_path, disk):
    """Its marker and some of its records are left; the tier's index says where it began, and is kept."""
    segments = {
        0: [lb.data_batch(0, 5, 7, 0, 0, transactional=True)],
        5: [lb.data_batch(5, 5, 7, 0, 5, transactional=True), lb.marker(10, 7, 0, 1, commit=False)],
        11: [lb.data_batch(11, 1)],
    }
    log = tmp_path / "log"
    folder = lb.write_partition(log, "t", 0, segments, indexes=True)
    aborted = transaction_index.encode(lb_entries([(7, 0, 10, 11)]))
    (folder / f"{5:020d}.txnindex").write_bytes(aborted)
    store = DirectoryStore(tmp_path / "remote")
    tier(folder, store)
    done = restore(store, disk, "--cluster-id", CLUSTER, "--log-start", "5", "--apply", topic="t")
    assert done.rows[0]["doubts"] == []
    assert (disk / "t-0" / f"{5:020d}.txnindex").read_bytes() == aborted


def lb_entries(rows):
    return np.array(rows, transaction_index.ABORTED_TXN_DTYPE)


def test_overlapping_copies_are_cut_at_a_batch_and_everything_of_them_made_anew(tmp_path, disk):
    """Two replicas rolled at different offsets; what is restored folds to the same state."""
    batches = [
        lb.data_batch(start, 5, start % 3, 0, start // 3, timestamp=lb.TIMESTAMP + start) for start in range(0, 60, 5)
    ]
    one = lb.write_partition(
        tmp_path / "one", "t", 0, {0: batches[:4], 20: batches[4:8], 40: batches[8:]}, indexes=True
    )
    two = lb.write_partition(
        tmp_path / "two", "t", 0, {0: batches[:6], 30: batches[6:10], 50: batches[10:]}, indexes=True
    )
    store = DirectoryStore(tmp_path / "remote")
    tier(one, store, bases={0, 20})
    tier(two, store, bases={30}, event_timestamp=1_700_000_000_900)

    done = restore(store, disk, "--cluster-id", CLUSTER, "--apply", "--segments", topic="t")

    assert done.exit_code == 0, done.err
    assert [(row["base_offset"], row["next_base_offset"], row["action"]) for row in done.rows] == [
        (0, 20, "FETCH"),
        (20, 40, "FETCH"),
        (40, 50, "FETCH, CUT"),
    ]
    folder = disk / "t-0"
    assert (folder / f"{40:020d}.log").read_bytes() == b"".join(batches[8:10])
    restored = folded_snapshots(read_partition(LOCAL, str(folder), Checkpoints()))
    truth = folded_snapshots(read_partition(LOCAL, str(two), Checkpoints()))
    assert restored[50] == truth[50]
    assert restore(store, disk, "--cluster-id", CLUSTER, "--apply", topic="t").rows[0]["action"] == "COMPARE"


def test_owner_and_mode_are_those_of_the_directory(store, disk):
    disk.chmod(0o750)
    (disk / "meta.properties").chmod(0o640)
    restore(store, disk, "--apply")
    assert (disk / f"{TOPIC}-0").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in (disk / f"{TOPIC}-0").iterdir()} == {0o640}
    assert (disk / "recovery-point-offset-checkpoint").stat().st_mode & 0o777 == 0o640


def test_every_partition_of_a_topic_is_restored_or_those_that_are_named(tmp_path, disk):
    store = DirectoryStore(tmp_path / "remote")
    for number in (0, 1, 10):
        segments = {0: [lb.data_batch(0, 5, number, 0, 0)], 5: [lb.data_batch(5, 5, number, 0, 5)]}
        tier(lb.write_partition(tmp_path / "log", "t", number, segments, indexes=True), store)
    words = ("--cluster-id", CLUSTER)
    assert [row["partition"] for row in restore(store, disk, *words, topic="t").rows] == ["t-0", "t-1", "t-10"]
    done = restore(store, disk, *words, "--partition", "t-1", "--partition", "t-10", "--apply", topic="t")
    assert [row["partition"] for row in done.rows] == ["t-1", "t-10"]
    assert sorted(path.name for path in disk.iterdir() if path.is_dir()) == ["t-1", "t-10"]
