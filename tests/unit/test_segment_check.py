"""A segment is what its headers say: one digest however it is read, another one after any change."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reference.examples import examples
from tests.reference.log_builder import TIMESTAMP, data_batch, legacy_entry
from tests.reference.logs import Log, logs
from tests.reference.recovered import rows_of
from tests.reference.segment_digest import digest
from tiersnap.snapshot.log import windows
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.segment_check import SegmentCheck
from tiersnap.snapshot.log.segment_scan import SegmentEnd, SegmentScan
from tiersnap.snapshot.log.windows import BufferedWindows, MappedWindows

pytestmark = pytest.mark.unit
in_folder = settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])


def scanned(folder: Path, data: bytes, base: int, end: int | None, *, check_crc: bool = True, window: int = 1 << 20):
    path = folder / "segment.log"
    path.write_bytes(data)
    scan = SegmentScan(
        LOCAL,
        str(path),
        base_offset=base,
        next_base_offset=end,
        check_crc=check_crc,
        keep_rows=False,
        window_bytes=window,
    )
    assert list(scan) == []
    return scan.end


def streamed(data: bytes, cuts: list[int], base: int, end: int | None, **more) -> SegmentEnd:
    check = SegmentCheck(base, end, **more)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, stop in pairwise(edges):
        check.update(memoryview(data)[start:stop])
    return check.finish()


@in_folder
@given(logs(), st.sampled_from([100, 150, 1000, 1 << 20]), st.booleans())
def test_the_digest_is_that_of_the_readable_form_through_windows_of_any_size(
    tmp_path: Path, log: Log, window: int, check_crc: bool
) -> None:
    end = scanned(tmp_path, log.bytes, log.base, log.end, window=window, check_crc=check_crc)
    assert (end.digest, end.crc_checked) == (digest(log.bytes), check_crc)


@in_folder
@given(logs(), st.lists(st.integers(0, 1 << 16), max_size=30), st.booleans())
def test_a_stream_ends_as_the_scan_of_its_file_does_and_gives_its_rows(
    tmp_path: Path, log: Log, cuts: list[int], is_closed: bool
) -> None:
    limit = log.end if is_closed else None
    kept: list[np.ndarray] = []
    found = streamed(log.bytes, cuts, log.base, limit, on_rows=lambda rows: kept.append(rows.copy()))
    assert found == scanned(tmp_path, log.bytes, log.base, limit)
    assert [row for rows in kept for row in rows.tolist()] == rows_of(log.bytes).tolist()


@in_folder
@given(logs(), st.integers(0, 1 << 16), st.integers(0, 7), st.lists(st.integers(0, 1 << 16), max_size=9), st.booleans())
def test_a_damaged_stream_ends_as_the_scan_of_its_file_does(
    tmp_path: Path, log: Log, at: int, bit: int, cuts: list[int], knows_size: bool
) -> None:
    data = bytearray(log.bytes)
    data[at % len(data)] ^= 1 << bit
    for broken in (bytes(data), log.bytes[: at % len(data)], log.bytes + bytes(at % 100), log.bytes + bytes(50) + b"x"):
        size = len(broken) if knows_size else None
        found = streamed(broken, cuts, log.base, log.end, size=size, name=str(tmp_path / "segment.log"))
        assert found == scanned(tmp_path, broken, log.base, log.end)


@in_folder
@given(st.data())
def test_any_changed_bit_of_any_header_changes_the_digest(tmp_path: Path, data: st.DataObject) -> None:
    """Read without CRCs, as far as the change lets it: the digest, or the damage, tells."""
    log = data.draw(logs())
    before = scanned(tmp_path, log.bytes, log.base, None, check_crc=False)
    number = data.draw(st.integers(0, len(log.entries) - 1))
    position = len(log.segment(0, number))
    length = 61 if log.entries[number][1][16] == 2 else 26
    changed = bytearray(log.bytes)
    changed[position + data.draw(st.integers(0, length - 1))] ^= 1 << data.draw(st.integers(0, 7))
    after = scanned(tmp_path, bytes(changed), log.base, None, check_crc=False)
    assert after.digest != before.digest


def test_every_bit_of_a_header_counts_and_none_stands_for_another_where_no_crc_tells() -> None:
    batch, old = data_batch(7, 2, 5, 0, 3), legacy_entry(9)
    whole = batch + old + legacy_entry(10, magic=0)
    for start, length, uncovered in ((0, 61, 21), (len(batch), 26, 16)):
        seen: list[str] = []
        for bit in range(length * 8):
            if 8 <= bit // 8 < 12 or bit // 8 == 16:
                continue  # the length and the magic say where and what the next entry is
            changed = bytearray(whole)
            changed[start + bit // 8] ^= 1 << bit % 8
            assert digest(bytes(changed)) != digest(whole)
            seen += [digest(bytes(changed))] if bit // 8 < uncovered else []
        assert len(set(seen)) == len(seen) >= 12 * 8


def test_two_entries_that_change_places_give_another_digest(tmp_path: Path) -> None:
    a, b = (data_batch(offset, 1, 7, 0, 0, timestamp=TIMESTAMP + offset) for offset in (0, 1))
    assert digest(a + b) != digest(b + a)


def test_a_log_that_was_cut_and_filled_again_to_its_size_is_another_one(tmp_path: Path) -> None:
    first, second = (b"".join(data_batch(i, 1, 7, 0, i, payload=text) for i in range(9)) for text in (b"old", b"new"))
    assert len(first) == len(second)
    assert scanned(tmp_path, first, 0, 9).digest != scanned(tmp_path, second, 0, 9).digest


def test_a_payload_that_its_crc_does_not_bear_out_is_damage_as_soon_as_it_has_passed() -> None:
    good = [data_batch(offset, 1, 7, 0, offset, payload=b"payload") for offset in range(3)]
    flipped = bytearray(b"".join(good))
    flipped[len(good[0]) + 70] ^= 1
    check = SegmentCheck(0, 3, name="a.log")
    check.update(flipped[: len(good[0])])
    assert check.finding is None
    check.update(flipped[len(good[0]) : len(good[0]) + len(good[1])])
    assert check.finding is not None
    assert (check.finding.finding_kind, check.finding.position) == (FindingKind.BAD_CRC, len(good[0]))
    check.update(flipped[len(good[0]) + len(good[1]) :])
    end = check.finish()
    assert (end.total_bytes, end.valid_bytes, end.batch_count, end.finding) == (
        len(flipped),
        len(good[0]),
        1,
        check.finding,
    )
    unchecked = streamed(bytes(flipped), [], 0, 3, check_crc=False)
    assert (unchecked.finding, unchecked.crc_checked, unchecked.digest) == (None, False, digest(b"".join(good)))


def test_a_batch_that_claims_more_than_there_is_is_not_waited_for_in_memory() -> None:
    batch = bytearray(data_batch(0, 1, 7, 0, 0))
    batch[8:12] = (2_000_000_000).to_bytes(4, "big")
    check = SegmentCheck(0, 1, size=64 << 20)
    for piece in [bytes(batch), *[bytes(1 << 20)] * 64]:
        check.update(piece[: (64 << 20) - check.size])
    assert check._feed.left_over < 3 << 20
    end = check.finish()
    assert end.finding is not None
    assert end.finding.finding_kind is FindingKind.TRUNCATED_SEGMENT


@pytest.mark.parametrize("knows_size", [True, False])
@pytest.mark.parametrize("end", [9, None])
def test_a_header_that_is_damage_in_two_pieces_is_it_as_in_one(
    tmp_path: Path, end: int | None, knows_size: bool
) -> None:
    good, wrong = data_batch(0, 1, 7, 0, 0), bytearray(data_batch(1, 1, 7, 0, 1))
    wrong[8:12], wrong[16] = (2_000_000_000).to_bytes(4, "big"), 9
    data = good + bytes(wrong)
    of_file = scanned(tmp_path, data, 0, end)
    assert of_file.finding is not None
    assert of_file.finding.finding_kind is FindingKind.BAD_MAGIC
    size = len(data) if knows_size else None
    for cut in range(len(good), len(data)):
        assert streamed(data, [cut], 0, end, size=size, name=str(tmp_path / "segment.log")) == of_file


@pytest.mark.parametrize(
    ("entries", "record_time", "largest"),
    [
        ([legacy_entry(0, timestamp=TIMESTAMP + 5), data_batch(1, 1)], TIMESTAMP + 5, TIMESTAMP + 5),
        ([data_batch(0, 1), legacy_entry(1, timestamp=TIMESTAMP - 5)], TIMESTAMP, TIMESTAMP),
        ([legacy_entry(0, attributes=2, timestamp=TIMESTAMP + 9)], TIMESTAMP + 9, TIMESTAMP + 9),  # a wrapper
        ([legacy_entry(0, magic=0), legacy_entry(1, magic=0)], -1, 7_000),
        ([data_batch(0, 1, timestamp=-1)], -1, 7_000),
        ([data_batch(0, 1, timestamp=0)], 0, 0),
        ([], -1, 7_000),
    ],
)
def test_the_largest_timestamp_is_the_brokers(
    tmp_path: Path, entries: list[bytes], record_time: int, largest: int
) -> None:
    """LogSegment.largestTimestamp: of the batches, the file's time only where none has one."""
    end = scanned(tmp_path, b"".join(entries), 0, None)
    assert (end.max_timestamp, end.largest_timestamp(7_000_999_999)) == (record_time, largest)


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("kind", [MappedWindows, BufferedWindows])
def test_files_that_may_not_be_read_are_no_damage(tmp_path: Path, monkeypatch, kind: type, is_closed: bool) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(windows, "_CACHED_BYTES", -1 if kind is MappedWindows else 1 << 20)
    monkeypatch.setattr(kind, "__init__", refuse)
    end = scanned(tmp_path, b"", 0, 5 if is_closed or kind is MappedWindows else None)
    assert end.finding is not None
    assert (end.finding.finding_kind, end.finding.message) == (FindingKind.PERMISSION_DENIED, "Permission denied")
