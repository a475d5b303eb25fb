"""A full disk, the symptom that brings people: what is free, how much must be freed, and what frees it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.small_disk import SmallDisk
from tests.reference.broker_lock import broker
from tests.reference.command import assert_said, tiersnap
from tests.reference.next_steps import lines_of
from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.pipeline.one_writer import LEASE_KEY, only_run
from tiersnap.remote_storage.restore.own_folder import OwnFolder
from tiersnap.remote_storage.restore.partition_folder import UNFINISHED
from tiersnap.snapshot.errors import NoSpaceError
from tiersnap.snapshot.log.disk import MountedDisk, deleted_bytes, disk_of, says_space, ways_to_free
from tiersnap.snapshot.units import human_bytes

pytestmark = pytest.mark.unit

CLUSTER = "8ocGbyB_RSCBc6V9xA_tOw"
META = f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n"


@pytest.fixture
def empty_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of its own."""
    small = SmallDisk(tmp_path / "disk", 1)
    if not small.is_small:
        small.close()
        pytest.skip("only who may mount gets a small disk")
    try:
        yield small
    finally:
        small.close()


@pytest.fixture
def disk(empty_disk: SmallDisk) -> SmallDisk:
    """A disk with two partitions that lack two snapshots each, filled to the last byte."""
    (empty_disk.folder / "meta.properties").write_text(META)
    for topic, topic_id in (("orders", "lZ6vvmajTWKDBUTV6SQAtQ"), ("payments", "5GXaOJXiRzOuReKRIUWzvw")):
        folder = write_small_log(empty_disk.folder, topic, topic_id=topic_id)
        for offset in (5, 10):
            file_of(folder, offset, ".snapshot").unlink()
    fill(empty_disk)
    return empty_disk


def fill(small: SmallDisk) -> None:
    with (small.folder / "filler").open("wb") as file:
        left = os.statvfs(small.folder)
        os.posix_fallocate(file.fileno(), 0, left.f_bavail * left.f_frsize)
    assert os.statvfs(small.folder).f_bavail == 0


@pytest.mark.parametrize("has_lease", [True, False])
def test_a_warehouse_on_a_full_disk_is_transient(empty_disk: SmallDisk, has_lease: bool) -> None:
    warehouse = empty_disk.folder / "warehouse"
    warehouse.mkdir()
    if has_lease:
        (warehouse / LEASE_KEY).touch()
    fill(empty_disk)
    with pytest.raises(NoSpaceError, match="No space left on device"), only_run(str(warehouse), "run"):
        pytest.fail("nothing can be written")


def test_a_full_store_is_transient_and_the_next_run_fills_it(empty_disk: SmallDisk, tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs")
    words = ("tier", tmp_path / "logs", "--remote", empty_disk.folder / "tier", "--apply")
    (empty_disk.folder / "tier").mkdir()
    fill(empty_disk)
    assert_said(tiersnap(*words), 3, "No space left on device", "free some space")
    empty_disk.empty()
    assert_said(tiersnap(*words), 0)


def test_repair_says_how_much_must_be_freed_when_the_disk_is_full(disk: SmallDisk) -> None:
    ran = tiersnap("repair", disk.folder, "--apply")
    assert_said(ran, 3, f"{disk.folder}: the snapshots need 16.0 KiB, and 0 B are free: make room for 16.0 KiB more")
    assert "4 snapshots were not written" in ran.err
    assert ran.err.count("cannot write") == 1, "once a disk, whatever number of partitions is on it"
    assert "nothing to write" not in ran.err
    assert "heap dumps" in ran.err, "a way to free it that deletes no record"
    assert not list(disk.folder.rglob("*.tmp"))
    disk.empty()
    assert_said(tiersnap("repair", disk.folder, "--apply"), 0, "4 snapshots are written")


def test_repair_writes_what_fits_and_says_so(disk: SmallDisk) -> None:
    with (disk.folder / "filler").open("r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) - 8192)
    ran = tiersnap("repair", disk.folder, "--apply")
    assert_said(ran, 3, "2 snapshots are written", "2 snapshots were not written", "make room for 8.0 KiB more")


def test_doctor_and_repair_say_the_same_of_free_space(disk: SmallDisk) -> None:
    found = json.loads(tiersnap("doctor", disk.folder).out)["result"]
    assert found["log_dirs"][0]["free_bytes"] == 0
    planned = tiersnap("repair", disk.folder)
    assert_said(planned, 0, "the snapshots need 16.0 KiB, and 0 B are free: make room for 16.0 KiB more")
    screen = tiersnap("doctor", disk.folder, output="table").out
    assert "0 B of" in screen
    steps = lines_of(found["next"])
    assert steps[0].startswith(
        f"{disk.folder}: the disk is full: free at least 16.0 KiB for 4 snapshots before the next steps"
    )
    assert not any("retention.ms" in step for step in steps), "no broker runs that would delete anything"
    repair = next(number for number, step in enumerate(steps) if "repair" in step and "--apply" in step)
    assert repair > 1
    disk.empty()
    assert "free at least" not in tiersnap("doctor", disk.folder, output="table").out, "the check of docs/runbook.md"


def test_doctor_frees_a_full_disk_by_unblock_before_it_deletes_records(disk: SmallDisk) -> None:
    """`unblock` writes nothing in the log directory; a lower retention deletes records."""
    (disk.folder / ".lock").touch()
    with broker(disk.folder):
        steps = json.loads(tiersnap("doctor", disk.folder).out)["result"]["next"]
    assert steps[0]["command"].startswith("tiersnap unblock ")
    assert steps[0]["note"].endswith("needs no disk space on this host")
    (retention,) = (number for number, step in enumerate(steps) if "retention.ms" in step["words"])
    assert retention == len(steps) - 1
    assert "DELETES RECORDS" in steps[retention]["words"]


@pytest.mark.parametrize("is_root", [True, False])
def test_free_space_is_what_this_user_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_root: bool) -> None:
    space = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: space)  # other processes write to this disk meanwhile
    monkeypatch.setattr(os, "geteuid", lambda: 0 if is_root else 1000)
    found = disk_of(tmp_path)
    assert found.free == space.f_bavail * space.f_frsize
    assert found.writable == (space.f_bfree if is_root else space.f_bavail) * space.f_frsize
    said = re.search(r", and ([^,]+) are free", says_space(4096, tmp_path))
    assert said is not None
    assert said[1].startswith(human_bytes(found.free))


EXT4 = MountedDisk("/data", "/dev/nvme1n1", "ext4", total=95 << 30, free=0, reserved=5 << 30, is_read_only=False)
XFS = MountedDisk("/data", "/dev/nvme1n1", "xfs", total=95 << 30, free=0, reserved=0, is_read_only=False)


def test_what_frees_a_disk_fastest_comes_first() -> None:
    ext4, xfs = list(ways_to_free(EXT4, 3 << 20)), list(ways_to_free(XFS, 0))
    assert ext4[0].startswith("tune2fs -m 0 /dev/nvme1n1")
    assert "5.0 GiB" in ext4[0]
    assert "3.0 MiB" in ext4[1]
    assert len(xfs) == len(ext4) - 2
    assert "retention" not in " ".join((*ext4, *xfs)), "each way keeps all records"


def lost_partition(disk: SmallDisk, remote: Path) -> list[str | Path]:
    """Tier a partition, lose its folder; returns the words that restore it to the disk, which is empty besides."""
    disk.empty()
    assert_said(tiersnap("tier", disk.folder, "--remote", remote, "--apply"), 0)
    shutil.rmtree(disk.folder / "orders-0")
    words = ("--topic", "orders", "--unpublished", "--cluster-id", CLUSTER, "--apply")
    return ["restore", "--remote", remote, "--to", disk.folder, *words]


def test_restore_keeps_no_hidden_reserve(disk: SmallDisk, tmp_path: Path) -> None:
    words = lost_partition(disk, tmp_path / "remote")
    assert os.statvfs(disk.folder).f_bavail * os.statvfs(disk.folder).f_frsize < 1 << 20
    fill(disk)
    ran = tiersnap(*words)
    assert ran.exit_code == 3, ran.err
    needs = re.search(r"the folders need (\S+ KiB), and 0 B are free: make room for \1 more", ran.err)
    assert needs is not None, ran.err
    disk.empty()
    assert_said(tiersnap(*words), 0)


def test_restore_counts_the_room_that_it_makes(disk: SmallDisk, tmp_path: Path) -> None:
    """An earlier restore of other segments left a folder, which is deleted first."""
    words = lost_partition(disk, tmp_path / "remote")
    prefix = f"{UNFINISHED}{hashlib.sha256(b'orders-0').hexdigest()[:16]}."
    with OwnFolder.made(disk.folder, prefix, "of other segments") as left:
        fill(disk)
        (disk.folder / "filler").rename(left.path / f"{0:020d}.log.part")
    assert_said(tiersnap(*words), 0)
    assert not left.path.exists()


def test_deleted_bytes_passes_by_what_the_broker_removes_meanwhile(tmp_path: Path) -> None:
    folders = [tmp_path / f"orders-{number}.0123-delete" for number in (0, 1)]
    for folder in (*folders, tmp_path / "orders-2"):
        folder.mkdir()
        (folder / "0.log.deleted").write_bytes(b"12345")
    (folders[0] / "link").symlink_to(folders[0] / "0.log.deleted")
    assert deleted_bytes(tmp_path) == 15

    def remove(event: str, args: tuple) -> None:
        if event == "os.scandir" and folders and str(args[0]) in map(str, folders):
            removed = [folders.pop() for _ in list(folders)]
            for each in removed:
                shutil.rmtree(each)

    sys.addaudithook(remove)
    assert deleted_bytes(tmp_path) == 5
