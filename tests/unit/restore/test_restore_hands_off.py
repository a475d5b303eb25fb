"""Restore as root in a directory of somebody else who would like root to write, empty or give away other things."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.reference.privileges import run_obeying_modes
from tests.reference.restoring import TOPIC, only_manifest, restore
from tiersnap.remote_storage.restore.own_folder import MARKER, OwnFolder, plan_of, remove_own

pytestmark = pytest.mark.unit


@pytest.fixture
def prefix(store, disk) -> str:
    """How names of this partition's unfinished folders begin, found out by a restore that fails."""
    log = only_manifest(store, 695).with_suffix(".log")
    good = log.read_bytes()
    log.write_bytes(good[:-1] + b"\x77")
    assert restore(store, disk, "--apply").exit_code == 5
    (left,) = disk.glob("tiersnap-restore.*")
    log.write_bytes(good)
    shutil.rmtree(left)
    return left.name.rpartition(".")[0] + "."


def test_the_name_of_the_unfinished_folder_cannot_be_foretold(store, disk, prefix):
    names = set()
    log = only_manifest(store, 695).with_suffix(".log")
    log.write_bytes(log.read_bytes()[:-1] + b"\x77")
    for _ in range(2):
        restore(store, disk, "--apply")
        (left,) = disk.glob(f"{prefix}*")
        names.add(left.name)
        shutil.rmtree(left)
    assert len(names) == 2


@pytest.mark.parametrize("how", ["a link to a folder", "a folder with other things", "a file", "a link to nothing"])
def test_what_has_such_a_name_and_is_not_ours_is_refused_and_left_alone(store, disk, prefix, tmp_path, how):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("x")
    planted = disk / f"{prefix}{'0' * 16}"
    if how == "a link to a folder":
        planted.symlink_to(theirs)
    elif how == "a link to nothing":
        planted.symlink_to(tmp_path / "nothing")
    elif how == "a file":
        planted.write_text("x")
    else:
        shutil.copytree(theirs, planted)
    for words in ((), ("--apply",)):
        refused = restore(store, disk, *words)
        assert refused.exit_code == 4, refused.err
        assert planted.name in refused.err
    assert (theirs / "thesis.tex").read_text() == "x"
    assert os.path.lexists(planted)
    assert not (tmp_path / "nothing").exists()
    assert not (disk / f"{TOPIC}-0").exists()


def test_links_in_the_folder_that_is_gone_on_with_are_not_written_through(store, disk, prefix, tmp_path):
    log = only_manifest(store, 695).with_suffix(".log")
    good = log.read_bytes()
    log.write_bytes(good[:-1] + b"\x77")
    restore(store, disk, "--apply")
    log.write_bytes(good)
    (folder,) = disk.glob(f"{prefix}*")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    mode = secret.stat().st_mode
    for name in (f"{695:020d}.log.part", f"{695:020d}.index", "partition.metadata", "leader-epoch-checkpoint"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(secret)
    done = restore(store, disk, "--apply")
    assert done.exit_code == 0, done.err
    assert secret.read_text() == "secret"
    assert secret.stat().st_mode == mode
    found = disk / f"{TOPIC}-0"
    assert not any(path.is_symlink() for path in found.iterdir())
    assert MARKER not in {path.name for path in found.iterdir()}


def test_a_link_to_nothing_in_the_place_of_the_folder_is_refused_before_anything_is_fetched(store, disk):
    (disk / f"{TOPIC}-0").symlink_to(disk / "nothing")
    for words in ((), ("--apply",)):
        refused = restore(store, disk, *words)
        assert refused.exit_code == 4, refused.err
        assert f"{TOPIC}-0 exists" in refused.err
    assert not list(disk.glob("tiersnap-restore.*"))


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_a_damaged_checkpoint_of_the_disk_is_said_before_anything_is_fetched(store, disk, name):
    (disk / name).write_text("0\n2\nother 0 5\n")
    for words in ((), ("--apply",)):
        refused = restore(store, disk, *words)
        assert refused.exit_code == 5, refused.err
        assert f"{name}: the file has 1 entry, but line 2 announces 2" in refused.err
        assert "move the file away" in refused.err
    assert not list(disk.glob("tiersnap-restore.*"))


@pytest.mark.parametrize("name", ["meta.properties", "log-start-offset-checkpoint"])
def test_a_file_of_the_disk_that_may_not_be_read_is_not_to_be_moved_away(store, disk, name):
    (disk / name).touch()
    (disk / name).chmod(0)
    words = ["restore", "--remote", str(store.root), "--to", str(disk), "--topic", TOPIC, "--unpublished"]
    refused = run_obeying_modes("-m", "tests.reference.tiersnap", *words)
    assert (refused.returncode, f"cannot read {disk / name}: Permission denied" in refused.stderr) == (2, True)
    assert "move the file away" not in refused.stderr


def test_a_folder_is_ours_by_its_marker_alone(tmp_path):
    ours = OwnFolder.made(tmp_path, "x.", "the plan")
    ours.close()
    assert plan_of(ours.path) == "the plan"
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").touch()
    (tmp_path / "link").symlink_to(ours.path)
    assert plan_of(other) is None
    assert plan_of(tmp_path / "link") is None
    for path in (other, tmp_path / "link", ours.path):
        remove_own(path)
    assert (other / "file").exists()
    assert not ours.path.exists()


def test_a_file_is_made_anew_and_nothing_is_left_of_one_that_failed(tmp_path):
    target = tmp_path / "target"
    target.write_text("x")
    folder: Path = tmp_path / "folder"
    folder.mkdir()
    (folder / "name").symlink_to(target)
    with OwnFolder(folder) as own:
        with own.new_file("name") as file:
            file.write(b"new")
        assert own.read("name") == b"new"
        with pytest.raises(ZeroDivisionError), own.new_file("other"):
            _ = 1 / 0
        assert own.names() == ["name"]
    assert target.read_text() == "x"
