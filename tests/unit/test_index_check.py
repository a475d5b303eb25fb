"""Indexes against the batches of their segment: right ones stay as they are, all others are made again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import log_builder as lb
from tests.reference.examples import examples
from tests.reference.indexes_in_memory import check_indexes
from tests.reference.recovered import DATA, has_legacy_entries, recovered, rows_of
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats import indexes
from tiersnap.snapshot.formats import transaction_index as ti
from tiersnap.snapshot.repair.index_check import CheckedIndexes, FoundIndexes, IndexCheck

pytestmark = pytest.mark.unit

RECOVERED = recovered()
NONE_OPEN = np.empty(0, ti.ONGOING_TXN_DTYPE)


def found_beside(path: Path) -> FoundIndexes:
    files = [path.with_suffix(suffix) for suffix in (".index", ".timeindex", ".txnindex")]
    return FoundIndexes(*(file.read_bytes() if file.exists() else None for file in files))


def open_at(path: Path) -> np.ndarray:
    """Transactions open at a segment's base, by the segments before it."""
    ongoing = NONE_OPEN
    for log in sorted(path.parent.glob("*.log")):
        if log == path:
            break
        if not has_legacy_entries(str(log)):
            _, ongoing = ti.rebuild(rows_of(log.read_bytes()), ongoing)
    return ongoing


def checked(segment: bytes, base: int, found: FoundIndexes, open_transactions=NONE_OPEN) -> CheckedIndexes:
    return check_indexes(segment, base, found, open_transactions)


@pytest.mark.parametrize("path", RECOVERED)
def test_a_segment_without_indexes_gets_those_of_kafkas_recovery_byte_for_byte(path: str) -> None:
    """Entries of magic 0 and 1 are indexed as well."""
    log = DATA / path
    result = checked(log.read_bytes(), int(log.stem), FoundIndexes(), open_at(log))
    golden = RECOVERED[path]
    assert result.offset_index == golden.offset_index
    assert result.time_index == golden.time_index
    assert (result.transaction_index or b"") == golden.transaction_index
    assert {"offset index", "time index"} <= set(result.rebuilt)
    assert ("transaction index" in result.rebuilt) == bool(golden.transaction_index)


@pytest.mark.parametrize("path", [path for path in RECOVERED if "compacted" not in path])
@pytest.mark.parametrize("knows_open", [True, False])
def test_what_live_brokers_wrote_is_right(path: str, knows_open: bool) -> None:
    log = DATA / path
    found = found_beside(log)
    result = check_indexes(log.read_bytes(), int(log.stem), found, open_at(log) if knows_open else None)
    is_closed = log != max(log.parent.glob("*.log"))
    assert is_closed or not result.rebuilt or set(result.rebuilt) == {"time index"}, result.rebuilt
    if is_closed:
        assert result.rebuilt == {}
    assert found.offset_index.startswith(result.offset_index)
    assert result.transaction_index == (found.transaction_index or None)


# --- made-up segments, and look-ups as Kafka's LogSegment does them


BASE = 7


def batches_of(shape: list[tuple[int, int, int]]) -> tuple[bytes, list[tuple[int, int, int, int]]]:
    """A segment of batches of (records, payload bytes, largest timestamp); and (position, first, last, timestamp)."""
    parts, told, offset, position = [], [], BASE, 0
    for count, payload, timestamp in shape:
        parts.append(
            lb.raw_batch(
                offset, last_offset_delta=count - 1, record_count=count, records=bytes(payload), max_timestamp=timestamp
            )
        )
        told.append((position, offset, offset + count - 1, timestamp))
        offset += count
        position += len(parts[-1])
    return b"".join(parts), told


def assert_look_ups_end_right(told: list[tuple[int, int, int, int]], offset_index: bytes, time_index: bytes) -> None:
    offsets = indexes.decode_offset_index(offset_index, base_offset=BASE)
    times = indexes.decode_time_index(time_index, base_offset=BASE)
    starts = {position for position, *_ in told}
    for position, _, last, _ in told:
        begins = indexes.position_of(offsets, last)
        assert begins in starts
        assert begins <= position
    for target in {timestamp + step for *_, timestamp in told for step in (-1, 0, 1)}:
        after = [entry for entry in times.tolist() if entry[0] <= target]
        begins = indexes.position_of(offsets, after[-1][1] if after else BASE)
        answer = next((batch for batch in told if batch[3] >= target), None)
        assert next((batch for batch in told if batch[0] >= begins and batch[3] >= target), None) == answer


_shapes = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5000), st.integers(-1, 20)), min_size=1, max_size=25)


@given(_shapes, st.data())
@settings(max_examples=examples(300))
def test_whatever_bits_were_flipped_what_is_uploaded_answers_every_look_up(shape, data) -> None:
    segment, told = batches_of(shape)
    good = checked(segment, BASE, FoundIndexes())
    damaged = []
    for content in (good.offset_index, good.time_index):
        flipped = bytearray(content)
        for _ in range(data.draw(st.integers(0, 2))):
            if flipped:
                flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        damaged.append(bytes(flipped))
    result = checked(segment, BASE, FoundIndexes(*damaged))
    assert_look_ups_end_right(told, result.offset_index, result.time_index)
    for name, before, after in zip(result.rebuilt, damaged, (result.offset_index, result.time_index), strict=False):
        assert name in result.rebuilt or before == after
    largest = max(timestamp for *_, timestamp in told)
    times = indexes.decode_time_index(result.time_index, base_offset=BASE)
    assert (times["timestamp"][-1] if times.size else -1) == largest or largest == 0


def test_a_time_entry_of_a_later_batch_with_the_same_timestamp_hides_the_first_and_is_made_again() -> None:
    segment, told = batches_of([(1, 0, 0), (1, 0, 0), (3, 0, 1), (1, 3853, 0), (1, 0, 1)])
    good = checked(segment, BASE, FoundIndexes())
    times = indexes.decode_time_index(good.time_index, base_offset=BASE).copy()
    times["offset"][times["timestamp"] == 1] = told[-1][1]
    wrong = FoundIndexes(good.offset_index, indexes.encode_time_index(times, base_offset=BASE))
    result = checked(segment, BASE, wrong)
    assert set(result.rebuilt) == {"time index"}
    assert_look_ups_end_right(told, result.offset_index, result.time_index)


@given(_shapes, st.data())
def test_an_index_by_append_as_followers_write_it_is_right(shape, data) -> None:
    """One entry for all that one fetch brought: its last offset, and where its first batch starts."""
    segment, told = batches_of(shape)
    offsets, times, since, largest, holder = [], [], 0, -1, BASE
    left = list(told)
    while left:
        append = left[: data.draw(st.integers(1, 4))]
        left = left[len(append) :]
        for _, _, last, timestamp in append:
            if timestamp > largest:
                largest, holder = timestamp, last
        if since > 4096:
            offsets.append((append[-1][2], append[0][0]))
            if largest > (times[-1][0] if times else -1):
                times.append((largest, holder))
            since = 0
        since += (left[0][0] if left else len(segment)) - append[0][0]
    if largest > (times[-1][0] if times else -1):
        times.append((largest, holder))
    found = FoundIndexes(
        indexes.encode_offset_index(np.array(offsets, indexes.OFFSET_ENTRY_DTYPE), base_offset=BASE),
        indexes.encode_time_index(np.array(times, indexes.TIME_ENTRY_DTYPE), base_offset=BASE),
    )
    result = checked(segment, BASE, found)
    assert "time index" not in result.rebuilt
    assert result.time_index == found.time_index
    if offsets:
        assert result.rebuilt == {}
        assert result.offset_index == found.offset_index
    assert_look_ups_end_right(told, result.offset_index, result.time_index)


@given(_shapes, st.lists(st.integers(1, 9000), max_size=30))
def test_the_pieces_in_which_a_segment_passes_by_do_not_matter(shape, lengths) -> None:
    segment, _ = batches_of(shape)
    whole = checked(segment, BASE, FoundIndexes())
    check, view = IndexCheck(BASE, FoundIndexes(), NONE_OPEN), memoryview(segment)
    for length in [*lengths, len(segment)]:
        check.update(view[:length])
        view = view[length:]
    assert check.finish() == whole


def segment_of_some_size() -> tuple[bytes, CheckedIndexes]:
    segment, _ = batches_of([(3, 2000, 100 + step) for step in range(40)])
    return segment, checked(segment, BASE, FoundIndexes())


@pytest.mark.parametrize("damage", [b"", bytes(64), bytes(12 * 8), None])
def test_an_index_that_is_missing_empty_or_all_zeros_is_made_again(damage) -> None:
    segment, good = segment_of_some_size()
    result = checked(segment, BASE, FoundIndexes(damage, damage))
    assert (result.offset_index, result.time_index) == (good.offset_index, good.time_index)
    assert set(result.rebuilt) == {"offset index", "time index"}


@pytest.mark.parametrize("garbage", [b"\xff", b"\x01" * 24, bytes(23), b"\0" * 24 + b"\x01" * 24])
def test_garbage_behind_an_index_is_found_out(garbage) -> None:
    segment, good = segment_of_some_size()
    result = checked(segment, BASE, FoundIndexes(good.offset_index + garbage, good.time_index + garbage))
    assert (result.offset_index, result.time_index) == (good.offset_index, good.time_index)
    assert set(result.rebuilt) == {"offset index", "time index"}


def test_entries_of_batches_that_were_cut_off_are_found_out() -> None:
    segment, long = segment_of_some_size()
    short = segment[: len(segment) // 2]  # all batches are of one size
    good = checked(short, BASE, FoundIndexes())
    result = checked(short, BASE, FoundIndexes(long.offset_index, long.time_index))
    assert (result.offset_index, result.time_index) == (good.offset_index, good.time_index)
    assert result.rebuilt["offset index"] == "the index has an entry after the last batch"


def test_padding_is_cut_and_is_no_fault() -> None:
    segment, good = segment_of_some_size()
    padded = FoundIndexes(good.offset_index + bytes(8 * 100), good.time_index + bytes(12 * 100))
    result = checked(segment, BASE, padded)
    assert (result.offset_index, result.time_index, result.rebuilt) == (good.offset_index, good.time_index, {})


def test_every_second_entry_is_enough_and_one_for_many_megabytes_is_not() -> None:
    segment, good = segment_of_some_size()
    half = b"".join(good.offset_index[at : at + 8] for at in range(0, len(good.offset_index), 16))
    assert checked(segment, BASE, FoundIndexes(half, good.time_index)).rebuilt == {}
    large, _ = batches_of([(1, 100_000, step) for step in range(60)])
    full = checked(large, BASE, FoundIndexes())
    result = checked(large, BASE, FoundIndexes(full.offset_index[:8], full.time_index[-12:]))
    assert set(result.rebuilt) == {"offset index", "time index"}
    assert (result.offset_index, result.time_index) == (full.offset_index, full.time_index)


def test_a_time_index_that_ends_early_lets_retention_delete_too_soon_and_is_made_again() -> None:
    segment, good = segment_of_some_size()
    result = checked(segment, BASE, FoundIndexes(good.offset_index, good.time_index[:-12]))
    assert "ends with timestamp" in result.rebuilt["time index"]
    assert result.time_index == good.time_index


def test_batches_without_timestamps_need_no_time_index_entries() -> None:
    segment, _ = batches_of([(1, 3000, -1)] * 5)
    result = checked(segment, BASE, FoundIndexes(b"", b""))
    assert result.time_index == b""
    assert "time index" not in result.rebuilt


# --- transaction index


def aborted_segment() -> bytes:
    return b"".join(
        [
            lb.data_batch(10, 2, 1, 0, 0, transactional=True),
            lb.marker(12, 1, 0, 0, commit=False),
            lb.marker(13, 2, 0, 0, commit=False),
            lb.marker(14, 3, 0, 0, commit=True),
        ]
    )


def txn_index(*rows: tuple[int, int, int, int]) -> bytes:
    return ti.encode(np.array(list(rows), ti.ABORTED_TXN_DTYPE))


def of_transactions(found: bytes | None, opened: list[tuple[int, int]] | None) -> CheckedIndexes:
    known = None if opened is None else np.array(opened, ti.ONGOING_TXN_DTYPE)
    return check_indexes(aborted_segment(), 10, FoundIndexes(b"", b"", found), known)


def test_a_missing_transaction_index_is_made_so_that_no_reader_sees_aborted_records() -> None:
    result = of_transactions(None, [])
    assert result.transaction_index == txn_index((1, 10, 12, 13))
    assert result.rebuilt["transaction index"] == "it is missing"


def test_transactions_open_at_the_base_offset_come_from_the_snapshot_there() -> None:
    assert of_transactions(None, [(3, 4), (2, 5)]).transaction_index == txn_index((1, 10, 12, 4), (2, 5, 13, 4))


@pytest.mark.parametrize(
    "found",
    [
        b"",
        txn_index((1, 10, 12, 13), (2, 5, 13, 14)),  # 2 had nothing open
        txn_index((1, 9, 12, 13)),
        txn_index((1, 10, 12, 12)),
        txn_index((1, 10, 12, 13)) + b"\0",
        txn_index((1, 10, 12, 13)) + bytes(34),
        b"\x01" + txn_index((1, 10, 12, 13))[1:],
    ],
)
def test_a_transaction_index_is_exactly_the_aborted_transactions(found) -> None:
    result = of_transactions(found, [])
    assert result.transaction_index == txn_index((1, 10, 12, 13))
    assert "transaction index" in result.rebuilt


def test_a_segment_without_aborted_transactions_has_no_transaction_index() -> None:
    segment = lb.data_batch(10, 2, 1, 0, 0)
    assert checked(segment, 10, FoundIndexes(b"", None, b"")).transaction_index is None
    result = checked(segment, 10, FoundIndexes(b"", None, txn_index((1, 10, 10, 11))))
    assert result.transaction_index is None
    assert "transaction index" in result.rebuilt


@pytest.mark.parametrize(
    ("found", "is_kept"),
    [
        (txn_index((1, 10, 12, 5), (2, 5, 13, 14)), True),  # 2 began before the log, and was open at the first marker
        (txn_index((1, 10, 12, 13), (2, 5, 13, 14)), False),  # then it holds the last stable offset there
        (txn_index((1, 10, 12, 3), (2, 5, 13, 3)), True),  # 3 was open then, and committed
        (txn_index((1, 10, 12, 5)), True),  # a transaction without a marker here was open: readers must look further
        (txn_index((1, 4, 12, 13)), True),  # 1 may have begun before
        (txn_index((1, 10, 12, 13), (3, 5, 14, 15)), False),  # 3 committed
        (txn_index((1, 10, 12, 13), (4, 5, 13, 14)), False),  # no marker of 4 there
        (txn_index((2, 5, 13, 14)), False),  # lacks one that began inside
        (txn_index((1, 10, 12, 14), (2, 5, 13, 14)), False),
    ],
)
def test_where_the_logs_beginning_is_gone_the_file_may_know_older_transactions(found, is_kept) -> None:
    result = of_transactions(found, None)
    assert ("transaction index" not in result.rebuilt) == is_kept
    assert result.transaction_index == (found if is_kept else txn_index((1, 10, 12, 13)))


@pytest.mark.parametrize("cut", [1, 17, 60, 100])
def test_bytes_that_are_no_whole_segment_are_refused(cut) -> None:
    with pytest.raises(CorruptDataError, match="at byte"):
        checked(aborted_segment()[:-cut], 10, FoundIndexes())
    with pytest.raises(CorruptDataError, match="at byte"):
        checked(aborted_segment() + bytes(30), 10, FoundIndexes())
