"""Leader epochs that leader-epoch-checkpoint lost: rebuilt from the batches, never below the first segment."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import log_builder as lb
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.examples import examples
from tests.reference.fleet_run import Runner
from tests.reference.recovered import DATA
from tests.reference.tiered import aiven
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_lineage, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import list_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.log.rebuilt_epochs import epochs_of_batches

pytestmark = pytest.mark.unit

Epochs = list[tuple[int, int]]
TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
EPOCHS: Epochs = [(0, 0), (3, 10), (4, 25)]
SEGMENTS = {
    0: [lb.data_batch(0, 10, 1, 0, 0, leader_epoch=0)],
    10: [lb.data_batch(10, 5, 1, 0, 10, leader_epoch=3), lb.data_batch(15, 5, 1, 0, 15, leader_epoch=3)],
    20: [lb.data_batch(20, 5, 1, 0, 20, leader_epoch=3), lb.data_batch(25, 5, 1, 0, 25, leader_epoch=4)],
    30: [lb.data_batch(30, 5, 1, 0, 30, leader_epoch=4)],
    40: [lb.data_batch(40, 5, 1, 0, 40, leader_epoch=4)],
}
LOST = {"empty": b"", "zeros": bytes(8), "no entry": b"0\n0\n", "garbage": b"\xff\xfe"}


def write(log_dir: Path, segments: dict[int, list[bytes]] | None = None, **options: object) -> Path:
    told = {"leader_epochs": EPOCHS, "high_watermark": 45, "indexes": True, "topic_id": TOPIC_ID, **options}
    return lb.write_partition(log_dir, "orders", 0, segments or SEGMENTS, **told)  # type: ignore[arg-type]


def checkpoint(folder: Path) -> Path:
    return folder / "leader-epoch-checkpoint"


def listed(log_dir: Path) -> Partition:
    (partition,) = open_log_dir(str(log_dir)).partitions()
    return partition


def by_header(folder: Path) -> Epochs:
    """First offset of each epoch, by the headers of all batches, one by one."""
    found: Epochs = []
    for log in sorted(folder.glob("*.log")):
        data, position = log.read_bytes(), 0
        while position + 61 <= len(data):
            offset, length, epoch, magic = struct.unpack_from(">qiib", data, position)
            if magic == 2 and epoch >= 0 and (not found or epoch > found[-1][0]):
                found.append((epoch, offset))
            position += 12 + length
    return found


def spoil(folder: Path, how: str | None) -> None:
    if how is None:
        checkpoint(folder).unlink()
    else:
        checkpoint(folder).write_bytes(LOST[how])


@pytest.mark.parametrize("how", [*LOST, None])
def test_listing_takes_lost_epochs_from_the_batches(tmp_path: Path, how: str | None) -> None:
    folder = write(tmp_path)
    whole = listed(tmp_path)
    assert (whole.leader_epochs, whole.whole_epochs, whole.epochs_lost_below) == (tuple(EPOCHS), tuple(EPOCHS), 0)
    spoil(folder, how)
    found = listed(tmp_path)
    assert (found.leader_epochs, found.whole_epochs) == (tuple(EPOCHS), ())
    assert found.epochs_lost_below > 40


LOGS = sorted(path for path in DATA.glob("*/logs/*-0") if "magic" not in path.name)


@pytest.mark.parametrize("source", LOGS, ids=lambda path: f"{path.parts[-3]} {path.name}")
def test_epochs_of_real_brokers_are_those_of_their_batches(source: Path) -> None:
    of_disk = open_log_dir(str(source.parent))
    partition = next(each for each in of_disk.partitions() if each.path == str(source))
    found = epochs_of_batches(LOCAL, partition.segments)
    assert list(found) == by_header(source)
    assert found == epochs_of_batches(LOCAL, partition.segments, reads_all=True)
    if found:
        assert {epoch for epoch, _ in found} == {epoch for epoch, _ in partition.leader_epochs or ()}


@st.composite
def logs(draw: st.DrawFn) -> dict[int, list[bytes]]:
    """Segments of batches under ascending epochs, some of them without one."""
    segments: dict[int, list[bytes]] = {}
    offset, epoch = 0, draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 5))):
        base = offset
        segments[base] = []
        for _ in range(draw(st.integers(1, 4))):
            epoch += draw(st.sampled_from([0, 0, 0, 1, 4]))
            written = draw(st.sampled_from([epoch, epoch, epoch, -1]))
            segments[base].append(lb.data_batch(offset, 2, 1, 0, offset, leader_epoch=written))
            offset += 2
    return segments


@given(logs(), st.booleans())
@settings(max_examples=examples(60))
def test_epochs_of_batches_equal_those_of_each_header(tmp_path_factory, segments, reads_all) -> None:
    log_dir = tmp_path_factory.mktemp("log")
    folder = write(log_dir, segments, leader_epochs=[])
    assert list(epochs_of_batches(LOCAL, listed(log_dir).segments, reads_all=reads_all)) == by_header(folder)


@pytest.mark.parametrize(
    ("epochs", "full", "lost_below"),
    [
        ([(4, 25)], EPOCHS, 25),
        ([(3, 10), (4, 25)], EPOCHS, 10),
        ([(5, 45)], [*EPOCHS, (5, 45)], 45),  # as a broker goes on that started with an empty file
        ([(3, 12), (4, 25)], [(0, 0), (3, 12), (4, 25)], 12),
        ([(0, 0), (4, 25)], [(0, 0), (4, 25)], 0),  # what is told is compared with the batches by the upload
    ],
)
def test_listing_puts_lost_epochs_before_those_that_are_told(
    tmp_path: Path, epochs: Epochs, full: Epochs, lost_below: int
) -> None:
    write(tmp_path, leader_epochs=epochs)
    assert (listed(tmp_path).leader_epochs, listed(tmp_path).epochs_lost_below) == (tuple(full), lost_below)


@pytest.mark.parametrize(("start", "epochs"), [(12, [(3, 12), (4, 25)]), (None, [(0, 3), (3, 10), (4, 25)])])
def test_epochs_that_moved_with_the_log_start_are_not_lost(tmp_path: Path, start: int | None, epochs: Epochs) -> None:
    """The second: the log start moved into the first segment, and its checkpoint is written within a minute."""
    write(tmp_path, leader_epochs=epochs, log_start_offset=start)
    assert (listed(tmp_path).leader_epochs, listed(tmp_path).epochs_lost_below) == (tuple(epochs), 0)


def descending(segments: dict[int, list[bytes]]) -> dict[int, list[bytes]]:
    return {**segments, 30: [lb.data_batch(30, 5, 1, 0, 30, leader_epoch=2)]}


def damaged(segments: dict[int, list[bytes]]) -> dict[int, list[bytes]]:
    first, second = segments[20]
    return {**segments, 20: [first, second[:40] + bytes([second[40] ^ 1]) + second[41:-9]]}


def old(segments: dict[int, list[bytes]]) -> dict[int, list[bytes]]:
    return {base: [lb.legacy_entry(base)] for base in segments}


@pytest.mark.parametrize("make", [descending, damaged, old])
def test_epochs_that_the_batches_do_not_tell_stay_lost(tmp_path: Path, make) -> None:
    write(tmp_path, make(SEGMENTS), leader_epochs=[])
    found = listed(tmp_path)
    assert (found.leader_epochs or (), found.epochs_lost_below) == ((), 0)
    ran = tiersnap("scan", tmp_path, "--segments")
    assert ran.row(base_offset=0)["verdict"] == "MISSING_INDEX"
    assert ran.row(base_offset=0)["reason"] == "no leader epochs"


def test_damage_in_a_segment_that_is_passed_by_hides_no_epoch(tmp_path: Path) -> None:
    segments = {**SEGMENTS, 30: [SEGMENTS[30][0][:-9]]}
    folder = write(tmp_path, segments, leader_epochs=[])
    assert list(listed(tmp_path).leader_epochs or ()) == EPOCHS == by_header(folder)


def verdicts(ran: Ran) -> dict[int, str]:
    return {row["base_offset"]: row["verdict"] for row in ran.rows}


def test_scan_and_doctor_name_segments_whose_epochs_are_lost(tmp_path: Path) -> None:
    folder = write(tmp_path, leader_epochs=[(4, 25)])
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code in (0, 4)
    assert checkpoint(folder).read_text() == lb.leader_epochs_text([(4, 25)]), "only --replace overwrites entries"
    ran = tiersnap("scan", tmp_path, "--segments")
    assert_said(ran, 4, "next for INDEX_DAMAGED: ")
    assert list(verdicts(ran).values()) == [*["INDEX_DAMAGED"] * 3, "READY", "ACTIVE_SEGMENT"]
    assert ran.row(base_offset=0)["reason"] == "leader-epoch-checkpoint lacks leader epochs of the segment"
    told = tiersnap("doctor", tmp_path, output="table")
    assert_said(told, 4)
    assert "3 segments: INDEX_DAMAGED" in told.out


def lineages(remote: Path) -> list[Epochs]:
    """The LEADER_EPOCH index of each remote segment."""
    store = DirectoryStore(remote)
    found = (read_segment(store, each) for each in list_segments(aiven(store), TopicIdPartition("orders", TOPIC_ID, 0)))
    return [list(read_lineage(store, each)) for each in found if isinstance(each, RemoteSegment)]


def right_lineages() -> list[Epochs]:
    return [[each for each in EPOCHS if each[1] < end] for _, end in pairwise(SEGMENTS)]


@pytest.mark.parametrize("how", [*LOST, None])
def test_tier_uploads_epochs_that_the_batches_tell(tmp_path: Path, how: str | None) -> None:
    spoil(write(tmp_path / "logs"), how)
    ran = tiersnap("tier", tmp_path / "logs", "--remote", tmp_path / "remote", "--apply")
    assert ran.row()["uploaded"] == 4, ran.err
    assert lineages(tmp_path / "remote") == right_lineages()


def test_run_uploads_epochs_that_the_batches_tell(tmp_path: Path) -> None:
    spoil(write(tmp_path / "logs"), "empty")
    fleet = Runner(tmp_path, tmp_path / "logs")
    named = fleet(apply=False, now=lb.TIMESTAMP).readiness
    assert [row["verdict"] for row in named if row["base_offset"] == 0] == ["MISSING_SNAPSHOT"]
    fleet(now=lb.TIMESTAMP)
    assert lineages(tmp_path / "remote") == right_lineages()


@pytest.mark.parametrize(
    ("log_start", "step", "reason"),
    [
        (0, "MISSING_INDEX: copy leader-epoch-checkpoint from another replica", "no leader epochs"),
        (None, "UNKNOWN_LOG_START: to find the log start, give the location of", "lost epochs of the partition"),
    ],
)
def test_tier_uploads_no_rebuilt_epochs_of_a_log_that_goes_back_further(
    tmp_path: Path, log_start: int | None, step: str, reason: str
) -> None:
    """What lies in remote storage has epochs that no batch here tells."""
    write(tmp_path / "whole")
    first = {base: SEGMENTS[base] for base in (0, 10, 20)}
    write(tmp_path / "before", first, high_watermark=30)
    words = ("--remote", tmp_path / "remote", "--apply")
    assert tiersnap("tier", tmp_path / "before", *words).exit_code == 0
    left = {base: SEGMENTS[base] for base in (20, 30, 40)}
    spoil(write(tmp_path / "logs", left, log_start_offset=log_start), "empty")
    ran = tiersnap("tier", tmp_path / "logs", *words)
    assert_said(ran, 4, step)
    assert lineages(tmp_path / "remote") == right_lineages()[:2]
    told = tiersnap("scan", tmp_path / "logs", "--segments", *words[:2])
    assert reason in told.row(base_offset=20)["reason"]
