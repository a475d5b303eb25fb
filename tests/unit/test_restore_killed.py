"""`restore` and `install` killed at every step that changes the disk, then run again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.kill_steps import content, every_kill
from tests.reference.stored_snapshots import put_snapshot
from tests.reference.tiered import tier
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.snapshot_source import TrustedSnapshot
from tiersnap.remote_storage.upload.stored_snapshots import put_manifest
from tiersnap.snapshot.formats.checkpoints import parse_offsets
from tiersnap.snapshot.gate.trusted import Provenance

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data"
TV2 = DATA / "kafka-4.1.1/logs/tv2-0"
LEDGER = DATA / "ledger-2.7.2"
CLUSTER = "EArE95XTQEqfBLWnpGnLIQ"


def test_a_restore_killed_anywhere_leaves_the_whole_folder_or_none_and_goes_on(tmp_path):
    store = DirectoryStore(tmp_path / "remote")
    tier(TV2, store)
    disk = tmp_path / "disk"
    words = ("restore", "--remote", store.root, "--to", disk, "--topic", "tv2", "--cluster-id", CLUSTER, "--apply")

    def new_disk() -> tuple[str | Path, ...]:
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir()
        (disk / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\n")
        (disk / "replication-offset-checkpoint").write_text("0\n1\nother 0 5\n")
        return words

    new_disk()
    assert tiersnap(*words).exit_code == 0
    expected = content(disk)
    unfinished = 0
    for step in every_kill(new_disk):
        found = content(disk)
        if (disk / "tv2-0").exists():
            assert {path for path in found if path.startswith("tv2-0/")} - {"tv2-0/tiersnap-restore.json"} == {
                path for path in expected if path.startswith("tv2-0/")
            }, step
        for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            if name in found:
                parse_offsets(found[name].decode(), name=name)
        assert b"other 0 5" in found["replication-offset-checkpoint"]
        unfinished += any(path.name.startswith("tiersnap-restore.") for path in disk.iterdir())
        again = tiersnap(*words)
        assert again.exit_code == 0, (step, again.err)
        assert content(disk) == expected, step
    assert step > 30
    assert unfinished > 25


def test_an_install_killed_anywhere_leaves_whole_files_and_goes_on(tmp_path):
    store = DirectoryStore(tmp_path / "remote")
    at = TopicIdPartition("ledger", None, 0)
    records = []
    for path in (LEDGER / "expected/ledger-0").iterdir():
        snapshot = TrustedSnapshot(int(path.stem), path.read_bytes(), Provenance.COMPUTED)
        records.append(put_snapshot(store, at, snapshot, run_id="r", fold_start_offset=0)[0])
    put_manifest(store, at, "r", records)
    disk = tmp_path / "disk"
    words = ("install", "--remote", store.root, "--to", disk, "--topic", "ledger", "--apply")

    def copied() -> tuple[str | Path, ...]:
        shutil.rmtree(disk, ignore_errors=True)
        shutil.copytree(LEDGER / "logs/ledger-0", disk / "ledger-0")
        shutil.copy(LEDGER / "logs/replication-offset-checkpoint", disk)
        return words

    copied()
    before = content(disk)
    assert tiersnap(*words).exit_code == 0
    expected = content(disk)
    assert len(expected) == len(before) + 4
    for step in every_kill(copied):
        for path, data in content(disk).items():
            if path.endswith(".snapshot"):
                assert expected[path] == data, (step, path)
        again = tiersnap(*words)
        assert again.exit_code == 0, (step, again.err)
        assert content(disk) == expected, step
    assert step > 10
