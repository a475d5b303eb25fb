"""Transaction index: bytes, and rebuilding the broker's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import log_builder as lb
from tests.reference.folded import fold
from tests.reference.planned import open_transactions
from tests.reference.recovered import DATA, has_legacy_entries, recovered, rows_of
from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.formats import transaction_index as ti
from tiersnap.snapshot.producer_fold import to_entries

pytestmark = pytest.mark.unit

GOLDEN = bytes.fromhex("0000" + "0000000000000001" + "0000000000000064" + "000000000000006e" + "000000000000006f")
NONE = np.empty(0, ti.ONGOING_TXN_DTYPE)
RECOVERED = recovered()
PARTITIONS = sorted({str(Path(path).parent) for path in RECOVERED if not has_legacy_entries(path)})


def test_the_golden_entry_decodes_and_encodes() -> None:
    entries = ti.decode(GOLDEN, base_offset=100)
    assert entries.tolist() == [(1, 100, 110, 111)]
    assert ti.encode(entries) == GOLDEN


def test_an_empty_index_has_no_entries() -> None:
    assert ti.decode(b"", base_offset=0).size == 0
    assert ti.encode(np.empty(0, ti.ABORTED_TXN_DTYPE)) == b""


@pytest.mark.parametrize(
    ("data", "position", "message"),
    [
        (GOLDEN + GOLDEN[:5], 34, "length expected a multiple of 34, found 39"),
        (b"\x01" + GOLDEN[1:], 0, "version expected 0, found 1"),
        (GOLDEN + GOLDEN, 34, "last offset expected at least 111, found 110"),
        (GOLDEN[:18] + (99).to_bytes(8, "big") + GOLDEN[26:], 0, "last offset expected at least 100, found 99"),
    ],
)
def test_what_breaks_the_rules_is_refused(data: bytes, position: int, message: str) -> None:
    with pytest.raises(CorruptIndexError, match=message) as raised:
        ti.decode(data, base_offset=100, name="t-0/100.txnindex")
    assert raised.value.message.startswith(f"t-0/100.txnindex at byte {position}: ")


@given(
    st.lists(
        st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**62)),
        unique_by=lambda entry: entry[2],
        max_size=20,
    )
)
def test_an_encoded_index_decodes_to_itself(rows: list[tuple[int, int, int, int]]) -> None:
    entries = np.array(sorted(rows, key=lambda row: row[2]), ti.ABORTED_TXN_DTYPE)
    assert ti.decode(ti.encode(entries), base_offset=0).tolist() == entries.tolist()


@pytest.mark.parametrize("partition", PARTITIONS)
def test_rebuilding_gives_the_brokers_own_bytes_segment_after_segment(partition: str) -> None:
    ongoing = NONE
    for log in sorted((DATA / partition).glob("*.log")):
        aborted, ongoing = ti.rebuild(rows_of(log.read_bytes()), ongoing)
        observed = ti.encode(aborted)
        live = log.with_suffix(".txnindex")
        assert observed == (live.read_bytes() if live.exists() else b""), log
        assert observed == RECOVERED[str(log.relative_to(DATA))].transaction_index, log
        assert ti.decode(observed, base_offset=int(log.stem)).tolist() == aborted.tolist()


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_state_at_a_segments_start_is_all_that_is_needed_of_the_past(partition: str) -> None:
    past: list[np.ndarray] = []
    ongoing = NONE
    for log in sorted((DATA / partition).glob("*.log")):
        rows = rows_of(log.read_bytes())
        entries = to_entries(fold(np.concatenate(past))) if past else np.empty(0, to_entries(fold(rows)).dtype)
        assert open_transactions(entries) == ongoing.tolist()
        past.append(rows)
        _, ongoing = ti.rebuild(rows, ongoing)


def test_an_abort_of_nothing_leaves_no_entry() -> None:
    rows = rows_of(lb.data_batch(0, 2, 5, 0, 0) + lb.marker(2, 555, 9, 2, commit=False))
    aborted, ongoing = ti.rebuild(rows, NONE)
    assert aborted.size == 0
    assert ongoing.size == 0


def test_the_fold_example_of_kafka_gives_one_entry() -> None:
    """Producer 17 aborts @4 under a higher epoch; 1000 committed; 33 begins after; 555 aborts nothing."""
    segment = [
        lb.data_batch(0, 2, 1000, 0, 0, transactional=True),
        lb.data_batch(2, 1, 17, 3, 5, transactional=True),
        lb.marker(3, 1000, 0, 4, commit=True),
        lb.marker(4, 17, 4, 6, commit=False),
        lb.data_batch(5, 1, 1, 2, 7),
        lb.data_batch(6, 4, 33, 0, 2147483646, transactional=True),
        lb.marker(10, 555, 9, 2, commit=False),
    ]
    aborted, ongoing = ti.rebuild(rows_of(b"".join(segment)), NONE)
    assert aborted.tolist() == [(17, 2, 4, 5)]
    assert ongoing.tolist() == [(33, 6)]


def test_the_last_stable_offset_is_that_of_the_oldest_transaction_of_another_producer() -> None:
    segment = [
        lb.data_batch(10, 1, 1, 0, 0, transactional=True),
        lb.data_batch(11, 1, 2, 0, 0, transactional=True),
        lb.data_batch(12, 1, 3, 0, 0, transactional=True),
        lb.marker(13, 2, 0, 0, commit=False),
        lb.marker(14, 1, 0, 0, commit=True),
        lb.marker(15, 3, 0, 0, commit=False),
    ]
    before = np.array([(9, 4)], ti.ONGOING_TXN_DTYPE)
    rows = rows_of(b"".join(segment))
    assert ti.rebuild(rows, NONE)[0].tolist() == [(2, 11, 13, 10), (3, 12, 15, 16)]
    assert ti.rebuild(rows, before)[0].tolist() == [(2, 11, 13, 4), (3, 12, 15, 4)]


def test_an_emptied_marker_ends_nothing_and_an_emptied_data_batch_begins_a_transaction() -> None:
    segment = [
        lb.empty_batch(0, 3, 1, 0, 0, transactional=True),
        lb.empty_batch(3, 1, 1, 0, transactional=True, control=True),
        lb.marker(4, 1, 0, 0, commit=False),
        lb.leader_change(5),
    ]
    aborted, ongoing = ti.rebuild(rows_of(b"".join(segment)), NONE)
    assert aborted.tolist() == [(1, 0, 4, 5)]
    assert ongoing.size == 0


_events = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["data", "plain", "abort", "commit"])), max_size=40)


@given(_events, st.lists(st.integers(0, 40), max_size=3))
def test_any_mix_of_transactions_gives_what_a_readable_replay_gives(
    events: list[tuple[int, str]], cuts: list[int]
) -> None:
    segment = []
    for offset, (producer, event) in enumerate(events):
        if event in ("abort", "commit"):
            segment.append(lb.marker(offset, producer, 0, 0, commit=event == "commit"))
        else:
            segment.append(lb.data_batch(offset, 1, producer, 0, 0, transactional=event == "data"))
    rows = rows_of(b"".join(segment))
    parts, ongoing = [], NONE
    for part in np.split(rows, sorted(min(cut, rows.size) for cut in cuts)):
        aborted, ongoing = ti.rebuild(part, ongoing)
        parts += aborted.tolist()
    expected, opened = _replay(events)
    assert parts == expected
    assert ongoing.tolist() == opened
    assert ti.rebuild(rows, NONE)[0].tolist() == expected


def _replay(events: list[tuple[int, str]]) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int]]]:
    opened: dict[int, int] = {}
    aborted = []
    for offset, (producer, event) in enumerate(events):
        if event == "data":
            opened.setdefault(producer, offset)
        elif event in ("abort", "commit") and producer in opened:
            first = opened.pop(producer)
            if event == "abort":
                aborted.append((producer, first, offset, min(opened.values(), default=offset + 1)))
    return aborted, sorted(opened.items(), key=lambda item: item[1])
