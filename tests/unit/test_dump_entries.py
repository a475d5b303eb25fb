"""What the dump rests on: lines of text from columns, and every entry of a file whatever the window."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reference import log_builder as lb
from tests.reference.dump_cases import EVERY_KIND, LOG, SEGMENT
from tests.reference.record_batch import read_segment
from tests.reference.recovered import DATA, recovered
from tiersnap.snapshot.dump import columns as lines
from tiersnap.snapshot.dump import render
from tiersnap.snapshot.dump.contents import Options
from tiersnap.snapshot.dump.files import identify
from tiersnap.snapshot.dump.log_entries import LogEntries, is_valid
from tiersnap.snapshot.formats import indexes
from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.kernels.dump_entries import LOG_ENTRY_DTYPE
from tiersnap.snapshot.log.index_rebuild import IndexRebuild

pytestmark = pytest.mark.unit

RECOVERED = recovered()
_int64 = st.integers(-(2**63), 2**63 - 1)
_texts = st.text(st.characters(codec="utf-8"), max_size=6)


def entries_of(path: Path, **options: object) -> tuple[np.ndarray, LogEntries]:
    entries = LogEntries(str(path), **options)
    parts = [rows.copy() for rows in entries]
    return np.concatenate([*parts, np.empty(0, LOG_ENTRY_DTYPE)]), entries


@given(
    st.lists(st.tuples(_int64, st.booleans(), st.integers(0, 2)), max_size=30), st.lists(_texts, min_size=3, max_size=3)
)
def test_lines_are_what_format_strings_would_give(rows: list[tuple[int, bool, int]], words: list[str]) -> None:
    numbers, flags, codes = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    observed = lines.lines(
        [
            "§",
            lines.number(numbers),
            " a ",
            lines.boolean(flags),
            lines.word(codes, words),
            "\t",
            lines.number_or(numbers, flags == 1, "none"),
            "\n",
        ]
    )
    expected = "".join(
        f"§{number} a {str(flag).lower()}{words[code]}\t{'none' if flag else number}\n" for number, flag, code in rows
    )
    assert bytes(observed).decode() == expected


@given(st.lists(_int64, min_size=1, max_size=9), st.integers(-30, 30))
def test_widths_pad_on_the_left_and_negative_ones_on_the_right(numbers: list[int], width: int) -> None:
    field = lines.number(np.array(numbers))
    observed = bytes(lines.lines([lines.Field(field.values, field.codes, (), width), "|"])).decode()
    assert observed == "".join(
        f"{str(number).rjust(width) if width > 0 else str(number).ljust(-width)}|" for number in numbers
    )
    assert lines.text_width(field) == max(len(str(number)) for number in numbers)


def test_entries_are_those_of_the_strict_decoder_and_the_old_formats_besides(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(SEGMENT)
    rows, entries = entries_of(path, base_offset=100)
    assert rows.size == len(EVERY_KIND)
    assert is_valid(rows).all()
    assert not rows["problem"].any()
    names = list(rb.RECORD_BATCH_DTYPE.names)
    assert rows[rows["magic"] == 2][names].tolist() == read_segment(SEGMENT).rows()
    assert (entries.end.reason, entries.end.valid_bytes) == (kernels.END, len(SEGMENT))


@given(st.integers(1, 700), st.booleans(), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_windows_never_change_the_entries(
    tmp_path: Path, window_bytes: int, check_crc: bool, data: st.DataObject
) -> None:
    segment = bytearray(SEGMENT + lb.data_batch(126, 1, payload=bytes(900)) + lb.legacy_entry(127, value=bytes(800)))
    for _ in range(data.draw(st.integers(0, 2))):
        segment[data.draw(st.integers(0, len(segment) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / LOG
    path.write_bytes(segment[: data.draw(st.integers(0, len(segment)))])
    options = {"base_offset": 100, "check_crc": check_crc, "max_bytes": data.draw(st.none() | st.integers(0, 2000))}
    whole, expected = entries_of(path, **options)
    pieces, observed = entries_of(path, window_bytes=window_bytes, **options)
    assert pieces.tolist() == whole.tolist()
    assert observed.end == expected.end


def test_a_file_that_its_broker_cuts_meanwhile_ends_the_entries(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(SEGMENT)
    entries = LogEntries(str(path), base_offset=100, window_bytes=200)
    rows = iter(entries)
    next(rows)
    with path.open("r+b") as file:
        file.truncate(201)
    rest = list(rows)
    assert sum(part.size for part in rest) <= 1
    assert entries.end.valid_bytes <= 201


@pytest.mark.parametrize("path", RECOVERED)
def test_indexes_of_old_formats_too_are_rebuilt_as_kafkas_recovery_does(path: str) -> None:
    """The strict decoder leaves entries of magic 0 and 1 out; with them every rebuilt index is Kafka's."""
    base_offset = int(Path(path).stem)
    rebuild = IndexRebuild(base_offset)
    for rows in LogEntries(str(DATA / path), base_offset=base_offset):
        rebuild.add(rows)
    offset_entries, time_entries = rebuild.finish()
    assert indexes.encode_offset_index(offset_entries, base_offset=base_offset) == RECOVERED[path].offset_index
    assert indexes.encode_time_index(time_entries, base_offset=base_offset) == RECOVERED[path].time_index


def test_memory_does_not_grow_with_the_segment(tmp_path: Path) -> None:
    path = tmp_path / LOG
    batches = b"".join(lb.data_batch(100 + i, 1) for i in range(1000))
    peaks = []
    for repeats in (150, 450):  # more than one window
        path.write_bytes(batches * repeats)  # offsets repeat: damage, and kept only up to a number
        contents = render.open_contents(identify(str(path)), Options())
        tracemalloc.start()
        size = sum(len(text) for text in render.as_kafka(contents))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert size > 250 * 1000 * repeats
    assert peaks[1] < peaks[0] * 1.1


def test_an_entry_larger_than_any_window_is_checked_piece_by_piece(tmp_path: Path) -> None:
    path = tmp_path / LOG
    for large in (lb.data_batch(101, 1, payload=bytes(3 << 20)), lb.legacy_entry(101, value=bytes(3 << 20))):
        for flipped in (False, True):
            data = bytearray(lb.data_batch(100, 1) + large + lb.data_batch(102, 1))
            data[2 << 20] ^= flipped
            path.write_bytes(data)
            rows, entries = entries_of(path, base_offset=100, window_bytes=4096)
            assert is_valid(rows).tolist() == [True, not flipped, True]
            assert entries.end.reason == kernels.END
