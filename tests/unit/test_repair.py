"""`tiersnap repair`: what it plans, writes and leaves alone, and what it says where it cannot."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.privileges import run_obeying_modes
from tests.reference.small_log import BASES, LOG_END, file_of, tree, write_small_log
from tests.reference.untouched import as_written
from tiersnap.snapshot.atomic_file import staged
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.repair.files import in_place
from tiersnap.snapshot.repair.repair_action import PlannedSnapshot, RepairAction
from tiersnap.snapshot.repair.repair_plan import PlanOptions, highest_allowed
from tiersnap.snapshot.replay.expiry import Expiry

pytestmark = pytest.mark.unit

WITHOUT_PRODUCERS = bytes.fromhex("000148674bc700000000")
KEEP_ALL = ("--expiration", "none")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "log dir"
    folder.mkdir()
    return folder


@pytest.fixture
def bare(log_dir: Path) -> Path:
    """The folder of a partition without snapshots."""
    return write_small_log(log_dir, with_snapshots=False)


def offsets(folder: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in folder.glob("*.snapshot"))


def actions(ran) -> dict[int, str]:
    return {row["offset"]: row["action"] for row in ran.rows}


def test_a_plan_names_every_snapshot_and_writes_nothing(log_dir, bare):
    before = tree(log_dir)

    ran = tiersnap("repair", log_dir)

    assert_said(ran, 0, "3 snapshots to write", "nothing was written", "stop the broker")
    assert actions(ran) == {5: "WRITE", 10: "WRITE", 15: "WRITE"}
    assert {row["provenance"] for row in ran.rows} == {"COMPUTED"}
    assert tree(log_dir) == before
    assert not (log_dir / ".lock").exists()


def test_what_is_applied_says_what_the_log_says(log_dir, bare):
    assert_said(tiersnap("repair", log_dir, "--apply"), 0, "3 snapshots are written")

    assert offsets(bare) == [5, 10, 15]
    for offset in offsets(bare):
        (entry,) = snapshot_file.decode(file_of(bare, offset, ".snapshot").read_bytes()).tolist()
        assert entry[:5] == (7, 0, offset - 1, offset - 1, 4)
        assert entry[6:] == (-1, -1)


def test_a_second_run_writes_nothing(log_dir, bare):
    tiersnap("repair", log_dir, "--apply")
    before = as_written(bare.iterdir())

    ran = tiersnap("repair", log_dir, "--apply")

    assert_said(ran, 0, "nothing to write: 3 existing snapshots are right")
    assert ran.rows == []
    assert as_written(bare.iterdir()) == before


def test_producers_idle_for_the_expiration_are_left_out(log_dir, bare):
    assert {row["producers"] for row in tiersnap("repair", log_dir).rows} == {1}
    late = ("--as-of", "2998-01-01", "--now", "2999-01-01")
    assert {row["producers"] for row in tiersnap("repair", log_dir, *late).rows} == {0}
    assert {row["producers"] for row in tiersnap("repair", log_dir, *late, *KEEP_ALL).rows} == {1}


def test_a_number_without_a_unit_is_asked_for_one(log_dir, bare):
    assert_said(tiersnap("repair", log_dir, "--expiration", "7"), 2, "'7' needs a unit; use 7d, 12h")


@pytest.mark.parametrize(
    "words",
    [
        ("--apply", "--out", "elsewhere"),
        ("--all",),
        ("--apply", "--all"),
        ("--as-of", "yesterday"),
        ("--as-of", "2999-01-01"),
        ("--expiration", "a week"),
        ("--expiration", "7"),
        ("--expiration", "12h"),
        ("--producer-expiration", "none"),
        ("--producer-expiration", "8d"),
        ("--no-such-option",),
    ],
)
def test_words_that_make_no_sense_are_a_usage_error(log_dir, bare, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    assert_said(tiersnap("repair", log_dir, *words), 2)
    assert tree(tmp_path) == before


class TestReplacing:
    @pytest.mark.parametrize("data", [b"", b"\0\1", b"\0\2" + bytes(8), WITHOUT_PRODUCERS])
    @pytest.mark.parametrize("offset", [10, 15, LOG_END])
    def test_a_wrong_file_stays_until_told(self, log_dir, data, offset):
        folder = write_small_log(log_dir)
        wrong = file_of(folder, offset, ".snapshot")
        wrong.write_bytes(data)

        ran = tiersnap("repair", log_dir, "--apply")

        assert_said(ran, 4 if data == WITHOUT_PRODUCERS else 5, "--replace")
        assert actions(ran) == {offset: "NEEDS_REPLACE"}
        assert wrong.read_bytes() == data
        assert_said(tiersnap("repair", log_dir, "--replace", "--apply"), 0)
        (entry,) = snapshot_file.decode(wrong.read_bytes()).tolist()
        assert entry[:4] == (7, 0, offset - 1, offset - 1)
        assert_said(tiersnap("scan", log_dir), 0)

    def test_a_right_file_is_never_replaced(self, log_dir):
        folder = write_small_log(log_dir)
        before = as_written(folder.iterdir())
        assert_said(tiersnap("repair", log_dir, "--replace", "--above-newest", "--apply"), 0)
        assert as_written(folder.iterdir()) == before

    def test_what_the_broker_deletes_at_its_start_is_left_to_it(self, log_dir):
        folder = write_small_log(log_dir)
        for offset in (3, 12, 17):  # below the newest that is not aligned, which is 18
            file_of(folder, offset, ".snapshot").write_bytes(WITHOUT_PRODUCERS)
        file_of(folder, 18, ".snapshot").write_bytes(WITHOUT_PRODUCERS)

        ran = tiersnap("repair", log_dir, "--replace", "--apply")

        assert actions(ran) == {3: "STRAY", 12: "STRAY", 17: "STRAY", 18: "REPLACE"}
        assert_said(ran, 0, "3 snapshots are STRAY: ", "the broker deletes them at its next start")
        assert file_of(folder, 12, ".snapshot").read_bytes() == WITHOUT_PRODUCERS

    def test_a_lone_file_between_two_segments_is_deleted_by_the_broker_too(self, log_dir):
        folder = write_small_log(log_dir)
        file_of(folder, 12, ".snapshot").write_bytes(WITHOUT_PRODUCERS)
        assert actions(tiersnap("repair", log_dir, "--replace")) == {12: "STRAY"}


class TestLimits:
    def test_a_newest_file_that_is_gone_when_it_is_read_is_no_limit(self, log_dir):
        write_small_log(log_dir)
        (partition,) = open_log_dir(str(log_dir)).partitions()
        kept = {offset: Path(file.path).read_bytes() for offset, file in partition.snapshots.items()}
        options = PlanOptions(Expiry(None, 0))
        assert highest_allowed(partition, options, kept.get) == max(kept)
        kept.pop(max(kept))
        assert highest_allowed(partition, options, kept.get) == max(kept)

    @pytest.mark.parametrize("producers", [0, 1, 3])
    def test_the_size_of_a_snapshot_follows_from_its_producers(self, producers):
        entries = np.zeros(producers, ENTRY_DTYPE)
        entries["producer_id"] = range(producers)
        assert snapshot_file.size_of(producers) == len(snapshot_file.encode(entries))

    def test_nothing_is_written_above_the_newest_unless_told(self, log_dir):
        folder = write_small_log(log_dir)
        for offset in (10, 15):
            file_of(folder, offset, ".snapshot").unlink()

        ran = tiersnap("repair", log_dir, "--apply")

        assert_said(ran, 4, "--above-newest")
        assert actions(ran) == {10: "ABOVE_NEWEST", 15: "ABOVE_NEWEST"}
        assert offsets(folder) == [5]
        assert_said(tiersnap("repair", log_dir, "--above-newest", "--apply"), 0)
        assert offsets(folder) == [5, 10, 15]

    def test_a_newest_file_that_does_not_decode_is_no_limit(self, log_dir):
        folder = write_small_log(log_dir)
        for offset in (10, 15):
            file_of(folder, offset, ".snapshot").unlink()
        file_of(folder, LOG_END, ".snapshot").write_bytes(b"")

        assert actions(tiersnap("repair", log_dir)) == {
            10: "ABOVE_NEWEST",
            15: "ABOVE_NEWEST",
            LOG_END: "NEEDS_REPLACE",
        }
        assert actions(tiersnap("repair", log_dir, "--replace")) == {10: "WRITE", 15: "WRITE", LOG_END: "REPLACE"}

    def test_one_at_the_log_start_is_no_limit(self, log_dir):
        folder = write_small_log(log_dir, with_snapshots=False, log_start_offset=5)
        file_of(folder, 5, ".snapshot").write_bytes(WITHOUT_PRODUCERS)

        assert actions(tiersnap("repair", log_dir)) == {10: "WRITE", 15: "WRITE"}

    def test_a_lost_index_is_to_be_mended_first(self, log_dir, bare):
        file_of(bare, 5, ".index").unlink()

        ran = tiersnap("repair", log_dir, "--apply")

        assert_said(ran, 4, "segment 5 has no .index", "start the broker once, stop it, then repair")
        assert "next:" not in ran.err

    def test_damage_in_the_log_ends_it(self, log_dir, bare):
        segment = file_of(bare, 5, ".log")
        segment.write_bytes(segment.read_bytes()[:-1])

        ran = tiersnap("repair", log_dir, "--apply")

        assert_said(ran, 5, f"TRUNCATED_SEGMENT: {segment}")
        assert offsets(bare) == [5]


class TestLeftAlone:
    def test_compacted_topics(self, log_dir):
        cleaned = write_small_log(log_dir, "cleaned", with_snapshots=False)
        internal = write_small_log(log_dir, "__consumer_offsets", with_snapshots=False)
        (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\ncleaned 0 15\n")
        before = tree(log_dir)

        ran = tiersnap("repair", log_dir, "--replace", "--above-newest", "--apply")

        assert_said(ran, 0, "nothing to write")
        assert {row["action"] for row in ran.rows} == {"NEVER_TIERED"}
        assert f"{len(ran.rows)} snapshots are NEVER_TIERED: " in ran.err
        assert tree(log_dir) == before
        assert (offsets(cleaned), offsets(internal)) == ([], [])

    def test_folders_that_are_no_live_partition(self, log_dir, bare):
        for state in ("delete", "stray", "future"):
            shutil.copytree(bare, log_dir / f"orders-0.{'0123456789abcdef' * 2}-{state}")
        shutil.copytree(bare, log_dir / "orders-0.bak")

        ran = tiersnap("repair", log_dir, "--apply")

        assert_said(ran, 5, "-delete (delete)", "-stray (stray)", "-future (future)", "orders-0.bak (unknown)")
        assert "no broker starts while a folder of this name is in its log directory" in ran.err
        assert {path.parent.name for path in log_dir.rglob("*.snapshot")} == {"orders-0"}

    def test_topics_that_were_not_named(self, log_dir, bare):
        other = write_small_log(log_dir, "orders.eu", with_snapshots=False)
        assert_said(tiersnap("repair", log_dir, "--topic", r"orders\.eu", "--apply"), 0)
        assert (offsets(bare), offsets(other)) == ([], [5, 10, 15])


class TestElsewhere:
    def test_the_log_directory_stays_as_it_is(self, log_dir, bare, tmp_path):
        before = tree(log_dir)

        assert_said(tiersnap("repair", log_dir, "--out", tmp_path / "a/b"), 0)

        assert sorted(tree(tmp_path / "a/b")) == [f"orders-0/{offset:020d}.snapshot" for offset in (5, 10, 15)]
        assert tree(log_dir) == before
        assert not (log_dir / ".lock").exists()

    def test_all_writes_every_boundary_and_the_log_end(self, log_dir, tmp_path):
        folder = write_small_log(log_dir)
        shutil.copytree(folder, log_dir / "__consumer_offsets-0")

        assert_said(tiersnap("repair", log_dir, "--all", "--out", tmp_path / "out"), 0)

        assert offsets(tmp_path / "out/orders-0") == [5, 10, 15, LOG_END]
        assert offsets(tmp_path / "out/__consumer_offsets-0") == [5, 10, 15, LOG_END]

    def test_a_second_run_writes_nothing_and_another_content_nothing_either(self, log_dir, bare, tmp_path):
        out = tmp_path / "out"
        tiersnap("repair", log_dir, "--out", out)
        before = as_written(out.rglob("*"))

        killed = out / "orders-0" / f"{10:020d}.snapshot"
        staged(killed).write_bytes(b"half of")
        assert_said(tiersnap("repair", log_dir, "--out", out), 0)
        assert not staged(killed).exists()
        late = ("--as-of", "2998-01-01", "--now", "2999-01-01")
        ran = tiersnap("repair", log_dir, "--out", out, *late)

        assert_said(ran, 4, "the file exists with other content", "--replace")
        assert as_written(out.rglob("*")) == before
        assert_said(tiersnap("repair", log_dir, "--out", out, *late, "--replace"), 0)
        assert set(tree(out).values()) == {WITHOUT_PRODUCERS}

    def test_a_folder_that_cannot_be_made_is_a_clear_error(self, log_dir, bare, tmp_path):
        (tmp_path / "file").write_text("")
        assert_said(tiersnap("repair", log_dir, "--out", tmp_path / "file/below"), 2, "cannot write", "Not a directory")


class TestRunningBroker:
    def test_a_directory_whose_lock_is_held_is_read_and_not_written(self, log_dir, bare, tmp_path):
        (log_dir / ".lock").touch()
        hold = f"import fcntl, sys; f = open({str(log_dir / '.lock')!r}, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX)"
        broker = subprocess.Popen(
            [sys.executable, "-c", f"{hold}; print('held', flush=True); sys.stdin.read()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with broker:
            assert broker.stdout.readline() == b"held\n"
            before = tree(log_dir)
            ran = tiersnap("repair", log_dir, "--apply")
            assert_said(ran, 2, "a broker is running", "stop the broker first")
            assert [error["type"] for error in json.loads(ran.out)["errors"]] == ["LogDirInUseError"]
            assert tree(log_dir) == before
            assert_said(tiersnap("scan", log_dir), 4)
            assert_said(tiersnap("repair", log_dir), 0)
            assert_said(tiersnap("repair", log_dir, "--out", tmp_path / "out"), 0)
            broker.stdin.close()
        assert_said(tiersnap("repair", log_dir, "--apply"), 0)

    def test_no_broker_can_take_the_lock_meanwhile(self, log_dir):
        take = f"import fcntl; fcntl.lockf(open({str(log_dir / '.lock')!r}, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        with locked(log_dir):
            assert b"BlockingIOError" in subprocess.run([sys.executable, "-c", take], capture_output=True).stderr
        assert subprocess.run([sys.executable, "-c", take], capture_output=True).returncode == 0


def test_a_transaction_index_that_is_none_makes_a_broker_undo_the_repair(log_dir, bare):
    """TransactionIndex.sanityCheck: an entry below the base offset; what is behind the last whole entry is not read."""
    file_of(bare, 5, ".txnindex").write_bytes(bytes(34) + b"rest")
    assert_said(
        tiersnap("repair", log_dir),
        4,
        "segment 5 has a wrong .txnindex",
        "before the start, replace this .txnindex with --replace",
    )
    replaced = tiersnap("repair", log_dir, "--replace")
    assert_said(replaced, 0)
    assert "that is none" not in replaced.err
    file_of(bare, 5, ".txnindex").write_bytes(b"rest")
    told = tiersnap("repair", log_dir)
    assert_said(told, 4, "1 index, checkpoint or metadata file: wrong")
    assert "that is none" not in told.err


def test_what_stops_one_partition_stops_no_other_and_what_was_written_is_told(log_dir, bare):
    other = shutil.copytree(bare, log_dir / "orders-1")
    file_of(bare, 5, ".snapshot").mkdir()
    ran = tiersnap("repair", log_dir, "--apply")
    assert_said(ran, 4, "exists, but is not a file")
    assert {row["partition"] for row in ran.rows} == {"orders-1"}
    assert file_of(other, 5, ".snapshot").is_file()
    assert "start the broker" not in ran.err


def test_repair_passes_by_a_folder_without_a_segment(log_dir, bare):
    (log_dir / "made-0").mkdir()
    assert_said(tiersnap("repair", log_dir, "--apply"), 0, "3 snapshots are written")


class TestFiles:
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_owner_and_mode_are_those_of_the_log(self, log_dir, bare):
        file_of(bare, 10, ".snapshot").write_bytes(WITHOUT_PRODUCERS)
        for path in (log_dir, bare, *bare.iterdir()):
            os.chown(path, 12345, 23456)
        file_of(bare, BASES[0], ".log").chmod(0o640)

        assert_said(tiersnap("repair", log_dir, "--replace", "--above-newest", "--apply"), 0)

        for offset in (5, 10, 15):
            found = file_of(bare, offset, ".snapshot").stat()
            assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (12345, 23456, 0o640)
        lock = (log_dir / ".lock").stat()
        assert (lock.st_uid, lock.st_gid) == (12345, 23456), "or the broker could not take it"

    @pytest.mark.parametrize("left", [True, False], ids=["after a killed run", "at first"])
    def test_who_may_not_write_there_is_told(self, log_dir, bare, left):
        if left:
            (bare / f"{5:020d}.snapshot.tmp").write_bytes(b"half")
        bare.chmod(0o555)
        try:
            done = run_obeying_modes("-m", "tests.reference.tiersnap", "repair", str(log_dir), "--apply")
        finally:
            bare.chmod(0o755)
        assert done.returncode == 2
        assert re.search(r"cannot write .*: Permission denied\n  run the same command as the user", done.stderr)
        assert "Traceback" not in done.stderr
        assert offsets(bare) == []

    def test_who_may_not_take_the_lock_is_told(self, log_dir, bare):
        (log_dir / ".lock").touch()
        (log_dir / ".lock").chmod(0o444)
        done = run_obeying_modes("-m", "tests.reference.tiersnap", "repair", str(log_dir), "--apply")
        assert done.returncode == 2
        assert f"cannot write {log_dir / '.lock'}: Permission denied" in done.stderr

    def test_a_file_that_cannot_be_written_whole_is_not_there_at_all(self, log_dir, bare):
        """The process may write 20 bytes a file: less than a snapshot needs."""
        limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)); "
        main = f"from tiersnap.jobs.main import main; main(['repair', {str(log_dir)!r}, '--apply'])"
        done = run_obeying_modes("-c", limited + main)
        assert done.returncode == 2
        assert re.search(r"cannot write .*\.snapshot: File too large", done.stderr)
        assert sorted(path.suffix for path in bare.iterdir() if "snapshot" in path.name) == []

    def test_what_a_killed_run_left_is_thrown_away(self, log_dir, bare):
        (bare / f"{5:020d}.snapshot.tmp").write_bytes(b"half")
        tiersnap("repair", log_dir, "--apply")
        (bare / f"{10:020d}.snapshot.tmp").write_bytes(b"half, and its snapshot is there")

        assert_said(tiersnap("repair", log_dir, "--apply"), 0)

        assert list(bare.glob("*.tmp")) == []

    def test_a_link_in_the_way_is_not_followed(self, log_dir, bare, tmp_path):
        (tmp_path / "precious").write_text("precious")
        (bare / f"{5:020d}.snapshot.tmp").symlink_to(tmp_path / "precious")

        assert_said(tiersnap("repair", log_dir, "--apply"), 0)

        assert (tmp_path / "precious").read_text() == "precious"
        assert not file_of(bare, 5, ".snapshot").is_symlink()

    def test_a_folder_in_place_of_a_snapshot_is_a_clear_error(self, log_dir, bare):
        file_of(bare, 5, ".snapshot").mkdir()
        assert_said(tiersnap("repair", log_dir, "--apply"), 4, "exists, but is not a file", "move it away")


class TestLinkedFolder:
    """Partitions are laid to other disks by links; root follows none, since the broker's user may have laid it."""

    @pytest.fixture
    def target(self, log_dir, bare):
        moved = log_dir.parent / "elsewhere"
        bare.rename(moved)
        bare.symlink_to(moved)
        return moved

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
    def test_root_writes_through_no_link_that_another_user_may_have_laid(self, log_dir, target):
        os.chown(log_dir, 1234, 1234)
        os.chown(target, 1234, 1234)
        before = tree(target)
        ran = tiersnap("repair", log_dir, "--apply")
        assert_said(ran, 2, "a symbolic link that another user may have made", "sudo -u '#1234' tiersnap repair ")
        assert tree(target) == before
        assert_said(tiersnap("repair", log_dir), 0, "3 snapshots to write")

    @pytest.mark.skipif(os.geteuid() != 0, reason="it is about root")
    def test_root_writes_through_a_link_that_root_alone_may_have_laid(self, log_dir, target):
        assert_said(tiersnap("repair", log_dir, "--apply"), 0)
        assert offsets(target) == [5, 10, 15]

    def test_another_user_writes_through_it_as_the_broker_does(self, log_dir, target, monkeypatch):
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setattr(os, "fchown", lambda *_: None)
        assert_said(tiersnap("repair", log_dir, "--apply"), 0)
        assert offsets(target) == [5, 10, 15]

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the folder is looked at once")
    def test_a_link_that_takes_the_place_of_the_folder_meanwhile_is_not_followed(self, log_dir, bare, monkeypatch):
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        (partition,) = open_log_dir(str(log_dir)).partitions()
        (log_dir.parent / "trap").mkdir()
        planned = PlannedSnapshot(10, RepairAction.WRITE, SnapshotVerdict.MISSING, "", Provenance.COMPUTED, 0, 6)
        with in_place(partition) as write:
            bare.rename(log_dir.parent / "moved")
            bare.symlink_to(log_dir.parent / "trap")
            (log_dir.parent / "trap" / f"{0:020d}.log").touch()
            write(planned, WITHOUT_PRODUCERS)
        assert offsets(log_dir.parent / "moved") == [10]
        assert offsets(log_dir.parent / "trap") == []
