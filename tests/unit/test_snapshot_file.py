"""Producer snapshot files: Kafka's own bytes, round trips, and every way to be corrupt."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.reference.recovered import DATA
from tiersnap.snapshot.errors import CorruptSnapshotError, ExitCode
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.kernels.crc import checksum_by_library, checksum_by_table

pytestmark = pytest.mark.unit

TWO_ENTRIES = bytes.fromhex(
    "0001b67fedad00000002"
    "0000000000000001000200000009000000000000006d000000040000018bcfe56800000000030000000000000064"
    "000000000000000b000cffffffffffffffffffffffff000000000000018bcfe5687bffffffffffffffffffffffff"
)
EMPTY = bytes.fromhex("000148674bc700000000")

entries = npst.arrays(ENTRY_DTYPE, st.integers(0, 20), elements=npst.from_dtype(ENTRY_DTYPE)).map(
    lambda rows: rows[np.unique(rows["producer_id"], return_index=True)[1]]
)


def test_the_bytes_kafka_4_1_1_wrote_are_read_and_written_again() -> None:
    decoded = snapshot_file.decode(TWO_ENTRIES)
    assert decoded.tolist() == [
        (1, 2, 9, 109, 4, 1700000000000, 3, 100),
        (11, 12, -1, -1, 0, 1700000000123, -1, -1),
    ]
    assert snapshot_file.encode(decoded) == TWO_ENTRIES


def test_no_entries_are_ten_bytes() -> None:
    assert snapshot_file.encode(np.empty(0, ENTRY_DTYPE)) == EMPTY
    assert snapshot_file.decode(EMPTY).size == 0


@given(entries)
def test_encoding_and_decoding_are_inverses(rows: np.ndarray) -> None:
    data = snapshot_file.encode(rows)
    assert len(data) == 10 + 46 * rows.size
    assert snapshot_file.decode(data).tolist() == rows.tolist()


@given(entries, st.randoms())
def test_one_state_is_one_file_whatever_the_order(rows: np.ndarray, random: object) -> None:
    shuffled = rows.copy()
    np.random.default_rng(random.getrandbits(32)).shuffle(shuffled)  # type: ignore[attr-defined]
    assert snapshot_file.encode(shuffled) == snapshot_file.encode(rows)


@given(npst.arrays(ENTRY_DTYPE, st.integers(0, 20), elements=npst.from_dtype(ENTRY_DTYPE)), st.integers(1, 5))
def test_of_a_producer_that_is_named_twice_the_last_entry_counts_as_in_a_brokers_map(
    rows: np.ndarray, producers: int
) -> None:
    rows["producer_id"] %= producers
    body = struct.pack(">i", rows.size) + b"".join(struct.pack(">qhiqiqiq", *row) for row in rows.tolist())
    loaded = {row[0]: row for row in rows.tolist()}
    decoded = snapshot_file.decode(struct.pack(">hI", 1, crc32c(body)) + body)
    assert decoded.tolist() == [loaded[producer_id] for producer_id in sorted(loaded)]
    assert snapshot_file.decode(snapshot_file.encode(rows)).tolist() == decoded.tolist()


@pytest.mark.parametrize("path", sorted(DATA.glob("*/logs/*/*.snapshot")), ids=lambda path: "/".join(path.parts[-4:]))
def test_every_real_file_is_read_whole_and_written_back_with_the_same_entries(path: object) -> None:
    data = path.read_bytes()  # type: ignore[attr-defined]
    decoded = snapshot_file.decode(data)
    again = snapshot_file.encode(decoded)
    assert len(again) == len(data)
    on_disk = {data[at : at + 46] for at in range(10, len(data), 46)}
    assert {again[at : at + 46] for at in range(10, len(again), 46)} == on_disk


def version_2() -> bytes:
    return struct.pack(">h", 2) + TWO_ENTRIES[2:]


def count_of_three() -> bytes:
    body = struct.pack(">i", 3) + TWO_ENTRIES[10:]
    return struct.pack(">hI", 1, crc32c(body)) + body


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes"),
        (TWO_ENTRIES[:9], "9 bytes"),
        (TWO_ENTRIES[:56], "has 56 bytes, but a snapshot of 2 entries (the count at byte 6) has 102"),
        (TWO_ENTRIES + b"\0", "has 103 bytes, but a snapshot of 2 entries (the count at byte 6) has 102"),
        (version_2(), "version at byte 0 is 2, expected 1"),
        (count_of_three(), "the file has 102 bytes, but a snapshot of 3 entries (the count at byte 6) has 148"),
        (TWO_ENTRIES[:50] + b"\xff" + TWO_ENTRIES[51:], "CRC at byte 2 is b67fedad"),
        (bytes(102), "version at byte 0 is 0"),
        (TWO_ENTRIES[:6] + b"\xff\xff\xff\xff" + TWO_ENTRIES[10:], "-1 entries"),
    ],
)
def test_what_a_broker_would_refuse_is_corrupt_and_says_where(data: bytes, said: str) -> None:
    with pytest.raises(CorruptSnapshotError) as caught:
        snapshot_file.decode(data, name="00000000000000000110.snapshot")
    assert said in str(caught.value)
    assert str(caught.value).startswith("00000000000000000110.snapshot: ")
    assert caught.value.exit_code is ExitCode.DATA_CORRUPT
    assert "tiersnap repair" in caught.value.hint


@given(st.binary(max_size=300), st.integers(0, 5))
def test_both_forms_of_the_checksum_agree_with_google_crc32c(data: bytes, start: int) -> None:
    buffer = np.frombuffer(data, np.uint8)
    start = min(start, len(data))
    expected = crc32c(data[start:])
    assert checksum_by_table(buffer, start, len(data) - start) == expected
    assert checksum_by_library(buffer, start, len(data) - start) == expected


def test_the_checksum_of_the_published_check_string() -> None:
    assert crc32c(b"123456789") == 0xE3069283
