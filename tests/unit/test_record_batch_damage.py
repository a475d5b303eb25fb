"""Segments as disks really have them: cut, flipped, zero-filled, foreign; and both decoders in agreement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reference import log_builder as lb
from tests.reference.record_batch import read_segment
from tests.reference.recovered import DATA
from tests.reference.walked import walked
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.segment_scan import SegmentEnd, SegmentScan
from tiersnap.snapshot.log.windows import WINDOW_BYTES

pytestmark = pytest.mark.unit

LOGS = sorted(str(path.relative_to(DATA)) for path in DATA.glob("*/logs/*/*.log"))
ACTIVE = None

BATCHES = [
    lb.data_batch(10, 3, 7, 0, 0, transactional=True, payload=b"abc"),
    lb.data_batch(13, 2, 7, 0, 3, transactional=True, payload=b"defg"),
    lb.marker(15, 7, 0, 4, commit=False),
]
SEGMENT = b"".join(BATCHES)
SECOND, THIRD = len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1])


@pytest.fixture
def scan(tmp_path: Path) -> Callable[..., tuple[list[tuple[int, ...]], SegmentEnd]]:
    def run(
        data: bytes,
        next_base_offset: int | None = 16,
        *,
        base_offset: int = 10,
        check_crc: bool = True,
        window_bytes: int = WINDOW_BYTES,
    ) -> tuple[list[tuple[int, ...]], SegmentEnd]:
        path = tmp_path / f"{base_offset:020d}.log"
        path.write_bytes(data)
        segment = SegmentScan(
            LOCAL,
            str(path),
            base_offset=base_offset,
            next_base_offset=next_base_offset,
            check_crc=check_crc,
            window_bytes=window_bytes,
        )
        rows = [row for part in segment for row in part.tolist()]
        return rows, segment.end

    return run


def flipped(data: bytes, position: int, bit: int = 0x01) -> bytes:
    return data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :]


def with_field(data: bytes, position: int, value: bytes) -> bytes:
    return data[:position] + value + data[position + len(value) :]


# --- ends of files


def test_zero_bytes_are_normal_in_the_active_segment_and_a_finding_in_a_closed_one(scan) -> None:
    rows, end = scan(b"", ACTIVE)
    assert (rows, end.total_bytes, end.last_offset, end.finding) == ([], 0, 9, None)
    rows, end = scan(b"")
    assert end.finding.finding_kind == FindingKind.EMPTY_SEGMENT


def test_a_missing_file_is_a_finding(tmp_path: Path) -> None:
    for next_base_offset in (None, 5):
        segment = SegmentScan(LOCAL, str(tmp_path / "gone.log"), base_offset=0, next_base_offset=next_base_offset)
        assert list(segment) == []
        assert segment.end.finding.finding_kind == FindingKind.DELETED_FILE


@pytest.mark.parametrize("cut", range(1, len(BATCHES[2])))
def test_a_partial_tail_is_reported_with_its_valid_bytes(scan, cut: int) -> None:
    data = SEGMENT[:-cut]
    rows, end = scan(data, ACTIVE)
    assert (len(rows), end.valid_bytes, end.total_bytes, end.last_offset) == (2, THIRD, len(data), 14)
    assert end.finding is None, "the broker was writing"
    rows, end = scan(data)
    assert (len(rows), end.valid_bytes) == (2, THIRD)
    assert (end.finding.finding_kind, end.finding.position) == (FindingKind.TRUNCATED_SEGMENT, THIRD)
    assert f"ends after {len(data) - THIRD} byte" in end.finding.message


def test_a_closed_segment_that_ends_at_a_batch_is_whole(scan) -> None:
    rows, end = scan(SEGMENT)
    assert (len(rows), end.valid_bytes, end.last_offset, end.finding) == (3, len(SEGMENT), 15, None)


@pytest.mark.parametrize("zeros", [1, 17, 18, 60, 4096])
def test_a_zero_filled_tail_is_preallocation_in_the_active_segment(scan, zeros: int) -> None:
    rows, end = scan(SEGMENT + bytes(zeros), ACTIVE)
    assert (len(rows), end.valid_bytes, end.finding) == (3, len(SEGMENT), None)
    rows, end = scan(SEGMENT + bytes(zeros))
    assert (end.finding.finding_kind, end.finding.position) == (FindingKind.TRUNCATED_SEGMENT, len(SEGMENT))


@pytest.mark.parametrize("window_bytes", [64, 1000, WINDOW_BYTES])
def test_zeros_with_something_behind_them_are_damage_even_in_the_active_segment(scan, window_bytes: int) -> None:
    data = SEGMENT + bytes(5000) + b"\x01"
    _, end = scan(data, ACTIVE, window_bytes=window_bytes)
    assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_SIZE, len(SEGMENT))


def test_offsets_at_or_above_the_next_segments_base_are_a_finding(scan) -> None:
    _, end = scan(SEGMENT, 15)
    assert end.finding.finding_kind == FindingKind.OFFSETS_OVERLAP


# --- one flipped byte, field by field of the second batch


@pytest.mark.parametrize("position", [*range(17, 61), 61, len(BATCHES[1]) - 1])
def test_a_flip_anywhere_under_the_crc_is_a_bad_crc_at_that_batch(scan, position: int) -> None:
    for next_base_offset in (16, ACTIVE):
        rows, end = scan(flipped(SEGMENT, SECOND + position), next_base_offset)
        assert len(rows) == 1
        assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_CRC, SECOND)
        assert (end.valid_bytes, end.last_offset) == (SECOND, 12)


@pytest.mark.parametrize("position", range(12, 16))
def test_the_leader_epoch_is_not_under_the_crc_and_a_flip_there_is_invisible_to_brokers_too(
    scan, position: int
) -> None:
    rows, end = scan(flipped(SEGMENT, SECOND + position))
    assert (len(rows), end.finding) == (3, None)
    assert rows[1][3] != 0


@pytest.mark.parametrize("position", range(8))
def test_a_base_offset_that_fell_is_found_where_it_fell_and_one_that_rose_at_the_next_batch(
    scan, position: int
) -> None:
    _, end = scan(flipped(SEGMENT, SECOND + position, 0x80))
    if position == 0:  # the sign
        assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_OFFSET, SECOND)
    else:
        assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_OFFSET, THIRD)
    _, end = scan(with_field(SEGMENT, SECOND, (12).to_bytes(8, "big")))
    assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_OFFSET, SECOND)
    assert "is 12, expected at least 13" in end.finding.message


@pytest.mark.parametrize(
    ("length", "kind"),
    [
        (-1, FindingKind.BAD_SIZE),
        (0, FindingKind.BAD_SIZE),
        (13, FindingKind.BAD_SIZE),
        (48, FindingKind.BAD_SIZE),
        (49, FindingKind.BAD_CRC),
        (len(BATCHES[1]) - 13, FindingKind.BAD_CRC),
        (len(BATCHES[1]) - 11, FindingKind.BAD_CRC),
        (1 << 30, FindingKind.TRUNCATED_SEGMENT),
    ],
)
def test_a_wrong_length_is_found_at_its_batch(scan, length: int, kind: FindingKind) -> None:
    rows, end = scan(with_field(SEGMENT, SECOND + 8, length.to_bytes(4, "big", signed=True)))
    assert len(rows) == 1
    assert (end.finding.finding_kind, end.finding.position, end.valid_bytes) == (kind, SECOND, SECOND)


@pytest.mark.parametrize("magic", [3, 4, 127, 255, 128])
def test_an_unknown_magic_is_found_at_its_batch(scan, magic: int) -> None:
    rows, end = scan(with_field(SEGMENT, SECOND + 16, bytes([magic])))
    assert len(rows) == 1
    assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_MAGIC, SECOND)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_magic_that_flips_to_an_old_one_does_not_make_a_batch_vanish(scan, magic: int) -> None:
    """Recovery checks the CRC-32 that such an entry would have and cuts the file there."""
    rows, end = scan(with_field(SEGMENT, SECOND + 16, bytes([magic])))
    assert len(rows) == 1
    assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_CRC, SECOND)


def test_without_crc_checks_only_the_structure_is_damage(scan) -> None:
    rows, end = scan(flipped(SEGMENT, SECOND + 61), check_crc=False)
    assert (len(rows), end.finding) == (3, None)
    _, end = scan(flipped(SEGMENT, SECOND + 23, 0x80), check_crc=False)  # lastOffsetDelta below zero
    assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_OFFSET, SECOND)


# --- control records


@pytest.mark.parametrize(
    "batch",
    [
        lb.control_batch(0, lb.KRAFT_VERSION, b"\0\0\0\1", producer_id=7, epoch=0),
        lb.control_batch(0, -1, bytes(6), producer_id=7, epoch=0),
        lb.control_batch(0, lb.ABORT, bytes(6), producer_id=7, epoch=0, key_version=-1),
        lb.control_batch(0, lb.ABORT, bytes(5), producer_id=7, epoch=0),
        lb.control_batch(0, lb.COMMIT, b"\xff\xff" + bytes(4), producer_id=7, epoch=0),
        lb.control_batch(0, lb.COMMIT, bytes(6), producer_id=7, epoch=0, attributes=lb.CONTROL | 1),
        lb.raw_batch(0, last_offset_delta=0, record_count=1, records=b"", attributes=lb.CONTROL, producer_id=7),
        lb.raw_batch(
            0, last_offset_delta=0, record_count=1, records=b"\xff" * 11, attributes=lb.CONTROL, producer_id=7
        ),
        lb.raw_batch(
            0, last_offset_delta=0, record_count=1, records=b"\x10\0\0\0", attributes=lb.CONTROL, producer_id=7
        ),
        lb.raw_batch(
            0, last_offset_delta=0, record_count=1, records=b"\x08\0\0\0\2\0", attributes=lb.CONTROL, producer_id=7
        ),
        lb.raw_batch(0, last_offset_delta=0, record_count=-1, records=b"", attributes=lb.CONTROL, producer_id=7),
    ],
    ids=[
        "a KRaft record with a producer id",
        "a negative type",
        "a negative key version",
        "a value cut short",
        "a negative value version",
        "compressed",
        "no record",
        "an endless varint",
        "a record longer than the batch",
        "a key of one byte",
        "fewer than no records",
    ],
)
def test_a_wrong_control_record_is_a_finding_at_its_batch(scan, batch: bytes) -> None:
    first = lb.data_batch(-5 + 5, 1)
    later = with_field(batch, 0, (1).to_bytes(8, "big"))
    rows, end = scan(first + later, ACTIVE, base_offset=0)
    assert len(rows) == 1
    assert (end.finding.finding_kind, end.finding.position) == (FindingKind.BAD_CONTROL_RECORD, len(first))
    assert read_segment(first + later).why == "control"


def test_kraft_records_and_later_versions_are_no_damage(scan) -> None:
    data = b"".join(
        [
            lb.leader_change(0),
            lb.control_batch(1, 99, b"", timestamp=5),
            lb.control_batch(2, lb.COMMIT, (9).to_bytes(2, "big") + bytes(4) + b"more", producer_id=1, key_version=3),
        ]
    )
    rows, end = scan(data, 3, base_offset=0)
    assert end.finding is None
    assert [row[14] for row in rows] == [lb.LEADER_CHANGE, 99, lb.COMMIT]


# --- windows


@pytest.mark.parametrize("window_bytes", [1, 17, 18, 61, 78, 100, 101, 5000])
@pytest.mark.parametrize("active", [True, False])
def test_a_batch_larger_than_the_window_is_read_through_a_larger_one(scan, window_bytes: int, active: bool) -> None:
    data = SEGMENT + lb.data_batch(16, 1, payload=bytes(3000)) + lb.legacy_entry(17) + lb.data_batch(18, 2)
    expected = scan(data, ACTIVE if active else 20)
    assert expected[1].finding is None
    assert scan(data, ACTIVE if active else 20, window_bytes=window_bytes) == expected


@pytest.mark.parametrize("window_bytes", [90, 150, 222, WINDOW_BYTES])
def test_a_gap_between_batches_is_seen_whatever_the_window(scan, window_bytes: int) -> None:
    data = lb.data_batch(0, 1) + lb.data_batch(1, 1) + lb.data_batch(5, 1) + lb.data_batch(6, 1)
    _, end = scan(data, 7, base_offset=0, window_bytes=window_bytes)
    assert end.has_gaps


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 2])
@pytest.mark.parametrize("entry", [lb.data_batch(0, 2, 7, 0, 0), lb.legacy_entry(0, 1)])
def test_an_offset_after_which_there_is_none_is_a_finding(scan, entry: bytes, offset: int) -> None:
    # Neither the CRC of a batch nor that of an entry covers its offset.
    damaged = with_field(entry, 0, offset.to_bytes(8, "big"))
    good = lb.data_batch(0, 1, 7, 0, 0)
    rows, end = scan(good + damaged, None, base_offset=0)
    assert len(rows) == 1
    is_last_possible = entry[16] == 1 and offset == 2**63 - 2
    assert (end.finding is None) == is_last_possible
    if not is_last_possible:
        assert end.finding is not None
        assert end.finding.finding_kind is FindingKind.BAD_OFFSET
        assert end.valid_bytes == len(good)
    assert _fast(good + damaged)[4] == REASONS[read_segment(good + damaged).why]


# --- both decoders, on everything


def _fast(data: bytes, last_offset: int = -1, *, check_crc: bool = True) -> tuple[list[tuple[int, ...]], int, int, int]:
    rows, position, reason, state = walked(data, last_offset=last_offset, check_crc=check_crc)
    return rows.tolist(), position, int(state["legacy_count"]), int(state["last_offset"]), reason


REASONS = {
    "end": kernels.END,
    "partial": kernels.PARTIAL,
    "zeros": kernels.ZEROS,
    "size": kernels.BAD_SIZE,
    "magic": kernels.BAD_MAGIC,
    "crc": kernels.BAD_CRC,
    "offset": kernels.BAD_OFFSET,
    "control": kernels.BAD_CONTROL,
}


def assert_alike(data: bytes) -> None:
    expected = read_segment(data)
    assert _fast(data) == (
        expected.rows(),
        expected.valid_bytes,
        expected.legacy_count,
        expected.last_offset,
        REASONS[expected.why],
    )


@pytest.mark.parametrize("log", LOGS)
def test_real_segments_decode_as_the_readable_decoder_does(log: str) -> None:
    data = (DATA / log).read_bytes()
    assert_alike(data)
    assert read_segment(data).why == "end"


_int64 = st.integers(-(2**63), 2**63 - 1)
_int32 = st.integers(-(2**31), 2**31 - 1)
_int16 = st.integers(-(2**15), 2**15 - 1)
_batches = st.builds(
    lambda **fields: lambda offset: lb.raw_batch(offset, **fields),
    last_offset_delta=st.integers(0, 4) | _int32,
    record_count=st.integers(0, 3) | _int32,
    records=st.binary(max_size=40) | st.just(lb.record(0, 3, bytes(4), bytes(6))),
    attributes=_int16,
    base_timestamp=_int64,
    max_timestamp=_int64,
    producer_id=_int64,
    epoch=_int16,
    base_sequence=_int32,
    leader_epoch=_int32,
)
_entries = st.one_of(
    st.builds(
        lambda count, producer, sequence, transactional: (
            lambda offset: lb.data_batch(offset, count, producer, 0, sequence, transactional)
        ),
        st.integers(1, 5),
        st.integers(-1, 3),
        st.integers(-1, 9),
        st.booleans(),
    ),
    st.builds(
        lambda producer, commit: lambda offset: lb.marker(offset, producer, 1, 2, commit),
        st.integers(0, 3),
        st.booleans(),
    ),
    st.builds(
        lambda count, control: lambda offset: lb.empty_batch(offset, count, control=control),
        st.integers(1, 4),
        st.booleans(),
    ),
    st.builds(
        lambda magic, value: lambda offset: lb.legacy_entry(offset, magic, value=value),
        st.integers(0, 1),
        st.none() | st.binary(max_size=20),
    ),
    _batches,
)


@given(st.lists(st.tuples(_entries, st.integers(0, 6)), max_size=8))
def test_generated_segments_decode_alike(entries: list[tuple[Callable[[int], bytes], int]]) -> None:
    offset, parts = 0, []
    for make, step in entries:
        parts.append(make(offset))
        offset += step
    assert_alike(b"".join(parts))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_segments_decode_alike(data: st.DataObject) -> None:
    segment = bytearray(
        SEGMENT + lb.legacy_entry(16, 0) + lb.legacy_entry(17, 1) + lb.empty_batch(18, 2) + lb.leader_change(20)
    )
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(segment) - 1))
        segment[position] = data.draw(st.integers(0, 255))
    assert_alike(bytes(segment[: data.draw(st.integers(0, len(segment)))]))


@given(st.binary(max_size=200))
def test_any_bytes_decode_alike(data: bytes) -> None:
    assert_alike(data)


@given(st.integers(1, 400), st.integers(0, len(SEGMENT)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_windows_never_change_what_a_scan_gives(scan, window_bytes: int, cut: int) -> None:
    data = SEGMENT[:cut]
    rows, end = scan(data, ACTIVE)
    small_rows, small_end = scan(data, ACTIVE, window_bytes=window_bytes)
    assert small_rows == rows
    assert small_end == end


def test_an_active_segment_that_its_broker_cuts_during_the_scan_ends_the_scan(tmp_path: Path) -> None:
    path = tmp_path / f"{10:020d}.log"
    path.write_bytes(SEGMENT)
    segment = SegmentScan(LOCAL, str(path), base_offset=10, next_base_offset=ACTIVE, window_bytes=SECOND + 20)
    rows = iter(segment)
    assert next(rows)["base_offset"].tolist() == [10]
    with path.open("r+b") as file:
        file.truncate(THIRD - 1)
    assert list(rows) == []
    assert (segment.end.valid_bytes, segment.end.last_offset) == (SECOND, 12)
