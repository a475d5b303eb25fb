"""What an examination says of indexes, epochs, and snapshots that the replay did not reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.small_log import file_of, write_small_log
from tiersnap.snapshot.gate.examine import Examination, examine, has_leader_epoch, rebuilt_parts
from tiersnap.snapshot.log.log_dir import FileRef, Segment, open_log_dir

pytestmark = pytest.mark.unit

EMPTY = bytes.fromhex("000148674bc700000000")


def examined(log_dir: Path) -> Examination:
    opened = open_log_dir(str(log_dir))
    (partition,) = opened.partitions()
    return examine(opened.filesystem, partition)


@pytest.mark.parametrize(("name", "length"), [("offset_index", 8), ("time_index", 12), ("transaction_index", 34)])
def test_an_index_of_whole_entries_is_sent_and_any_other_is_made_again(tmp_path: Path, name: str, length: int) -> None:
    write_small_log(tmp_path)
    segment: Segment = next(iter(examined(tmp_path).partition.segments))
    kept = replace(segment, **{name: FileRef("x", 5 * length, 0)})
    assert rebuilt_parts(kept) == ()
    words = name.replace("_", " ")
    for size in (1, 5 * length - 1, 5 * length + 1):
        (said,) = rebuilt_parts(replace(segment, **{name: FileRef("x", size, 0)}))
        assert said.startswith(f"no whole {words} ({size} byte")
        assert said.endswith(f"no multiple of {length})")
    absent = rebuilt_parts(replace(segment, **{name: None}))
    assert absent == (() if name == "transaction_index" else (f"no {words}",)), "most segments have no aborts"


def test_one_epoch_below_the_end_of_a_segment_is_enough() -> None:
    assert has_leader_epoch([(0, 0), (1, 50)], 20)
    assert not has_leader_epoch([(1, 20), (2, 50)], 20)
    assert has_leader_epoch([(1, 20)], None)
    assert not has_leader_epoch([], 20)
    assert not has_leader_epoch(None, None)


def test_files_above_the_log_and_below_it_are_not_compared_and_it_is_said_why(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    for offset in (2, 3, 99):
        file_of(folder, offset, ".snapshot").write_bytes(EMPTY)
    for suffix in (".log", ".index", ".timeindex"):
        file_of(folder, 0, suffix).unlink()
    found = examined(tmp_path).snapshots
    end = examined(tmp_path).replay.log_end
    assert found[99].says == f"lies above the log end offset {end}"
    below = "lies below the log, which begins at 5: a broker deletes it when it starts"
    assert {offset: found[offset].says for offset in (2, 3)} == {2: below, 3: below}


def test_a_snapshot_behind_damage_names_the_damage(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    log = file_of(folder, 5, ".log")
    data = bytearray(log.read_bytes())
    data[20] ^= 0xFF
    log.write_bytes(data)
    found = examined(tmp_path).snapshots
    assert found[15].says.startswith("not comparable: the log is damaged below it (")
    assert found[5].strict.is_trusted


def test_an_empty_closed_segment_is_damage_unless_the_topic_is_cleaned(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    file_of(folder, 5, ".log").write_bytes(b"")
    opened = open_log_dir(str(tmp_path))
    (partition,) = opened.partitions()

    def kinds(policy: str) -> list[str]:
        return [str(each.kind) for each in examine(opened.filesystem, partition, cleanup_policy=policy).findings]

    assert "EMPTY_SEGMENT" in kinds("delete")
    assert "EMPTY_SEGMENT" not in kinds("compact")
