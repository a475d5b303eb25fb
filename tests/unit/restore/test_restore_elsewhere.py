"""Where `tiersnap restore` goes: another cluster, a directory that lacks something, one that a broker runs on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.restoring import (
    CLUSTER,
    END,
    ORIGINAL,
    OTHER_CLUSTER,
    TOPIC,
    new_disk,
    restore,
)
from tests.reference.tiered import tier
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.unit


def test_what_is_not_there_is_said(store, disk, tmp_path):
    for topic in ("nothing", TOPIC[:-1]):
        assert_said(
            restore(store, disk, topic=topic), 2, f"no remote segment of {topic}\n", "give as --remote the location"
        )
    missing = restore(store, disk, "--partition", f"{TOPIC}-0", "--partition", f"{TOPIC}-3")
    assert_said(restore(store, disk, "--partition", "other-0"), 2, "more than one topic", "one topic at a time")
    assert_said(
        tiersnap("restore", "--remote", store.root, "--to", disk), 2, "no topic was named", "--partition orders-0"
    )
    assert_said(missing, 2, f"no remote segment of {TOPIC}, partition 3", "give as --remote the location")
    another = restore(store, disk, "--topic-id", "BBBBBBBBBBBBBBBBBBBBBQ")
    assert_said(another, 2, f"no remote segment of {TOPIC}", "give as --remote the location")
    nowhere = restore(store, tmp_path / "nowhere")
    assert nowhere.exit_code == 2
    (disk / "meta.properties").unlink()
    bare = restore(store, disk)
    assert bare.exit_code == 2
    assert f"cluster.id={CLUSTER}" in bare.err
    assert "directory.id=<the SAME" in bare.err
    (disk / "meta.properties").write_text("version=1\n")
    assert restore(store, disk).exit_code == 5


class TestAnotherCluster:
    """Segments of one cluster, a directory of another."""

    @pytest.fixture
    def disk(self, tmp_path) -> Path:
        return new_disk(tmp_path / "disk", OTHER_CLUSTER)

    def test_producer_fold_and_topic_id_have_to_be_chosen(self, store, disk):
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
        assert "silently drop the first records" in restore(store, disk).err
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
            assert "next producer id above 170, the largest" in done.err
        else:
            assert entries["producer_id"].tolist() == [170], "it holds the transaction that is open at the end"
            assert entries["last_sequence"].tolist() == [-1]
            assert "followers would compute producers from the copied log" in done.err
        assert "leader epochs up to" in done.err

    def test_an_unknown_source_is_asked_for_and_a_recorded_one_not_contradicted(self, store, disk, tmp_path):
        contradicted = restore(store, disk, "--cluster-id", OTHER_CLUSTER)
        assert contradicted.exit_code == 2
        assert "recorded" in contradicted.err
        unknown = DirectoryStore(tmp_path / "unknown")
        tier(ORIGINAL, unknown)
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
    for text in ("", "{}", '{"version":1,"clusterId":7}'):
        path.write_text(text)
        assert restore(store, disk).exit_code == 5


def test_the_empty_state_in_the_same_cluster_is_warned_of(store, disk):
    planned = restore(store, disk, "--producer-state", "empty")
    assert "write retries of old batches a second time" in planned.err


def test_a_running_broker_is_refused_and_a_plan_is_not(store, disk):
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


def test_a_directory_without_its_id_is_told_of(store, disk):
    assert "directory.id" not in restore(store, disk).err
    (disk / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
    assert "no leader until the broker's second start" in restore(store, disk).err
    (disk / "meta.properties").write_text(f"version=0\ncluster.id={CLUSTER}\nbroker.id=1\n")
    assert "directory.id" not in restore(store, disk).err
