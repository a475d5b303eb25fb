"""`tiersnap restore` from a directory: what it writes, what it refuses, and what it makes of a damaged tier."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from remote_storage.aiven_layout import AivenLayout
from remote_storage.cluster_record import put_cluster_id
from remote_storage.directory_store import DirectoryStore
from remote_storage.keys import ObjectKeys
from remote_storage.local_tiered_storage_layout import LocalTieredStorageLayout
from remote_storage.segment_metadata import TopicIdPartition
from snapshot import snapshot_file, transaction_index
from snapshot.log_dir import Checkpoints, read_partition
from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tests.reference.tiered import LOCAL, folded_snapshots, tier

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data" / "kafka-4.1.1"
CLUSTER, OTHER_CLUSTER = "EArE95XTQEqfBLWnpGnLIQ", "AnotherClusterAnother_"
TOPIC, END = "tv2", 1379  # two closed segments, 0 and 695, of commits and aborts
EMPTY = bytes.fromhex("000148674bc700000000")
LAYOUTS = {"aiven": AivenLayout(), "local-tiered-storage": LocalTieredStorageLayout()}


def new_disk(path: Path, cluster: str = CLUSTER) -> Path:
    path.mkdir()
    (path / "meta.properties").write_text(f"#\nversion=1\ncluster.id={cluster}\nnode.id=1\ndirectory.id=x\n")
    return path


def record_cluster(store: DirectoryStore, folder: Path, cluster: str = CLUSTER) -> None:
    at = read_partition(LOCAL, str(folder), Checkpoints())
    put_cluster_id(store, ObjectKeys(), TopicIdPartition(at.topic, at.topic_id, at.partition), cluster)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def original() -> Path:
    return DATA / "logs" / f"{TOPIC}-0"


@pytest.fixture
def store(tmp_path, original) -> DirectoryStore:
    store = DirectoryStore(tmp_path / "remote")
    tier(original, store)
    record_cluster(store, original)
    return store


@pytest.fixture
def disk(tmp_path) -> Path:
    return new_disk(tmp_path / "disk")


def restore(store: DirectoryStore, disk: Path, *words: str, topic: str = TOPIC):
    return tiersnap("restore", "--from", store.root, "--to", disk, "--topic", topic, *words)


def only_manifest(store: DirectoryStore, base: int) -> Path:
    (path,) = store.root.rglob(f"{base:020d}-*.rsm-manifest")
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_folder_is_what_a_broker_had_up_to_the_last_tiered_boundary(tmp_path, original, disk, layout):
    store = DirectoryStore(tmp_path / "remote")
    tier(original, store, layout=LAYOUTS[layout])
    planned = restore(store, disk, "--cluster-id", CLUSTER)
    assert planned.exit_code == 0
    assert sorted(path.name for path in disk.iterdir()) == ["meta.properties"], "a plan writes nothing"

    done = restore(store, disk, "--cluster-id", CLUSTER, "--apply")

    assert done.exit_code == 0, done.err
    folder = disk / f"{TOPIC}-0"
    expected = {
        name: data
        for name, data in content(original).items()
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
    assert row["transactions"] == [{"producer_id": 170, "producer_epoch": 18, "first_offset": 1375}]
    assert row["transactions"] == planned.rows[0]["transactions"]
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


def test_a_folder_with_another_file_is_not_touched(store, disk):
    restore(store, disk, "--apply")
    (disk / f"{TOPIC}-0" / f"{2000:020d}.snapshot").write_bytes(EMPTY)
    assert restore(store, disk, "--apply").exit_code == 4


def test_the_empty_folder_of_a_broker_that_missed_the_partition_is_named_as_that(store, disk):
    (disk / f"{TOPIC}-0").mkdir()
    (disk / f"{TOPIC}-0" / f"{0:020d}.log").touch()
    refused = restore(store, disk)
    assert refused.exit_code == 4
    assert "holds no record" in refused.err


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
    tier(DATA / "logs" / f"{TOPIC}-0", doubtful, snapshots={695: EMPTY})
    other = new_disk(tmp_path / "other")
    (other / ".kafka_cleanshutdown").touch()
    done = restore(doubtful, other, "--cluster-id", CLUSTER, "--apply")
    assert done.exit_code == 0
    assert done.rows[0]["rebuilt_snapshots"] == [695]
    assert "SUSPECT" in done.rows[0]["doubts"][0]
    assert not (other / ".kafka_cleanshutdown").exists()
    assert ".kafka_cleanshutdown" in done.err
    assert f"{TOPIC} 0 0" in (other / "recovery-point-offset-checkpoint").read_text(), "the broker scans all of it"
    right = (DATA / "expected" / f"{TOPIC}-0" / f"{695:020d}.snapshot").read_bytes()
    made = (other / f"{TOPIC}-0" / f"{695:020d}.snapshot").read_bytes()
    assert snapshot_file.decode(made).tolist() == snapshot_file.decode(right).tolist()


@pytest.mark.parametrize("change", ["gone", "another"])
def test_transaction_indexes_that_the_tier_lost_are_made_from_the_log(tmp_path, original, disk, change):
    store = DirectoryStore(tmp_path / "remote")
    tier(original, store, layout=LocalTieredStorageLayout())
    for path in store.root.rglob("*.txnindex"):
        path.unlink() if change == "gone" else path.write_bytes(path.read_bytes()[:34])
    done = restore(store, disk, "--cluster-id", CLUSTER, "--apply")
    assert len(done.rows[0]["doubts"]) == 2
    for base in (0, 695):
        name = f"{base:020d}.txnindex"
        assert (disk / f"{TOPIC}-0" / name).read_bytes() == (original / name).read_bytes()


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
    import numpy as np

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


def test_a_gap_is_refused_and_nothing_is_written(store, disk, tmp_path):
    only_manifest(store, 0).unlink()
    planned = restore(store, disk, "--log-start", "0")
    assert planned.exit_code == 4
    assert "0 to 694" in planned.err
    assert "no .rsm-manifest" in planned.err
    late = restore(store, disk, "--apply")
    assert late.rows[0]["log_start_offset"] == 695, "not told where it began, the tier begins there"
    assert "log-start-offset-checkpoint" in {path.name for path in disk.iterdir()}


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
@pytest.mark.parametrize("how", ["truncated", "missing", "empty"])
def test_a_copy_with_a_short_or_missing_object_is_no_copy(store, disk, suffix, how):
    (path,) = store.root.rglob(f"{695:020d}-*.{suffix}")
    data = path.read_bytes()
    path.unlink() if how == "missing" else path.write_bytes(data[: len(data) // 2] if how == "truncated" else b"")
    planned = restore(store, disk)
    assert planned.exit_code == 0
    assert planned.rows[0]["log_end_offset"] == 695
    (left,) = planned.rows[0]["left_out"]
    assert left["start_offset"] == 695
    assert "is left out" in planned.err


@pytest.mark.parametrize("position", [21, 30, 500, -1])
def test_a_flipped_bit_in_a_log_is_found_by_the_batch_that_holds_it(store, disk, position):
    (path,) = store.root.rglob(f"{695:020d}-*.log")
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)
    failed = restore(store, disk, "--apply")
    assert failed.exit_code == 5
    assert path.name in failed.err
    assert "BAD_" in failed.err
    assert not (disk / f"{TOPIC}-0").exists()
    (unfinished,) = disk.glob("tiersnap-restore.*")
    assert unfinished.name in failed.err

    data[position] ^= 4
    path.write_bytes(data)
    assert restore(store, disk).rows[0]["action"] == "RESUME"
    assert restore(store, disk, "--apply").exit_code == 0
    assert not list(disk.glob("tiersnap-restore.*"))


def test_a_flipped_bit_in_the_indexes_object_does_no_harm(store, disk, original):
    """Snapshot and transaction index are checked against the log, the other two are made of it; epochs are doubled."""
    for position in range(0, 4_000, 97):
        (path,) = store.root.rglob(f"{695:020d}-*.indexes")
        data = bytearray(path.read_bytes())
        if position >= len(data):
            break
        data[position] ^= 1
        other = path.with_name(path.name)
        other.write_bytes(data)
        done = restore(store, disk, "--apply")
        data[position] ^= 1
        other.write_bytes(data)
        if done.exit_code:
            assert done.exit_code == 5, done.err
            assert "leader epochs" in done.err
            continue
        folder = disk / f"{TOPIC}-0"
        for suffix in ("index", "timeindex", "txnindex"):
            name = f"{695:020d}.{suffix}"
            assert (folder / name).read_bytes() == (original / name).read_bytes(), position
        right = (DATA / "expected" / f"{TOPIC}-0" / f"{END:020d}.snapshot").read_bytes()
        made = (folder / f"{END:020d}.snapshot").read_bytes()
        assert snapshot_file.decode(made).tolist() == snapshot_file.decode(right).tolist(), position
        shutil.rmtree(folder)


def test_of_two_copies_one_damaged_the_other_is_taken_when_told(store, disk, original):
    (second,) = tier(original, store, bases={695}, event_timestamp=1_700_000_009_000)
    damaged = store.root / AivenLayout().log_key(second)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x77")
    failed = restore(store, disk, "--apply")
    assert failed.exit_code == 5
    assert "--without" in failed.err
    done = restore(store, disk, "--apply", "--without", second.id.segment_id)
    assert done.exit_code == 0
    assert "will be deleted" in done.err, "the folder of the other plan"
    assert [path.name for path in disk.iterdir() if path.is_dir()] == [f"{TOPIC}-0"]


def test_a_manifest_of_another_segment_is_refused(store, disk):
    path = only_manifest(store, 695)
    manifest = json.loads(path.read_text())
    manifest["remoteLogSegmentMetadata"]["startOffset"] = 694
    path.write_text(json.dumps(manifest))
    planned = restore(store, disk)
    assert planned.rows[0]["log_end_offset"] == 695
    assert "tells of" in planned.rows[0]["left_out"][0]["reason"]


def test_a_segment_that_only_the_plugin_can_read_is_refused(store, disk):
    path = only_manifest(store, 695)
    path.write_text(path.read_text().replace('"compression":false', '"compression":true'))
    refused = restore(store, disk)
    assert refused.exit_code == 2
    assert "compressed or encrypted" in refused.err


def test_topics_made_anew_and_mixed_layouts_must_be_chosen(store, disk, original, tmp_path):
    again = shutil.copytree(original, tmp_path / f"{TOPIC}-0")
    (again / "partition.metadata").write_text("version: 0\ntopic_id: lZ6vvmajTWKDBUTV6SQAtQ")
    tier(again, store)
    refused = restore(store, disk)
    assert refused.exit_code == 2
    assert "--topic-id" in refused.err
    assert restore(store, disk, "--topic-id", "KzhyM4gAQz-9kd6uuQ6OKg").exit_code == 0
    tier(original, store, layout=LocalTieredStorageLayout())
    mixed = restore(store, disk, "--topic-id", "KzhyM4gAQz-9kd6uuQ6OKg")
    assert "--layout" in mixed.err
    words = ("--topic-id", "KzhyM4gAQz-9kd6uuQ6OKg", "--layout", "local-tiered-storage")
    assert restore(store, disk, *words).exit_code == 0


def test_what_is_not_there_is_said(store, disk, tmp_path):
    assert restore(store, disk, topic="nothing").exit_code == 2
    missing = restore(store, disk, "--partition", "0", "--partition", "3")
    assert "partition 3" in missing.err
    nowhere = restore(store, tmp_path / "nowhere")
    assert nowhere.exit_code == 2
    (disk / "meta.properties").unlink()
    bare = restore(store, disk)
    assert bare.exit_code == 2
    assert f"cluster.id={CLUSTER}" in bare.err
    assert "directory.id=<the SAME" in bare.err
    (disk / "meta.properties").write_text("version=1\n")
    assert restore(store, disk).exit_code == 5


def test_a_running_broker_is_refused_and_a_plan_is_not(store, disk):
    import subprocess
    import sys

    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'ab'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(disk / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert restore(store, disk).exit_code == 0
        refused = restore(store, disk, "--apply")
        holder.stdin.close()
    assert refused.exit_code == 2
    assert "a broker is running" in refused.err
    assert [path.name for path in disk.iterdir() if path.is_dir()] == []


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
    done = restore(store, disk, *words, "--partition", "1", "--partition", "10", "--apply", topic="t")
    assert [row["partition"] for row in done.rows] == ["t-1", "t-10"]
    assert sorted(path.name for path in disk.iterdir() if path.is_dir()) == ["t-1", "t-10"]


class TestAnotherCluster:
    """Segments of one cluster, a directory of another."""

    @pytest.fixture
    def disk(self, tmp_path) -> Path:
        return new_disk(tmp_path / "disk", OTHER_CLUSTER)

    def test_producer_state_and_topic_id_have_to_be_chosen(self, store, disk):
        for words in (
            (),
            ("--producer-state", "keep"),
            ("--producer-state", "empty"),
            ("--as-topic-id", "x" * 21 + "A"),
        ):
            refused = restore(store, disk, "--apply", *words)
            assert refused.exit_code == 4, words
            assert CLUSTER in refused.err
            assert OTHER_CLUSTER in refused.err
        assert "silently dropped" in restore(store, disk).err
        assert [path.name for path in disk.iterdir()] == ["meta.properties"]

    @pytest.mark.parametrize("state", ["keep", "empty"])
    def test_what_was_chosen_is_what_the_broker_will_load(self, store, disk, state):
        new_id = "lZ6vvmajTWKDBUTV6SQAtQ"
        done = restore(store, disk, "--producer-state", state, "--as-topic-id", new_id, "--apply")
        assert done.exit_code == 0
        assert new_id in (disk / f"{TOPIC}-0" / "partition.metadata").read_text()
        entries = snapshot_file.decode((disk / f"{TOPIC}-0" / f"{END:020d}.snapshot").read_bytes())
        if state == "keep":
            assert entries.size == 5
            assert "largest restored producer id is 170" in done.err
        else:
            assert entries["producer_id"].tolist() == [170], "it holds the transaction that is open at the end"
            assert entries["last_sequence"].tolist() == [-1]
            assert "A follower that copies the log folds them" in done.err
        assert "leader epochs up to" in done.err

    def test_an_unknown_source_is_asked_for_and_a_recorded_one_not_contradicted(self, store, disk, tmp_path, original):
        contradicted = restore(store, disk, "--cluster-id", OTHER_CLUSTER)
        assert contradicted.exit_code == 2
        assert "recorded" in contradicted.err
        unknown = DirectoryStore(tmp_path / "unknown")
        tier(original, unknown)
        asked = restore(unknown, disk)
        assert asked.exit_code == 2
        assert "--cluster-id" in asked.err
        assert restore(unknown, disk, "--cluster-id", OTHER_CLUSTER).exit_code == 0

    @pytest.mark.parametrize(
        "topic_id", ["x", "lZ6vvmajTWKDBUTV6SQAt+", "AAAAAAAAAAAAAAAAAAAAAA", "lZ6vvmajTWKDBUTV6SQAtR"]
    )
    def test_what_is_no_topic_id_is_refused(self, store, disk, topic_id):
        assert restore(store, disk, "--producer-state", "empty", "--as-topic-id", topic_id).exit_code == 2


def test_a_record_that_names_no_cluster_is_corrupt(store, disk):
    (path,) = store.root.rglob("cluster.json")
    for text in ("", "{}", '{"version":2,"clusterId":"x"}', '{"version":1,"clusterId":7}'):
        path.write_text(text)
        assert restore(store, disk).exit_code == 5


def test_the_empty_state_in_the_same_cluster_is_warned_of(store, disk):
    planned = restore(store, disk, "--producer-state", "empty")
    assert "appended a second time" in planned.err
