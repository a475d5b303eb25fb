"""The builder of test logs writes what Kafka writes."""

from __future__ import annotations

import pytest

from tests.reference import log_builder as lb

pytestmark = pytest.mark.unit


def test_a_marker_is_the_golden_abort_marker_of_kafka() -> None:
    observed = lb.marker(110, 1, 2, 7, commit=False, timestamp=1700000000200, leader_epoch=5)
    expected = bytes.fromhex(
        "000000000000006e000000420000000502"
        "9a7aae28003000000000"
        "0000018bcfe568c80000018bcfe568c8"
        "00000000000000010002ffffffff00000001"
        "2000000008000000000c00000000000700"
    )
    assert observed == expected
    assert len(observed) == 78


def test_records_make_the_golden_data_batch_of_kafka() -> None:
    records = lb.record(0, 0, b"k", b"v") + lb.record(1, 1, None, b"w")
    observed = lb.raw_batch(
        105,
        last_offset_delta=1,
        record_count=2,
        records=records,
        attributes=lb.TRANSACTIONAL,
        base_timestamp=1700000000000,
        max_timestamp=1700000000001,
        producer_id=1,
        epoch=2,
        base_sequence=5,
        leader_epoch=5,
    )
    expected = bytes.fromhex(
        "0000000000000069000000420000000502"
        "577b5994001000000001"
        "0000018bcfe568000000018bcfe56801"
        "0000000000000001000200000005"
        "00000002"
        "10000000026b02760"
        "00e000202010277"
        "00"
    )
    assert observed == expected


@pytest.mark.parametrize("value", [0, -1, 1, 63, 64, -64, -65, 2**31 - 1, -(2**63), 2**63 - 1])
def test_varints_decode_to_what_was_encoded(value: int) -> None:
    raw = 0
    for shift, byte in enumerate(lb.varint(value)):
        raw |= (byte & 0x7F) << (7 * shift)
    assert (raw >> 1) ^ -(raw & 1) == value
