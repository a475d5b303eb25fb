"""Offset and time index: bytes, look-ups, and rebuilding what a broker's recovery writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import log_builder as lb
from tests.reference.recovered import DATA, has_legacy_entries, recovered, rows_of
from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.formats import indexes
from tiersnap.snapshot.log.index_rebuild import IndexRebuild

pytestmark = pytest.mark.unit

GOLDEN_OFFSET_INDEX = bytes.fromhex("00000005000010680000000a00002134")
GOLDEN_TIME_INDEX = bytes.fromhex("0000018bcfe56800000000050000018bcfe568c80000000a")
RECOVERED = recovered()
DECODED = [pytest.param(path, id=path) for path in RECOVERED if not has_legacy_entries(path)]


def rebuild(rows: np.ndarray, *, base_offset: int) -> tuple[np.ndarray, np.ndarray]:
    made = IndexRebuild(base_offset)
    made.add(rows)
    return made.finish()


def test_the_golden_offset_index_decodes_and_encodes() -> None:
    entries = indexes.decode_offset_index(GOLDEN_OFFSET_INDEX, base_offset=100)
    assert entries.tolist() == [(105, 4200), (110, 8500)]
    assert indexes.encode_offset_index(entries, base_offset=100) == GOLDEN_OFFSET_INDEX


def test_the_golden_time_index_decodes_and_encodes() -> None:
    entries = indexes.decode_time_index(GOLDEN_TIME_INDEX, base_offset=100)
    assert entries.tolist() == [(1700000000000, 105), (1700000000200, 110)]
    assert indexes.encode_time_index(entries, base_offset=100) == GOLDEN_TIME_INDEX


def test_preallocated_zeros_are_no_entries() -> None:
    padded = GOLDEN_OFFSET_INDEX + bytes(8 * 1000)
    assert indexes.decode_offset_index(padded, base_offset=100).size == 2
    assert indexes.decode_time_index(GOLDEN_TIME_INDEX + bytes(12 * 1000), base_offset=100).size == 2
    assert indexes.decode_offset_index(bytes(8 * 1000), base_offset=100).size == 0
    assert indexes.decode_time_index(b"", base_offset=100).size == 0


def test_padding_does_not_eat_zero_bytes_of_the_last_entry() -> None:
    entries = np.array([(100 + 256, 65536)], indexes.OFFSET_ENTRY_DTYPE)
    data = indexes.encode_offset_index(entries, base_offset=100)
    assert data.endswith(b"\0\0")
    assert indexes.decode_offset_index(data + bytes(16), base_offset=100).tolist() == entries.tolist()


@pytest.mark.parametrize(
    ("decode", "data", "position", "message"),
    [
        (indexes.decode_offset_index, GOLDEN_OFFSET_INDEX[:-1], 8, "the length is 15, expected a multiple of 8"),
        (indexes.decode_time_index, GOLDEN_TIME_INDEX + b"\0", 24, "the length is 25, expected a multiple of 12"),
        (indexes.decode_offset_index, bytes.fromhex("ffffffff00001068"), 0, "expected at least 0, found -1"),
        (indexes.decode_offset_index, GOLDEN_OFFSET_INDEX[:8] * 2, 8, "relative offset expected at least 6, found 5"),
        (
            indexes.decode_offset_index,
            bytes.fromhex("00000005000010680000000a00001068"),
            8,
            "position expected at least 4201, found 4200",
        ),
        (
            indexes.decode_time_index,
            GOLDEN_TIME_INDEX[12:] + GOLDEN_TIME_INDEX[:12],
            12,
            "timestamp expected at least 1700000000200, found 1700000000000",
        ),
        (
            indexes.decode_time_index,
            bytes.fromhex("0000018bcfe568000000000a0000018bcfe568c800000005"),
            12,
            "relative offset expected at least 10, found 5",
        ),
    ],
)
def test_what_a_broker_would_not_trust_is_refused_with_file_position_expected_and_found(
    decode: object, data: bytes, position: int, message: str
) -> None:
    with pytest.raises(CorruptIndexError, match=message) as raised:
        decode(data, base_offset=100, name="t-0/100.x")
    assert raised.value.message.startswith(f"t-0/100.x at byte {position}: ")
    assert raised.value.attrs["position"] == position
    assert raised.value.hint


def test_offsets_too_far_from_the_base_are_refused() -> None:
    entries = np.array([(2**31 + 100, 5000)], indexes.OFFSET_ENTRY_DTYPE)
    with pytest.raises(CorruptIndexError, match="2147483748"):
        indexes.encode_offset_index(entries, base_offset=100)
    rows = rows_of(b"".join([lb.data_batch(0, 1), lb.data_batch(2**31, 1)]))
    with pytest.raises(CorruptIndexError, match="2147483648"):
        rebuild(rows, base_offset=0)


_offsets = st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=20).map(sorted)


@given(_offsets, st.data(), st.integers(0, 2**62))
def test_an_encoded_offset_index_decodes_to_itself(relative: list[int], data: st.DataObject, base_offset: int) -> None:
    positions = data.draw(
        st.lists(st.integers(0, 2**31 - 1), unique=True, min_size=len(relative), max_size=len(relative)).map(sorted)
    )
    entries = np.array(
        [(base_offset + r, p) for r, p in zip(relative, positions, strict=True)], indexes.OFFSET_ENTRY_DTYPE
    )
    encoded = indexes.encode_offset_index(entries, base_offset=base_offset)
    assert len(encoded) == 8 * len(relative)
    assert indexes.decode_offset_index(encoded, base_offset=base_offset).tolist() == entries.tolist()


@given(_offsets, st.data(), st.integers(0, 2**62))
def test_an_encoded_time_index_decodes_to_itself(relative: list[int], data: st.DataObject, base_offset: int) -> None:
    stamps = data.draw(st.lists(st.integers(0, 2**63 - 1), min_size=len(relative), max_size=len(relative)).map(sorted))
    entries = np.array([(t, base_offset + r) for t, r in zip(stamps, relative, strict=True)], indexes.TIME_ENTRY_DTYPE)
    encoded = indexes.encode_time_index(entries, base_offset=base_offset)
    assert indexes.decode_time_index(encoded, base_offset=base_offset).tolist() == entries.tolist()


@pytest.mark.parametrize("path", DECODED)
def test_rebuilt_indexes_are_byte_for_byte_those_of_kafkas_recovery(path: str) -> None:
    base_offset = int(Path(path).stem)
    offset_entries, time_entries = rebuild(rows_of((DATA / path).read_bytes()), base_offset=base_offset)
    assert indexes.encode_offset_index(offset_entries, base_offset=base_offset) == RECOVERED[path].offset_index
    assert indexes.encode_time_index(time_entries, base_offset=base_offset) == RECOVERED[path].time_index


@pytest.mark.parametrize("path", DECODED)
def test_a_live_brokers_offset_index_is_the_rebuilt_one_unless_the_cleaner_wrote_the_segment(path: str) -> None:
    """The cleaner appends several batches at once and indexes only the first of them."""
    base_offset = int(Path(path).stem)
    rows = rows_of((DATA / path).read_bytes())
    live = indexes.decode_offset_index((DATA / path).with_suffix(".index").read_bytes(), base_offset=base_offset)
    rebuilt, _ = rebuild(rows, base_offset=base_offset)
    if "compacted" not in path:
        assert live.tolist() == rebuilt.tolist()
    last_offsets = rows["base_offset"] + rows["last_offset_delta"]
    for target in range(base_offset, int(last_offsets[-1]) + 1 if rows.size else base_offset):
        holder = int(rows["position"][np.searchsorted(last_offsets, target)])
        for entries in (live, rebuilt):
            start = indexes.position_of(entries, target)
            assert start in rows["position"]
            assert start <= holder, "a scan from there must still meet the batch"


@pytest.mark.parametrize("path", DECODED)
def test_a_live_brokers_time_index_names_batches_that_have_the_timestamp(path: str) -> None:
    """Since 3.x live and rebuilt are equal; 2.7.2 wrote the offset of the record, which lies inside the batch."""
    base_offset = int(Path(path).stem)
    rows = rows_of((DATA / path).read_bytes())
    live = indexes.decode_time_index((DATA / path).with_suffix(".timeindex").read_bytes(), base_offset=base_offset)
    _, rebuilt = rebuild(rows, base_offset=base_offset)
    if "2.7.2" not in path:
        assert live.tolist() == rebuilt.tolist()
    elif "compacted" not in path:
        assert live["timestamp"].tolist() == rebuilt["timestamp"].tolist()
    last_offsets = rows["base_offset"] + rows["last_offset_delta"]
    for entry in live:
        holder = rows[np.searchsorted(last_offsets, entry["offset"])]
        assert holder["base_offset"] <= entry["offset"]
        assert holder["max_timestamp"] == entry["timestamp"]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 6000), st.integers(-1, 50)), max_size=30),
    st.lists(st.integers(0, 30), max_size=3),
)
def test_windows_do_not_change_what_is_rebuilt(batches: list[tuple[int, int, int]], cuts: list[int]) -> None:
    segment, offset = [], 7
    for count, payload, timestamp in batches:
        segment.append(
            lb.raw_batch(
                offset, last_offset_delta=count - 1, record_count=count, records=bytes(payload), max_timestamp=timestamp
            )
        )
        offset += count
    rows = rows_of(b"".join(segment))
    by_window = IndexRebuild(7)
    for part in np.split(rows, sorted(min(cut, rows.size) for cut in cuts)):
        by_window.add(part)
    whole = rebuild(rows, base_offset=7)
    assert [entries.tolist() for entries in by_window.finish()] == [entries.tolist() for entries in whole]
    assert [entries.tolist() for entries in whole] == _rebuild_slowly(rows, 7)


def _rebuild_slowly(rows: np.ndarray, base_offset: int) -> list[list[tuple[int, int]]]:
    offset_entries: list[tuple[int, int]] = []
    time_entries: list[tuple[int, int]] = []
    indexed_at, largest = 0, (-1, -1)
    for row in rows:
        last_offset = int(row["base_offset"] + row["last_offset_delta"])
        if row["max_timestamp"] > largest[0]:
            largest = (int(row["max_timestamp"]), last_offset)
        if row["position"] - indexed_at > 4096:
            indexed_at = int(row["position"])
            offset_entries.append((last_offset, indexed_at))
            if largest[0] > (time_entries[-1][0] if time_entries else -1):
                time_entries.append(largest)
    if largest[0] > (time_entries[-1][0] if time_entries else -1):
        time_entries.append(largest)
    return [offset_entries, time_entries]
