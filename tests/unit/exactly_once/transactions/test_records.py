"""Records inside batches: every codec, what real brokers wrote, and damage."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import log_builder as lb
from tests.reference.record_batch import read_segment
from tiersnap.snapshot.errors import CorruptRecordError
from tiersnap.snapshot.formats.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, decompress
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import Segment, open_log_dir
from tiersnap.snapshot.log.records import SegmentRecords

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[3] / "data"
parts = st.none() | st.binary(max_size=300)
small = st.integers(-(2**40), 2**40)


def snappy_block(data: bytes) -> bytes:
    return pa.Codec("snappy").compress(data, asbytes=True)


def snappy_java(data: bytes, block: int = 40) -> bytes:
    """As snappy-java writes it: a header, then blocks behind their lengths."""
    blocks = [snappy_block(data[start : start + block]) for start in range(0, len(data), block)]
    framed = b"".join(struct.pack(">i", len(each)) + each for each in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


COMPRESS = {
    "none": (NONE, bytes),
    "gzip": (GZIP, gzip.compress),
    "snappy of snappy-java": (SNAPPY, snappy_java),
    "snappy of other clients": (SNAPPY, snappy_block),
    "lz4": (LZ4, lambda data: pa.Codec("lz4").compress(data, asbytes=True)),
    "zstd": (ZSTD, lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
}


def one_segment(log_dir: Path, batches: list[bytes]) -> Segment:
    lb.write_partition(log_dir, "t", 0, {0: batches})
    (partition,) = open_log_dir(str(log_dir)).partitions()
    return partition.segments[0]


def batch_of(records: bytes, count: int, codec: int, *, base_offset: int = 0, last_delta: int | None = None) -> bytes:
    """A batch whose records are `records` as they are stored; offsets up to 99 unless `last_delta` says less."""
    delta = 99 if last_delta is None else last_delta
    return lb.raw_batch(base_offset, last_offset_delta=delta, record_count=count, records=records, attributes=codec)


def records_of(segment: Segment) -> tuple[list, list]:
    records = SegmentRecords(LOCAL, segment)
    return list(records), records.findings


@given(
    st.lists(st.tuples(st.integers(0, 99), small, parts, parts), max_size=6), st.sampled_from(list(COMPRESS.values()))
)
def test_records_are_read_as_they_were_written(written, how) -> None:
    codec, compress = how
    payload = b"".join(lb.record(offset, timestamp, key, value) for offset, timestamp, key, value in written)
    with TemporaryDirectory() as folder:
        records, findings = records_of(one_segment(Path(folder), [batch_of(compress(payload), len(written), codec)]))
    assert findings == []
    expected = [(0, offset, lb.TIMESTAMP + timestamp, key, value) for offset, timestamp, key, value in written]
    assert [tuple(each) for each in records] == expected


@given(st.binary(max_size=80), st.integers(-1, 9), st.sampled_from([NONE, GZIP]))
def test_any_bytes_are_records_or_a_finding_and_never_a_crash(data: bytes, count: int, codec: int) -> None:
    stored = gzip.compress(data) if codec else data
    with TemporaryDirectory() as folder:
        segment = one_segment(Path(folder), [batch_of(stored, count, codec), lb.data_batch(100, 1)])
        records, findings = records_of(segment)
    assert records[-1].offset == 100
    assert len(records) - 1 == (0 if findings else count)
    assert {each.finding_kind for each in findings} <= {FindingKind.BAD_RECORD}


def test_bytes_behind_the_records_are_damage() -> None:
    with TemporaryDirectory() as folder:
        _, findings = records_of(one_segment(Path(folder), [batch_of(lb.record(0, 0, b"k", b"v") + b"\0", 1, NONE)]))
    assert [each.finding_kind for each in findings] == [FindingKind.BAD_RECORD]


def test_compressed_and_plain_batches_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    kinds = [NONE, NONE, GZIP, NONE, GZIP, GZIP, NONE]
    batches = [
        batch_of(
            (gzip.compress if codec else bytes)(lb.record(0, 0, b"k", b"v")), 1, codec, base_offset=number, last_delta=0
        )
        for number, codec in enumerate(kinds)
    ]
    records, findings = records_of(one_segment(tmp_path, batches))
    assert ([each.offset for each in records], findings) == (list(range(len(kinds))), [])


@pytest.mark.parametrize(("codec", "compress"), COMPRESS.values(), ids=COMPRESS.keys())
def test_every_codec_gives_the_records_back(codec: int, compress, tmp_path: Path) -> None:
    payload = b"".join(lb.record(number, number * 2, b"k" * number, b"value %d" % number) for number in range(50))
    assert decompress(codec, compress(payload)) == payload
    batch = batch_of(compress(payload), 50, codec, base_offset=7)
    records, findings = records_of(one_segment(tmp_path, [batch]))
    assert findings == []
    assert [(each.offset, each.timestamp) for each in records] == [(7 + n, lb.TIMESTAMP + 2 * n) for n in range(50)]
    assert records[3].key == b"kkk"
    assert records[3].value == b"value 3"


@pytest.mark.parametrize(("codec", "compress"), [each for each in COMPRESS.values() if each[0]])
def test_compressed_bytes_that_are_cut_changed_or_too_many_are_damage(codec: int, compress) -> None:
    whole = compress(bytes(range(256)) * 8)
    for data in (whole[: len(whole) // 2], b"\xff" * 40, b""):
        with TemporaryDirectory() as folder:
            _, findings = records_of(one_segment(Path(folder), [batch_of(data, 3, codec)]))
        assert [each.finding_kind for each in findings] == [FindingKind.BAD_RECORD]
    with pytest.raises(CorruptRecordError, match="more than 100 bytes"):
        decompress(codec, whole, largest=100)


def test_a_codec_that_nobody_knows_is_damage() -> None:
    with pytest.raises(CorruptRecordError, match="codec is 5"):
        decompress(5, b"x")


@pytest.mark.parametrize("name", ["kafka-2.7.2", "kafka-3.9.1", "kafka-4.1.1", "ledger-2.7.2"])
def test_a_real_log_has_the_records_that_its_headers_count(name: str) -> None:
    count = 0
    for partition in open_log_dir(str(DATA / name / "logs")).partitions():
        for segment in partition.segments:
            read = read_segment(Path(segment.log.path).read_bytes())
            if read.legacy_count or partition.cleaner_offset is not None:
                continue
            records, findings = records_of(segment)
            assert findings == []
            data = [batch for batch in read.batches if not batch.attributes & 0x20]
            offsets = [batch.base_offset + number for batch in data for number in range(batch.record_count)]
            assert [each.offset for each in records] == offsets
            count += len(records)
    assert count > 300


def test_markers_are_no_records_and_append_time_is_the_batchs(tmp_path: Path) -> None:
    batches = [lb.data_batch(0, 2, log_append_time=True, timestamp=500), lb.marker(2, 7, 0, 1, commit=True)]
    records, findings = records_of(one_segment(tmp_path, batches))
    assert [(each.offset, each.timestamp) for each in records] == [(0, 501), (1, 501)]
    assert findings == []


def test_a_batch_that_is_no_records_is_a_finding_and_the_next_is_read(tmp_path: Path) -> None:
    bad = lb.raw_batch(0, last_offset_delta=0, record_count=1, records=b"\x07nothing")
    records, findings = records_of(one_segment(tmp_path, [bad, lb.data_batch(1, 1)]))
    assert [each.offset for each in records] == [1]
    assert [each.finding_kind for each in findings] == [FindingKind.BAD_RECORD]


def test_a_segment_that_is_damaged_or_of_an_old_format_says_so(tmp_path: Path) -> None:
    flipped = bytearray(lb.data_batch(1, 1))
    flipped[-1] ^= 1
    records, findings = records_of(one_segment(tmp_path / "a", [lb.data_batch(0, 1), bytes(flipped)]))
    assert [each.offset for each in records] == [0]
    assert [each.finding_kind for each in findings] == [FindingKind.BAD_CRC]
    _, findings = records_of(one_segment(tmp_path / "b", [lb.legacy_entry(0)]))
    assert [each.finding_kind for each in findings] == [FindingKind.BAD_MAGIC]


def test_a_segment_that_is_gone_is_a_finding(tmp_path: Path) -> None:
    segment = one_segment(tmp_path, [lb.data_batch(0, 1)])
    Path(segment.log.path).unlink()
    records, findings = records_of(segment)
    assert records == []
    assert [each.finding_kind for each in findings] == [FindingKind.DELETED_FILE]
