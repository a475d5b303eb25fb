"""The epoch in a batch's header is the one that is published with it, or the segment is not tiered."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tests.reference.planned import PARTITION, TOPIC_ID, planned
from tests.reference.recovered import DATA
from tests.reference.tiered import aiven, rows_of
from tests.s3.segments import attempt
from tiersnap.remote_storage.errors import CorruptSegmentError, SegmentChangedError, WrongLeaderEpochsError
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.checked_upload import CheckedLog
from tiersnap.remote_storage.upload.send_objects import copy_segment
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.log.leader_epochs import EpochCheck, WrongEpoch
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.repair.index_check import FoundIndexes

pytestmark = pytest.mark.unit

LAYOUTS = {"aiven": AivenLayout(), "local-tiered-storage": LocalTieredStorageLayout()}
ME = Tierer("run-1", 1_700_000_000_500, wait=0, pause=lambda _: None)


@pytest.fixture(params=list(LAYOUTS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def batch(offset: int, epoch: int, count: int = 5) -> bytes:
    return lb.data_batch(offset, count, 1, 0, offset, leader_epoch=epoch)


def write(log_dir: Path, segments: dict[int, list[bytes]], leader_epochs: list[tuple[int, int]]) -> Path:
    return lb.write_partition(
        log_dir, "orders", 0, segments, topic_id=TOPIC_ID, high_watermark=40, leader_epochs=leader_epochs, indexes=True
    )


def tiered(folder: Path, remote: Path, name: str) -> tuple[list[dict], list[int]]:
    """The rows of tiering all closed segments, and the base offsets of the copies that are then visible."""
    store = DirectoryStore(remote)
    location = RemoteLocation(store, LAYOUTS[name])
    rows = rows_of(tier_partition(location, PARTITION, planned(folder), ME))
    found = list_remote_partition(location, PARTITION)
    assert found.leftovers == ()
    assert list(store.unfinished_uploads()) == []
    return rows, [copy.start_offset for copy in found.segments]


# Epochs of the batches at 0, 5 | 10, 15 | 20, 25 of three closed segments; the checkpoint; the first contradiction.
CONTRADICTING = {
    "the checkpoint is older": ([0, 0, 0, 0, 3, 3], [(0, 0)], (20, 3, 0)),
    "a new epoch inside a segment": ([0, 0, 0, 3, 3, 3], [(0, 0)], (15, 3, 0)),
    "the checkpoint is newer": ([0, 0, 0, 0, 0, 0], [(0, 0), (1, 25)], (25, 0, 1)),
    "an epoch begins later than told": ([0, 0, 0, 3, 3, 3], [(0, 0), (3, 10)], (10, 0, 3)),
    "an epoch begins sooner than told": ([0, 0, 3, 3, 3, 3], [(0, 0), (3, 15)], (10, 3, 0)),
    "an epoch that lost an election": ([0, 0, 1, 1, 3, 3], [(0, 0), (2, 10), (3, 20)], (10, 1, 2)),
    "a batch without an epoch before it": ([0, 0, -1, 2, 2, 2], [(0, 0)], (15, 2, 0)),
    "the batch at the first entry itself": ([0, 0, 1, 2, 2, 2], [(2, 10)], (10, 1, 2)),
}
OFFSETS = range(0, 30, 5)


def three_segments(folder: Path, epochs: list[int], checkpoint: list[tuple[int, int]]) -> Path:
    batches = [batch(offset, epoch) for offset, epoch in zip(OFFSETS, epochs, strict=True)]
    segments = {0: batches[:2], 10: batches[2:4], 20: batches[4:], 30: [batch(30, epochs[-1])]}
    return write(folder, segments, checkpoint)


@pytest.mark.parametrize("case", CONTRADICTING)
def test_a_batch_of_another_epoch_than_the_checkpoint_tells_ends_the_partition_there(
    tmp_path: Path, name: str, case: str
) -> None:
    epochs, checkpoint, (offset, written, told) = CONTRADICTING[case]
    folder = three_segments(tmp_path / "logs", epochs, checkpoint)
    segments = [segment for segment in planned(folder) if segment.next_base_offset > checkpoint[0][1]]
    store = DirectoryStore(tmp_path / "remote")
    location = RemoteLocation(store, LAYOUTS[name])
    rows = rows_of(tier_partition(location, PARTITION, segments, ME))
    base = offset // 10 * 10
    last = rows[-1]
    assert (last["base_offset"], last["error_type"], last["is_transient"]) == (base, "WrongLeaderEpochsError", False)
    for words in (f"offset {offset} ", f"has leader epoch {written},", f"says {told}:"):
        assert words in last["error"]
    assert "leader-epoch-checkpoint from a replica with the same log" in last["hint"]
    copies = list_remote_partition(location, PARTITION).segments
    assert [copy.start_offset for copy in copies] == list(range(checkpoint[0][1], base, 10))
    assert not [info.key for info in store.list() if f"{base:020d}-" in info.key and "claims/" not in info.key]
    assert list(store.unfinished_uploads()) == []


LEGAL = {
    "one epoch": ([4] * 6, [(4, 0)]),
    "epochs that begin at and between segments": ([0, 0, 1, 2, 2, 5], [(0, 0), (1, 10), (2, 15), (5, 25)]),
    "batches without an epoch": ([-1, -1, -1, 3, 3, 3], [(0, 0), (3, 15)]),
    "epochs that wrote nothing": ([0, 0, 0, 0, 3, 3], [(0, 0), (1, 20), (2, 20), (3, 20), (4, 30), (5, 30)]),
    "an epoch behind the log": ([0] * 6, [(0, 0), (7, 40)]),
    "older epochs were forgotten": ([1, 3, 3, 3, 3, 3], [(3, 5), (4, 30)]),
}


@pytest.mark.parametrize("case", LEGAL)
def test_logs_as_brokers_write_them_are_tiered_whole(tmp_path: Path, name: str, case: str) -> None:
    rows, copies = tiered(three_segments(tmp_path / "logs", *LEGAL[case]), tmp_path / "remote", name)
    assert [row["error"] for row in rows if row["error"]] == []
    assert copies == [0, 10, 20]


def test_old_formats_markers_and_what_compaction_left_are_tiered(tmp_path: Path, name: str) -> None:
    segments = {
        0: [lb.legacy_entry(0, magic=0), lb.legacy_entry(1, magic=1), batch(5, 2)],
        10: [
            lb.data_batch(12, 1, 1, 0, 9, transactional=True, leader_epoch=2),
            lb.marker(13, 1, 0, 0, commit=True, leader_epoch=3),
            lb.empty_batch(16, 3, 1, 0, 12, leader_epoch=3),
        ],
        20: [batch(20, 3)],
    }
    folder = write(tmp_path / "logs", segments, [(0, 0), (2, 5), (3, 13)])
    rows, copies = tiered(folder, tmp_path / "remote", name)
    assert [row["error"] for row in rows if row["error"]] == []
    assert copies == [0, 10]


def test_a_marker_of_another_epoch_is_no_exception(tmp_path: Path, name: str) -> None:
    segments = {
        0: [
            lb.data_batch(0, 1, 1, 0, 0, transactional=True, leader_epoch=2),
            lb.marker(1, 1, 0, 0, commit=True, leader_epoch=3),
        ],
        2: [batch(2, 3)],
    }
    rows, copies = tiered(write(tmp_path / "logs", segments, [(2, 0)]), tmp_path / "remote", name)
    assert "offset 1 has leader epoch 3," in rows[-1]["error"]
    assert copies == []


def test_a_log_that_was_written_anew_is_another_one_before_its_epochs_are_wrong(tmp_path: Path, name: str) -> None:
    """So it may pass: the next run reads the checkpoint as well."""
    segment, *_ = planned(three_segments(tmp_path / "logs", [0] * 6, [(0, 0)]))
    path = Path(segment.log.path)
    path.write_bytes(batch(0, 1) + batch(5, 1))
    store = DirectoryStore(tmp_path / "remote")
    ready = segment.bundle(store)
    with pytest.raises(SegmentChangedError):
        copy_segment(RemoteLocation(store, LAYOUTS[name]), ready, attempt(ready))
    unread = replace(ready, header_digest=None)
    with pytest.raises(WrongLeaderEpochsError) as raised:
        copy_segment(RemoteLocation(store, LAYOUTS[name]), unread, attempt(unread))
    assert raised.value.exit_code == ExitCode.DATA_CORRUPT
    assert list(store.list()) == []


@pytest.mark.parametrize("piece", [1, 70, 100, 1000])
def test_in_pieces_of_any_size_nothing_is_handed_out_behind_the_batch_and_the_rest_is_judged_first(
    tmp_path: Path, piece: int
) -> None:
    segment, *_ = planned(three_segments(tmp_path / "logs", [0] * 6, [(0, 0)]))
    ready = segment.bundle(DirectoryStore(tmp_path / "remote"))
    wrong, good = batch(0, 1), batch(5, 0)
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    for data, digest, error in (
        (wrong + good, None, WrongLeaderEpochsError),
        (wrong + good, ready.header_digest, SegmentChangedError),
        (wrong + damaged, None, CorruptSegmentError),
        (wrong, None, None),  # the file was cut meanwhile: the store misses bytes
    ):
        log, sent = CheckedLog(io.BytesIO(data), replace(ready, header_digest=digest), FoundIndexes()), 0
        with nullcontext() if error is None else pytest.raises(error):
            while read := log.read(piece):
                sent += len(read)
        assert sent < len(wrong)


def test_the_command_says_which_offset_and_both_epochs_and_tiers_nothing_behind_it(tmp_path: Path, name: str) -> None:
    three_segments(tmp_path / "logs", [0, 0, 3, 3, 3, 3], [(0, 0)])
    ran = tiersnap("tier", tmp_path / "logs", "--remote", tmp_path / "remote", "--apply", "--layout", name)
    assert ran.exit_code == ExitCode.DATA_CORRUPT
    assert "  copy leader-epoch-checkpoint from a replica with the same log" in ran.err
    (error,) = json.loads(ran.out)["errors"]
    assert error["type"] == "CorruptDataError"
    assert error["hint"].startswith("copy leader-epoch-checkpoint")
    assert "the batch at offset 10 has leader epoch 3, but leader-epoch-checkpoint says 0" in ran.err
    logs = {path.name[:20] for path in (tmp_path / "remote").rglob("*.log")}
    assert logs == {f"{0:020d}"}


def test_once_the_right_checkpoint_is_there_the_rest_is_tiered_under_its_epochs(tmp_path: Path) -> None:
    words = ("--remote", tmp_path / "remote", "--apply")
    folder = three_segments(tmp_path / "logs", [0, 0, 3, 3, 3, 3], [(0, 0)])
    assert tiersnap("tier", tmp_path / "logs", *words).exit_code == ExitCode.DATA_CORRUPT
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 10\n")
    ran = tiersnap("tier", tmp_path / "logs", *words)
    assert ran.exit_code == 0, ran.err
    found = list_remote_partition(aiven(DirectoryStore(tmp_path / "remote")), PARTITION, local_start=0).segments
    assert [copy.leader_epochs for copy in found] == [((0, 0),), ((3, 10),), ((3, 20),)]


def test_brokers_own_logs_do_not_contradict_their_checkpoints() -> None:
    count = 0
    for source in sorted(DATA.glob("*/logs*")):
        log_dir = open_log_dir(str(source))
        for partition in log_dir.partitions():
            check = EpochCheck(partition.leader_epochs or ())
            for segment in partition.segments:
                scan = SegmentScan(
                    log_dir.filesystem,
                    segment.log.path,
                    base_offset=segment.base_offset,
                    next_base_offset=segment.next_base_offset,
                )
                for rows in scan:
                    assert check.first_wrong(rows) is None, segment.log.path
                    count += int((rows["partition_leader_epoch"] >= 0).sum())
    assert count > 1000


epoch_lists = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=6).map(
    lambda entries: list(zip(sorted({e for e, _ in entries}), sorted(o for _, o in entries), strict=False))
)


@given(epoch_lists, st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 8)), min_size=1, unique_by=lambda b: b[0]))
def test_the_first_wrong_batch_is_the_one_that_a_look_at_each_finds(
    entries: list[tuple[int, int]], batches: list[tuple[int, int]]
) -> None:
    batches = sorted(batches)
    expected = None
    for offset, written in batches:
        told = [epoch for epoch, start in entries if start <= offset]
        if expected is None and told and written >= 0 and written != told[-1]:
            expected = WrongEpoch(offset, written, told[-1])
    rows = np.zeros(len(batches), RECORD_BATCH_DTYPE)
    rows["base_offset"], rows["partition_leader_epoch"] = zip(*batches, strict=True)
    assert EpochCheck(tuple(entries)).first_wrong(rows) == expected
