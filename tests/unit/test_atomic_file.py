"""What a kill or a full disk at any moment leaves of a file: all of it under its name, or nothing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.reference.log_builder import data_batch, write_partition
from tiersnap.snapshot.atomic_file import cannot_write, staged, sync_directory, write_atomically
from tiersnap.snapshot.errors import TransientError, UsageError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.repair.files import in_place
from tiersnap.snapshot.repair.repair_action import PlannedSnapshot, RepairAction

pytestmark = pytest.mark.unit
DATA = b"all of it"


def test_a_folder_that_is_synced_is_closed_again(tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    for _ in range(3):
        sync_directory(tmp_path)
    assert set(Path("/proc/self/fd").iterdir()) <= before


def test_a_disk_that_is_full_before_the_first_byte_is_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(TransientError, match="No space left"):
        write_atomically(tmp_path / "file", DATA, replace=False)


def test_a_link_beside_it_gives_a_file_neither_owner_nor_mode(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UsageError, match="symbolic link"):
        write_atomically(tmp_path / "file", DATA, replace=False, like=tmp_path / "link")
    assert not staged(tmp_path / "file").exists()
    assert not (tmp_path / "file").exists()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the operating system, in order: what is made durable, and what gets a name."""
    seen: list[str] = []
    real_sync, real_link, real_rename = os.fsync, os.link, os.replace

    def sync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        seen.append("sync folder" if stat.S_ISDIR(status.st_mode) else f"sync {status.st_size} bytes")
        real_sync(descriptor)

    def link(source: Path, target: Path) -> None:
        seen.append(f"name {Path(target).name}")
        real_link(source, target)

    def rename(source: Path, target: Path) -> None:
        seen.append(f"name {Path(target).name}")
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "replace", rename)
    return seen


@pytest.mark.parametrize("replace", [False, True])
def test_bytes_are_durable_before_they_have_a_name_and_the_name_before_anybody_is_told(
    tmp_path: Path, calls: list[str], replace: bool
) -> None:
    assert write_atomically(tmp_path / "file", DATA, replace=replace)
    assert calls == [f"sync {len(DATA)} bytes", "name file", "sync folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == DATA


def test_a_file_that_is_there_wins_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    assert not write_atomically(path, DATA, replace=False)
    assert path.read_bytes() == b"before"
    assert write_atomically(path, DATA, replace=True)
    assert path.read_bytes() == DATA
    assert not staged(path).exists()


@pytest.mark.parametrize(
    ("call", "replace"),
    [("fsync", False), ("fsync", True), ("link", False), ("replace", True), ("open", False), ("open", True)],
)
@pytest.mark.parametrize(
    ("code", "error"),
    [(errno.ENOSPC, TransientError), (errno.EDQUOT, TransientError), (errno.EIO, UsageError)],
)
def test_nothing_is_left_beside_a_file_that_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool, call: str, code: int, error: type[Exception]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    if not replace:
        path.unlink()

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    # A folder is opened for its own fsync alone, once the file has its name.
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(error, match=os.strerror(code)):
        write_atomically(path, DATA, replace=replace)
    monkeypatch.undo()
    assert not staged(path).exists()
    expected = {"open": DATA}.get(call, b"before" if replace else None)
    assert (path.read_bytes() if path.exists() else None) == expected


def test_what_a_killed_process_left_is_thrown_away_and_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "file"
    elsewhere.write_bytes(b"not ours")
    staged(path).symlink_to(elsewhere)
    assert write_atomically(path, DATA, replace=False)
    assert (path.read_bytes(), elsewhere.read_bytes(), path.is_symlink()) == (DATA, b"not ours", False)


def test_owner_and_mode_are_those_of_the_neighbour(tmp_path: Path) -> None:
    like = tmp_path / "like"
    like.write_bytes(b"")
    like.chmod(0o640)
    write_atomically(tmp_path / "file", DATA, replace=False, like=like)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    segments = {base: [data_batch(base, 10, 1, 0, base)] for base in (0, 10, 20, 30)}
    write_partition(tmp_path, "orders", 0, segments)
    (found,) = open_log_dir(str(tmp_path)).partitions()
    yield found


def planned(offset: int, action: RepairAction = RepairAction.WRITE) -> PlannedSnapshot:
    return PlannedSnapshot(offset, action, SnapshotVerdict.MISSING, "", Provenance.COMPUTED, 0, 6)


def snapshots(partition: Partition) -> list[str]:
    return sorted(path.name for path in Path(partition.path).glob("*snapshot*"))


def test_repair_names_the_highest_first_and_syncs_the_folder_twice(partition: Partition, calls: list[str]) -> None:
    with in_place(partition) as write:
        for offset in (10, 20, 30):
            write(planned(offset), DATA)
        assert calls == []
    names = [snapshot_file.file_name(offset) for offset in (30, 20, 10)]
    highest, *others = (f"name {name}" for name in names)
    assert calls == [*[f"sync {len(DATA)} bytes"] * 3, highest, "sync folder", *others, "sync folder"]
    assert snapshots(partition) == sorted(names)


def _out_of_space(at: int) -> Callable[[Path, Path], None]:
    left, real = [at], os.link

    def link(source: Path, target: Path) -> None:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        real(source, target)

    return link


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_repair_that_fails_leaves_whole_files_and_nothing_that_was_staged(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    monkeypatch.setattr(os, "link", _out_of_space(done))
    with pytest.raises(TransientError), in_place(partition) as write:
        for offset in (10, 20, 30):
            write(planned(offset), DATA)
    assert snapshots(partition) == sorted(snapshot_file.file_name(offset) for offset in (30, 20, 10)[:done])


def test_a_repair_that_is_broken_off_while_it_computes_leaves_nothing_and_takes_away_what_a_killed_one_left(
    partition: Partition,
) -> None:
    left = Path(partition.path) / (snapshot_file.file_name(20) + ".tmp")
    left.write_bytes(b"half")
    with pytest.raises(KeyboardInterrupt), in_place(partition) as write:
        assert not left.exists()
        write(planned(10), DATA)
        raise KeyboardInterrupt
    assert snapshots(partition) == []


def test_a_read_only_mount_is_no_matter_of_who_runs_it() -> None:
    error = cannot_write(Path("/mnt/x"), OSError(errno.EROFS, "Read-only file system"))
    assert "mounted read-only" in error.hint
    assert "root" not in error.hint
    assert "as root" in cannot_write(Path("/mnt/x"), OSError(errno.EACCES, "Permission denied")).hint
