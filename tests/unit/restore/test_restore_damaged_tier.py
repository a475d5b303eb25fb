"""What `tiersnap restore` makes of a tier with gaps, damage, doubles and segments that only others can read."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.reference.command import assert_said
from tests.reference.plugin_compressed import compress_copy
from tests.reference.restoring import (
    CLUSTER,
    END,
    ORIGINAL,
    TOPIC,
    expected_snapshot,
    only_manifest,
    restore,
)
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.unit


def test_a_gap_is_refused_and_nothing_is_written(store, disk, tmp_path):
    only_manifest(store, 0).unlink()
    planned = restore(store, disk, "--log-start", "0")
    assert planned.exit_code == 4
    assert "0 to 694" in planned.err
    assert "no .rsm-manifest" in planned.err
    assert [path.name for path in disk.iterdir()] == ["meta.properties"]
    late = restore(store, disk, "--log-start", "695", "--apply")
    assert late.rows[0]["log_start_offset"] == 695
    assert "log-start-offset-checkpoint" in {path.name for path in disk.iterdir()}


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
@pytest.mark.parametrize("how", ["truncated", "missing", "empty"])
def test_a_newest_copy_with_a_short_or_missing_object_is_asked_about(store, disk, suffix, how):
    (path,) = store.root.rglob(f"{695:020d}-*.{suffix}")
    data = path.read_bytes()
    path.unlink() if how == "missing" else path.write_bytes(data[: len(data) // 2] if how == "truncated" else b"")
    refused = restore(store, disk, "--apply")
    assert refused.exit_code == 4
    assert "because 1 newer segment cannot be used" in refused.err
    assert "--until 695" in refused.err
    assert [path.name for path in disk.iterdir()] == ["meta.properties"]
    planned = restore(store, disk, "--until", "695")
    assert planned.exit_code == 0
    assert planned.rows[0]["log_end_offset"] == 695
    (left,) = planned.rows[0]["left_out"]
    assert left["base_offset"] == 695
    assert "is not used" in planned.err


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
def test_an_oldest_copy_that_lost_an_object_is_asked_about(store, disk, suffix):
    (path,) = store.root.rglob(f"{0:020d}-*.{suffix}")
    path.unlink()
    refused = restore(store, disk, "--apply")
    assert_said(refused, 4, f"{TOPIC}-0: the log would begin at offset 695", "because 1 older segment cannot be used")
    assert f"--log-start 695 --partition {TOPIC}-0" in refused.err
    assert [path.name for path in disk.iterdir()] == ["meta.properties"]
    planned = restore(store, disk, "--log-start", "695", "--partition", f"{TOPIC}-0")
    assert planned.rows[0]["log_start_offset"] == 695


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


def test_a_flipped_bit_in_the_indexes_object_does_no_harm(store, disk):
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
            assert (folder / name).read_bytes() == (ORIGINAL / name).read_bytes(), position
        right = expected_snapshot(END)
        made = (folder / f"{END:020d}.snapshot").read_bytes()
        assert snapshot_file.decode(made).tolist() == snapshot_file.decode(right).tolist(), position
        shutil.rmtree(folder)


def test_of_two_copies_one_damaged_the_other_is_taken_when_told(store, disk):
    (second,) = tier(ORIGINAL, store, bases={695}, event_timestamp=1_700_000_009_000)
    damaged = store.root / AivenLayout().log_key(second)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x77")
    failed = restore(store, disk, "--apply")
    assert failed.exit_code == 5
    assert "--without" in failed.err
    done = restore(store, disk, "--apply", "--without", second.id.segment_id)
    assert done.exit_code == 0
    assert "will be deleted" in done.err, "the folder of the other plan"
    assert [path.name for path in disk.iterdir() if path.is_dir()] == [f"{TOPIC}-0"]


def test_an_id_to_leave_out_that_no_copy_has_is_refused(store, disk):
    (second,) = tier(ORIGINAL, store, bases={695}, event_timestamp=1_700_000_009_000)
    mistyped = second.id.segment_id[:-1]
    refused = restore(store, disk, "--without", second.id.segment_id, "--without", mistyped)
    assert (refused.exit_code, f"--without {mistyped}:" in refused.err) == (2, True)


def test_a_manifest_of_another_segment_is_refused(store, disk):
    path = only_manifest(store, 695)
    manifest = json.loads(path.read_text())
    manifest["remoteLogSegmentMetadata"]["startOffset"] = 694
    path.write_text(json.dumps(manifest))
    assert "describes" in restore(store, disk).err
    planned = restore(store, disk, "--until", "695")
    assert planned.rows[0]["log_end_offset"] == 695
    assert "describes" in planned.rows[0]["left_out"][0]["reason"]


def test_an_encrypted_segment_is_named_as_such_and_the_others_are_restored_when_told(store, disk):
    path = only_manifest(store, 695)
    path.write_text(path.read_text().replace('{"version"', '{"encryption":{"dataKey":"k:x","aad":"x"},"version"', 1))
    refused = restore(store, disk)
    assert refused.exit_code == 4
    assert "the plugin encrypted the segment" in refused.err
    assert restore(store, disk, "--until", "695", "--apply").exit_code == 0
    assert (disk / f"{TOPIC}-0" / f"{695:020d}.log").stat().st_size == 0


@pytest.mark.parametrize(("chunk_size", "range_size"), [(1000, 8 << 20), (1000, 333), (4096, 5000), (1 << 20, 1 << 20)])
def test_segments_that_the_plugin_compressed_are_restored(store, disk, monkeypatch, chunk_size, range_size):
    monkeypatch.setattr("tiersnap.remote_storage.remote_log.segment_bytes.FETCH_SIZE", range_size)
    for base in (0, 695):
        compress_copy(only_manifest(store, base), chunk_size)
    done = restore(store, disk, "--apply")
    assert done.exit_code == 0, done.err
    for base in (0, 695):
        name = f"{base:020d}.log"
        assert (disk / f"{TOPIC}-0" / name).read_bytes() == (ORIGINAL / name).read_bytes()
    assert restore(store, disk, "--apply").rows[0]["action"] == "COMPARE"


def test_a_damaged_chunk_is_corrupt_data_and_so_is_a_short_object(store, disk):
    log = compress_copy(only_manifest(store, 0), 1000)
    data = log.read_bytes()
    log.write_bytes(b"\0" * 50 + data[50:])
    failed = restore(store, disk, "--apply")
    assert failed.exit_code == 5
    assert "the chunk at byte" in failed.err
    log.write_bytes(data[:-1])
    assert "the manifest of the segment says" in restore(store, disk, "--log-start", "0").err


def tell(store: DirectoryStore, base: int, **said: object) -> None:
    path = only_manifest(store, base)
    manifest = json.loads(path.read_text())
    manifest["remoteLogSegmentMetadata"] |= said
    path.write_text(json.dumps(manifest))


def test_an_end_offset_that_the_bytes_do_not_have_becomes_no_checkpoint(store, disk):
    tell(store, 695, endOffset=99_999)
    failed = restore(store, disk, "--apply")
    assert failed.exit_code == 5
    assert "the last offset is 1378, but the metadata of the segment says 99999" in failed.err
    assert not (disk / f"{TOPIC}-0").exists()
    assert not (disk / "replication-offset-checkpoint").exists()


def test_leader_epochs_that_the_batches_do_not_have_become_no_checkpoint(store, disk):
    """Manifest and index agree, so only the batches can tell."""
    for base in (0, 695):
        manifest = only_manifest(store, base)
        (epoch,) = json.loads(manifest.read_text())["remoteLogSegmentMetadata"]["segmentLeaderEpochs"]
        other = str((int(epoch) + 1) % 10)
        tell(store, base, segmentLeaderEpochs={other: base})
        indexes = manifest.with_suffix(".indexes")
        old, new = (f"0\n1\n{each} 0\n".encode() for each in (epoch, other))
        assert old in indexes.read_bytes()
        indexes.write_bytes(indexes.read_bytes().replace(old, new))
    failed = restore(store, disk, "--apply")
    assert failed.exit_code == 5
    assert "has leader epoch" in failed.err
    assert not (disk / f"{TOPIC}-0").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"startOffset":695', '"startOffset":Infinity'),
        lambda text: text.replace('"endOffset":', '"endOffset":1e999,"x":'),
        lambda _: '{"a":' * 100_000,
        lambda text: text.replace('"position":0', '"position":' + "9" * 5000),
        lambda text: text.replace('"brokerId":', '"brokerId":"²","x":'),
    ],
)
def test_a_manifest_that_nobody_sane_wrote_is_an_unusable_copy(store, disk, damage):
    path = only_manifest(store, 695)
    changed = damage(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    refused = restore(store, disk)
    assert refused.exit_code == 4
    assert "Traceback" not in refused.err
    assert "because 1 newer segment cannot be used" in refused.err
    assert restore(store, disk, "--until", "695").exit_code == 0


def test_a_manifest_of_5_gb_is_not_read(store, disk):
    with only_manifest(store, 695).open("r+b") as file:
        file.truncate(5 << 30)
    refused = restore(store, disk)
    assert refused.exit_code == 4
    assert "more than 1048576 bytes" in refused.err


def test_the_end_that_is_asked_for_cuts_at_a_batch_or_says_what_there_is(store, disk):
    beyond = restore(store, disk, "--until", str(END + 1))
    assert beyond.exit_code == 4
    assert f"--until {END}" in beyond.err
    ends = restore(store, disk, "--until", "700", "--apply")
    assert ends.exit_code == 0, ends.err
    assert ends.rows[0]["log_end_offset"] == 700
    assert (disk / f"{TOPIC}-0" / f"{700:020d}.log").exists()


def test_topics_made_anew_and_mixed_layouts_must_be_chosen(store, disk, tmp_path):
    again = shutil.copytree(ORIGINAL, tmp_path / "again" / f"{TOPIC}-0")
    (again / "partition.metadata").write_text("version: 0\ntopic_id: lZ6vvmajTWKDBUTV6SQAtQ")
    tier(again, store)
    refused = restore(store, disk)
    assert refused.exit_code == 2
    assert "--topic-id" in refused.err
    assert restore(store, disk, "--topic-id", "KzhyM4gAQz-9kd6uuQ6OKg").exit_code == 0
    tier(ORIGINAL, store, layout=LocalTieredStorageLayout())
    mixed = restore(store, disk, "--topic-id", "KzhyM4gAQz-9kd6uuQ6OKg")
    assert "--layout" in mixed.err
    words = ("--topic-id", "KzhyM4gAQz-9kd6uuQ6OKg", "--layout", "local-tiered-storage")
    assert restore(store, disk, *words).exit_code == 0


@pytest.mark.parametrize("change", ["gone", "another"])
def test_transaction_indexes_that_the_tier_lost_are_made_from_the_log(tmp_path, disk, change):
    store = DirectoryStore(tmp_path / "remote")
    tier(ORIGINAL, store, layout=LocalTieredStorageLayout())
    for path in store.root.rglob("*.txnindex"):
        path.unlink() if change == "gone" else path.write_bytes(path.read_bytes()[:34])
    done = restore(store, disk, "--cluster-id", CLUSTER, "--apply")
    assert len(done.rows[0]["doubts"]) == 2
    for base in (0, 695):
        name = f"{base:020d}.txnindex"
        assert (disk / f"{TOPIC}-0" / name).read_bytes() == (ORIGINAL / name).read_bytes()


def test_leader_epochs_that_cannot_be_read_name_the_copy_to_leave_out(store, disk):
    (path,) = store.root.rglob(f"{695:020d}-*.indexes")
    manifest = json.loads(only_manifest(store, 695).read_text())
    position = manifest["segmentIndexes"]["leaderEpoch"]["position"]
    data = bytearray(path.read_bytes())
    data[position] = ord("7")
    path.write_bytes(data)
    failed = restore(store, disk)
    assert failed.exit_code == 5
    (segment_id,) = (word for word in failed.err.split() if len(word) == 22 and word in path.name)
    assert restore(store, disk, "--without", segment_id).rows[0]["log_end_offset"] == 695
