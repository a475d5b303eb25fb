"""What a log directory may hold besides what a broker put there: names, numbers, leftovers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.log_builder import data_batch, offsets_text, write_partition
from tiersnap.snapshot.errors import NotALogDirError, SourceNotFoundError
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir, split_folder_name

pytestmark = pytest.mark.unit

SEGMENTS = {0: [data_batch(0, 10)], 10: [data_batch(10, 10)]}


def partitions(log_dir: Path) -> dict[str, Partition]:
    return {partition.name: partition for partition in open_log_dir(str(log_dir)).partitions()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b.c-1--x.delete-2", ("a-b.c-1--x.delete", 2)),
        ("t" * 249 + "-7", ("t" * 249, 7)),
        ("orders-2147483647", ("orders", 2147483647)),
        ("orders-2147483648", None),
        ("orders-99999999999", None),
        ("orders-00", None),
        ("orders-", None),
        ("-0", None),
        ("orders", None),
        ("t" * 250 + "-7", None),
        ("has space-0", None),
        ("töpic-0", None),
        ("orders-٣", None),
        ("orders-0\n", None),
    ],
)
def test_a_folder_is_live_when_kafka_could_have_named_it(name: str, expected: tuple[str, int] | None) -> None:
    assert split_folder_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "0.log",
        "-5.log",
        "-0000000000000000005.log",
        "99999999999999999999.log",
        "99999999999999999999.snapshot",
        "-0000000000000000001.snapshot",
        "tmp-1.snapshot",
    ],
)
def test_a_number_that_no_broker_writes_is_a_finding_and_no_segment(name: str, tmp_path: Path) -> None:
    folder = write_partition(tmp_path, "orders", 0, SEGMENTS)
    (folder / name).write_bytes(b"x")
    partition = partitions(tmp_path)["orders-0"]
    assert [segment.base_offset for segment in partition.segments] == [0, 10]
    assert partition.snapshots == {}
    assert [(finding.finding_kind, Path(finding.path).name) for finding in partition.findings] == [
        (FindingKind.BAD_FILE_NAME, name)
    ]


def test_the_largest_offset_is_a_number(tmp_path: Path) -> None:
    folder = write_partition(tmp_path, "orders", 0, SEGMENTS)
    (folder / "09223372036854775807.log").touch()
    assert partitions(tmp_path)["orders-0"].segments[-1].base_offset == (1 << 63) - 1


def test_folders_that_are_not_live_are_named_and_left_alone(tmp_path: Path) -> None:
    write_partition(tmp_path, "orders", 0, SEGMENTS)
    for state in ("delete", "stray", "future"):
        (tmp_path / f"my-topic-3.{'a' * 32}-{state}").mkdir()
    (tmp_path / "remote-log-index-cache").mkdir()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "lost+found").mkdir()
    log_dir = open_log_dir(str(tmp_path))
    assert log_dir.folders == ("orders-0",)
    assert sorted(other.state for other in log_dir.others) == ["delete", "future", "stray", "unknown"]


@pytest.mark.parametrize("text", ["0\n7\n", "1\n0\n", "0\n1\norders 0\n", "0\n1\norders 0 x\n", "0\n²\n", "\x00\xff"])
def test_a_damaged_checkpoint_is_a_finding_of_the_directory(text: str, tmp_path: Path) -> None:
    write_partition(tmp_path, "orders", 0, SEGMENTS, high_watermark=20)
    (tmp_path / "replication-offset-checkpoint").write_text(text)
    log_dir = open_log_dir(str(tmp_path))
    assert [finding.finding_kind for finding in log_dir.findings] == [FindingKind.CORRUPT_CHECKPOINT]
    assert next(iter(log_dir.partitions())).high_watermark is None


def test_segments_below_the_log_start_are_no_part_of_the_log(tmp_path: Path) -> None:
    write_partition(tmp_path, "orders", 0, SEGMENTS, log_start_offset=10)
    partition = partitions(tmp_path)["orders-0"]
    assert ([segment.base_offset for segment in partition.segments], len(partition.deleted_segments)) == ([10], 1)
    (tmp_path / "log-start-offset-checkpoint").write_text(offsets_text({("orders", 0): 9}))
    assert len(partitions(tmp_path)["orders-0"].segments) == 2


def test_a_folder_that_vanished_gives_no_segments_and_a_finding(tmp_path: Path) -> None:
    write_partition(tmp_path, "orders", 0, SEGMENTS)
    gone = write_partition(tmp_path, "gone", 0, SEGMENTS)
    log_dir = open_log_dir(str(tmp_path))
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    found = {partition.name: partition for partition in log_dir.partitions()}
    assert found["gone-0"].segments == ()
    assert [finding.finding_kind for finding in found["gone-0"].findings] == [FindingKind.DELETED_FILE]
    assert len(found["orders-0"].segments) == 2


def test_a_place_that_is_no_log_directory_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceNotFoundError, match="no such directory"):
        open_log_dir(str(tmp_path / "nowhere"))
    with pytest.raises(SourceNotFoundError):
        open_log_dir(str(tmp_path / "file"))
    with pytest.raises(NotALogDirError, match="no partition folders"):
        open_log_dir(str(tmp_path / "empty"))
