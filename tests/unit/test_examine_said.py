"""What an examination says of indexes, epochs, and snapshots that the replay did not reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.reference.log_builder import data_batch, write_partition
from tests.reference.small_log import file_of, write_small_log
from tiersnap.snapshot.log.index_faults import faults_by_size
from tiersnap.snapshot.log.log_dir import FileRef, Segment, open_log_dir
from tiersnap.snapshot.producer_fold import DELTA_DTYPE
from tiersnap.snapshot.replay.examine import Examination, examine, has_leader_epoch, rebuilt_parts
from tiersnap.snapshot.replay.partition_replay import Replay, may_be_stored
from tiersnap.snapshot.replay.replay_start import Beginning, CopyState, StartState

pytestmark = pytest.mark.unit

EMPTY = bytes.fromhex("000148674bc700000000")


def examined(log_dir: Path) -> Examination:
    opened = open_log_dir(str(log_dir))
    (partition,) = opened.partitions()
    return examine(opened.filesystem, partition)


@pytest.mark.parametrize(("name", "length"), [("offset_index", 8), ("time_index", 12), ("transaction_index", 34)])
def test_index_of_whole_entries_has_a_size_and_any_other_a_fault(tmp_path: Path, name: str, length: int) -> None:
    write_small_log(tmp_path)
    segment: Segment = next(iter(examined(tmp_path).partition.segments))
    assert faults_by_size(replace(segment, **{name: FileRef("x", 3 * length, 0)})) == ()
    words = name.replace("_", " ")
    for size in (1, 3 * length - 1, 3 * length + 1):
        spoilt = replace(segment, **{name: FileRef("x", size, 0)})
        (said,) = faults_by_size(spoilt)
        assert said.startswith(f"{words}: the size is {size} byte")
        assert said.endswith(f"not a multiple of {length}")
        assert faults_by_size(replace(spoilt, next_base_offset=None)) == ()
    most = segment.log.size // 26 + 1  # as many batches as the smallest entry lets the log have
    assert faults_by_size(replace(segment, **{name: FileRef("x", most * length, 0)})) == ()
    (said,) = faults_by_size(replace(segment, **{name: FileRef("x", (most + 1) * length, 0)}))
    assert said == f"{words}: the index has {most + 1} entries, more than a log of {segment.log.size} bytes can have"


@pytest.mark.parametrize("name", ["offset_index", "time_index", "transaction_index"])
def test_absent_index_is_made_for_the_upload_but_for_aborts(tmp_path: Path, name: str) -> None:
    write_small_log(tmp_path)
    segment: Segment = next(iter(examined(tmp_path).partition.segments))
    words = name.replace("_", " ")
    assert rebuilt_parts(segment) == ()
    absent = rebuilt_parts(replace(segment, **{name: None}))
    assert absent == (() if name == "transaction_index" else (f"no {words}",)), "most segments have no aborts"


def test_one_epoch_below_the_end_of_a_segment_is_enough() -> None:
    assert has_leader_epoch([(0, 0), (1, 50)], 20)
    assert not has_leader_epoch([(1, 20), (2, 50)], 20)
    assert has_leader_epoch([(1, 20)], None)
    assert not has_leader_epoch([], 20)
    assert not has_leader_epoch(None, None)


def test_may_be_stored_is_true_up_to_the_high_watermark_alone(tmp_path: Path) -> None:
    write_small_log(tmp_path)
    partition = examined(tmp_path).partition
    told = [may_be_stored(replace(partition, high_watermark=10), offset) for offset in (9, 10, 11)]
    assert told == [True, True, False]
    assert not may_be_stored(replace(partition, high_watermark=None), 0)


def test_is_unasked_is_true_where_nothing_is_known_of_a_beginning(tmp_path: Path) -> None:
    write_small_log(tmp_path)
    partition = examined(tmp_path).partition
    nobody = np.empty(0, DELTA_DTYPE)
    start = StartState(5, nobody, 0, has_adopted=False)
    copy = CopyState(5, nobody, lambda _: True)
    begins = Beginning(is_continued=True)
    assert begins.is_unasked(partition)
    for known in ({"start": start}, {"copy": copy}, {"why": "away"}, {"is_continued": False}):
        assert not replace(begins, **known).is_unasked(partition)


def test_replay_watches_a_transaction_that_is_open_from_offset_0(tmp_path: Path) -> None:
    write_small_log(tmp_path)
    replay = Replay(examined(tmp_path).partition, Beginning())
    for first, told in ((0, 0), (7, 7), (-1, None)):
        replay.watch(first)
        assert replay.unstable_from == told


def test_files_above_the_log_and_below_it_are_not_compared_and_it_is_said_why(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    for offset in (2, 3, 99):
        file_of(folder, offset, ".snapshot").write_bytes(EMPTY)
    for suffix in (".log", ".index", ".timeindex"):
        file_of(folder, 0, suffix).unlink()
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 5\n")
    found = examined(tmp_path).snapshots
    end = examined(tmp_path).facts.log_end_offset
    assert found[99].explanation == f"the offset is above the log end offset {end}"
    below = "the offset is below the log, which begins at 5: a broker deletes the file when it starts"
    assert {offset: found[offset].explanation for offset in (2, 3, 5)} == dict.fromkeys((2, 3, 5), below)
    assert found[10].compared.is_trusted


def test_a_snapshot_behind_damage_names_the_damage(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    log = file_of(folder, 5, ".log")
    data = bytearray(log.read_bytes())
    data[20] ^= 0xFF
    log.write_bytes(data)
    found = examined(tmp_path).snapshots
    assert found[15].explanation.startswith("not comparable: the log is damaged below this offset (")
    assert found[5].compared.is_trusted


def test_an_empty_closed_segment_is_damage_unless_the_topic_is_cleaned(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    file_of(folder, 5, ".log").write_bytes(b"")

    def kinds(cleaner_offset: int | None) -> list[str]:
        opened = open_log_dir(str(tmp_path))
        (partition,) = opened.partitions()
        found = examine(opened.filesystem, replace(partition, cleaner_offset=cleaner_offset))
        return [str(each.finding_kind) for each in found.findings]

    assert "EMPTY_SEGMENT" in kinds(None)
    assert "EMPTY_SEGMENT" not in kinds(10)
    file_of(folder, 10, ".log").write_bytes(bytes(100))
    assert kinds(10) == [kind for kind in kinds(None) if kind != "EMPTY_SEGMENT"] != []


def test_what_keeps_the_log_from_being_stable_is_named(tmp_path: Path) -> None:
    def why(log_dir: str, *entries: bytes, high_watermark: int | None) -> str:
        write_partition(tmp_path / log_dir, "a", 0, {0: list(entries)}, high_watermark=high_watermark)
        return examined(tmp_path / log_dir).facts.unstable_because

    plain, opening = data_batch(0, 2, 7, 0, 0), data_batch(2, 2, 8, 0, 0, transactional=True)
    assert why("sound", plain, high_watermark=2) == "the high watermark is 2"
    assert why("open", plain, opening, high_watermark=4) == "a transaction is open since offset 2"
    unknown = "replication-offset-checkpoint does not name the partition, or cannot be read"
    assert why("unnamed", plain, high_watermark=None) == unknown


def test_a_log_that_no_broker_can_replay_is_a_finding_without_a_position(tmp_path: Path) -> None:
    batches = [data_batch(0, 2, 7, 0, 0, transactional=True), data_batch(2, 2, 7, 0, 2)]
    write_partition(tmp_path, "a", 0, {0: batches}, high_watermark=4)
    (found,) = examined(tmp_path).findings
    assert (str(found.finding_kind), found.position) == ("NON_TRANSACTIONAL_IN_TRANSACTION", -1)


def test_facts_of_segments_say_what_was_checked_and_nothing_of_what_was_not_reached(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    opened = open_log_dir(str(tmp_path))
    (partition,) = opened.partitions()
    for check_crc in (True, False):
        facts = examine(opened.filesystem, partition, check_crc=check_crc).segments
        assert {each.crc_checked for each in facts} == {check_crc}
        assert not any(each.has_gaps for each in facts)
    file_of(folder, 5, ".log").write_bytes(bytes(100))
    *_, last = examined(tmp_path).segments
    assert (last.digest, last.largest_timestamp, last.crc_checked, last.has_gaps) == ("", -1, False, False)
