"""CRCs of bytes that nobody reads, against those of a library that does."""

from __future__ import annotations

import struct

import google_crc32c
import numpy as np
import pytest

from tests.reference import log_builder as lb
from tests.reference.recovered import DATA
from tiersnap.snapshot.formats.crc32c import crc32c, crc32c_behind, crc32c_of_rows
from tiersnap.snapshot.formats.records import COVERED, records_crc

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("length", [0, 1, 1_048_575, 1_048_576, 1_048_577, 2_500_000])
def test_crc_of_a_view_is_that_of_its_bytes(length):
    data = bytearray(np.random.default_rng(length).bytes(length + 6))
    assert crc32c(memoryview(data)[6:]) == google_crc32c.value(bytes(data[6:]))


@pytest.mark.parametrize("length", [0, 1, 2, 7, 40, 255, 256, 65_537, 1_000_003])
def test_crc_behind_a_prefix_is_that_of_the_bytes_behind_it(length):
    random = np.random.default_rng(length)
    prefixes = random.integers(0, 256, (5, 40), np.uint8)
    behind = [random.bytes(length) for _ in prefixes]
    whole = [google_crc32c.value(prefix.tobytes() + more) for prefix, more in zip(prefixes, behind, strict=True)]
    crcs = crc32c_of_rows(prefixes)
    assert crcs.tolist() == [google_crc32c.value(prefix.tobytes()) for prefix in prefixes]
    found = crc32c_behind(np.array(whole), crcs, np.full(5, length))
    assert found.tolist() == [google_crc32c.value(more) for more in behind]


def test_crcs_behind_prefixes_of_different_lengths_are_found_together():
    random = np.random.default_rng(1)
    behind = [random.bytes(int(length)) for length in random.integers(0, 5000, 200)]
    prefix = random.bytes(40)
    whole = np.array([google_crc32c.value(prefix + more) for more in behind])
    found = crc32c_behind(whole, np.full(200, google_crc32c.value(prefix)), np.array([len(more) for more in behind]))
    assert found.tolist() == [google_crc32c.value(more) for more in behind]


def test_the_longest_batch_has_a_shift():
    # Zeros behind a CRC of 0 leave it 0; the library cannot be asked about 2 GiB in a test.
    assert crc32c_behind(np.array([7]), np.array([0]), np.array([2**31 - 1])).tolist() == [7]
    once = crc32c_behind(np.array([0]), np.array([5]), np.array([2**30]))
    assert crc32c_behind(np.array([0]), once, np.array([2**30 - 1])) == crc32c_behind(
        np.array([0]), np.array([5]), np.array([2**31 - 1])
    )


HEADER = struct.Struct(">qiibIhiqqqhii")
NAMES = ("base_offset", "batch_length", "leader_epoch", "magic", "crc", *COVERED.names)


def batches(data: bytes) -> tuple[dict[str, np.ndarray], list[bytes]]:
    """Columns of the headers of a segment's batches of magic 2, and their records."""
    headers, records, position = [], [], 0
    while position + HEADER.size <= len(data):
        header = HEADER.unpack_from(data, position)
        end = position + 12 + header[1]
        if header[3] == 2:
            headers.append(header)
            records.append(data[position + HEADER.size : end])
        position = end
    return dict(zip(NAMES, np.array(headers, np.int64).reshape(-1, len(NAMES)).T, strict=True)), records


@pytest.mark.parametrize("name", ["kafka-2.7.2", "kafka-3.9.1", "kafka-4.1.1", "ledger-2.7.2"])
def test_records_crc_of_every_bundled_batch_is_that_of_its_records(name):
    compared = 0
    for path in sorted((DATA / name / "logs").glob("*/*.log")):
        headers, records = batches(path.read_bytes())
        assert records_crc(headers).tolist() == [google_crc32c.value(each) for each in records]
        compared += len(records)
    assert compared > 500


def test_batch_that_was_sent_again_under_other_numbers_has_the_same_records_crc():
    payload = bytes(range(256)) * 5
    sent = [
        lb.data_batch(0, 3, 7, 0, 40, payload=payload),
        lb.data_batch(3, 3, 7, 1, 0, payload=payload),
        lb.data_batch(6, 3, 2**40, 9, 2**31 - 2, payload=payload, transactional=True),
        lb.data_batch(9, 3, 7, 1, 3, payload=payload[:-1] + b"x"),
    ]
    headers, _ = batches(b"".join(sent))
    crcs = records_crc(headers).tolist()
    assert crcs[0] == crcs[1] == crcs[2] != crcs[3]
    assert len(set(headers["crc"])) == 4
