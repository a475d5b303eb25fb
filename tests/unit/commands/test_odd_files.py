"""What is no file, or no sane file, where a broker has one: a finding or an error for that one thing, and no more."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from tests.reference.command import tiersnap
from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.main import run
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.formats import checkpoints, meta_properties
from tiersnap.snapshot.log.arrow_file_system import ArrowFileSystem
from tiersnap.snapshot.log.file_system import LOCAL, read_bounded
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.regular_file import FileTooLargeError, NotRegularFileError, read_regular

pytestmark = pytest.mark.unit

CHECKPOINTS = (
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def zeros_without_end(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def link_to_a_secret(path: Path) -> None:
    secret = path.parent.parent / f"secret of {path.name}"
    secret.write_text("0\n0\n")
    path.symlink_to(secret)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(5 << 30)


ODD = (fifo, zeros_without_end, folder, link_to_a_secret, huge)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_small_log(tmp_path / "logs")
    return tmp_path / "logs"


def put(path: Path, odd: Callable[[Path], None]) -> None:
    path.unlink(missing_ok=True)
    odd(path)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_an_odd_offset_checkpoint_is_a_finding_and_all_partitions_are_listed(
    log_dir: Path, name: str, odd: Callable[[Path], None]
) -> None:
    put(log_dir / name, odd)
    opened = open_log_dir(str(log_dir))
    assert [(finding.finding_kind, Path(finding.path).name) for finding in opened.findings] == [
        (FindingKind.UNREADABLE_FILE, name)
    ]
    assert any(partition.segments for partition in opened.partitions())


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_an_odd_text_file_of_a_partition_is_a_finding_of_that_partition(
    log_dir: Path, name: str, odd: Callable[[Path], None]
) -> None:
    put(log_dir / "orders-0" / name, odd)
    found = {each.name: each for each in open_log_dir(str(log_dir)).partitions()}
    assert [(finding.finding_kind, Path(finding.path).name) for finding in found["orders-0"].findings] == [
        (FindingKind.UNREADABLE_FILE, name)
    ]
    assert not any(each.findings for each in found.values() if each.name != "orders-0")


@pytest.mark.parametrize("odd", [fifo, zeros_without_end, folder, link_to_a_secret])
@pytest.mark.parametrize("suffix", [".log", ".snapshot", ".index", ".timeindex"])
def test_scan_names_an_odd_file_of_a_segment_and_goes_on(
    log_dir: Path, suffix: str, odd: Callable[[Path], None]
) -> None:
    shutil.copytree(log_dir / "orders-0", log_dir / "payments-0")
    path = file_of(log_dir / "orders-0", 5, suffix)
    put(path, odd)
    ran = tiersnap("scan", log_dir)
    assert ran.exit_code == 5
    assert f"UNREADABLE_FILE: {path}: not a regular file" in ran.err
    assert ran.row(partition="payments-0")["findings"] == 0


def test_a_snapshot_of_5_gb_is_corrupt_and_not_read(log_dir: Path) -> None:
    put(file_of(log_dir / "orders-0", 5, ".snapshot"), huge)
    ran = tiersnap("scan", log_dir)
    assert ran.exit_code == 5
    assert "CORRUPT" in str(ran.row(partition="orders-0")["snapshots"])


def test_names_that_are_not_utf_8_are_shown_and_passed_over(log_dir: Path) -> None:
    (log_dir / os.fsdecode(b"t\xf6pic-0")).mkdir()
    (log_dir / "orders-0" / os.fsdecode(b"\xff.snapshot")).touch()
    (log_dir / "orders-0" / os.fsdecode(b"\xfe")).touch()
    opened = open_log_dir(str(log_dir))
    assert ("t\\xf6pic-0", "unknown") in [(other.name, other.state) for other in opened.others]
    ran = tiersnap("scan", log_dir)
    assert ran.exit_code == 5
    assert "BAD_FILE_NAME" in ran.err
    assert "\\xff.snapshot" in ran.err
    assert "not scanned: t\\xf6pic-0" in ran.err


def test_a_log_directory_whose_own_name_is_not_utf_8_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"disk\xff")
    path.mkdir()
    ran = tiersnap("scan", path)
    assert ran.exit_code == 2
    assert "not UTF-8" in ran.err


def test_a_partition_folder_may_be_a_link_to_another_disk(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / "orders-0").rename(tmp_path / "elsewhere")
    (log_dir / "orders-0").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "disk").symlink_to(log_dir)
    (partition,) = [each for each in open_log_dir(str(tmp_path / "disk")).partitions() if each.name == "orders-0"]
    assert len(partition.segments) == 4
    assert not partition.findings


@pytest.mark.parametrize(
    "text",
    [
        "0\n" + "9" * 5000 + "\n",
        "0\n1\na 0 " + "9" * 5000 + "\n",
        f"0\n1\na 0 {1 << 63}\n",
        "0\n1_0\n",
        "0\n²\n",
        "0\n1\na 0 ²\n",
        "0\n-1\n",
    ],
)
def test_a_number_of_a_checkpoint_is_one_that_a_broker_writes(text: str) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        checkpoints.parse_offsets(text, name="x")
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("node_id", ["²", "1_0", str(1 << 31), "99999999999", "9" * 5000, "--1", "-"])
def test_a_node_id_is_a_number_of_32_bits(node_id: str) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        meta_properties.parse(f"version=1\ncluster.id=abc\nnode.id={node_id}\n", name="x")
    assert len(caught.value.message) < 200


def test_the_limit_of_a_read_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, limit=5) == b"12345"
    for read in (read_regular, lambda name, limit: read_bounded(LOCAL, str(name), limit=limit)):
        with pytest.raises(FileTooLargeError, match="5 B"):
            read(path, limit=4)
    through_arrow = ArrowFileSystem(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert read_bounded(through_arrow, "file", limit=5) == b"12345"
    with pytest.raises(FileTooLargeError):
        read_bounded(through_arrow, "file", limit=4)


def test_what_is_read_takes_the_room_that_it_has_and_not_that_of_the_largest(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1000))
    through_arrow = ArrowFileSystem(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    tracemalloc.start()
    try:
        assert DirectoryStore(tmp_path).get("file", limit=1 << 30) == bytes(1000)
        assert read_regular(tmp_path / "file", limit=1 << 30) == bytes(1000)
        before = pa.default_memory_pool().max_memory()
        assert read_bounded(through_arrow, "file", limit=1 << 30) == bytes(1000)
        assert pa.default_memory_pool().max_memory() - before < 1 << 20
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_link_that_a_person_names_is_followed_to_a_file_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert read_regular(tmp_path / "link", follow=True) == b"x"
    with pytest.raises(NotRegularFileError, match="symbolic link"):
        read_regular(tmp_path / "link")
    with pytest.raises(NotRegularFileError, match="a device"):
        read_regular(tmp_path / "zero", follow=True)


@pytest.mark.parametrize("odd", [fifo, zeros_without_end])
def test_dump_reads_a_file_and_not_what_never_ends(tmp_path: Path, odd: Callable[[Path], None]) -> None:
    path = tmp_path / "00000000000000000005.snapshot"
    odd(path)
    ran = tiersnap("dump", path)
    assert ran.exit_code == 2
    assert "not a regular file" in ran.err


Capture = pytest.CaptureFixture[bytes]


@pytest.mark.parametrize("name", ["00000000000000000005.snapshot", "00000000000000000005.index", "partition.metadata"])
def test_dump_names_a_file_of_5_gb_and_goes_on_with_the_next(
    tmp_path: Path, log_dir: Path, name: str, capsysbinary: Capture
) -> None:
    huge(tmp_path / name)
    assert run(["dump", str(tmp_path / name), str(log_dir / "orders-0" / "leader-epoch-checkpoint")]) == 5
    out, err = capsysbinary.readouterr()
    assert f"UNREADABLE_FILE: {tmp_path / name}: the file has 5.0 GiB" in err.decode()
    assert b"start offset" in out


def test_dump_escapes_what_a_checkpoint_says_of_topics(tmp_path: Path, capsysbinary: Capture) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    path.write_text("0\n1\nevil\x1b[2J 0 5\n")
    assert run(["dump", str(path)]) == 0
    out, _ = capsysbinary.readouterr()
    assert b"evil\\x1b[2J" in out
    assert b"\x1b" not in out
