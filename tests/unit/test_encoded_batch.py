"""A batch that is made of values, beside the same one of the tests' own builder."""

from __future__ import annotations

import pytest

from tests.reference import log_builder as lb
from tiersnap.snapshot.formats.encoded_batch import encode_batch

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("values", [[b"v"], [b"", b"x" * 70, b"y" * 9000]])
def test_encode_batch_gives_the_bytes_of_kafkas_format(values):
    records = b"".join(lb.record(delta, 0, None, value) for delta, value in enumerate(values))
    count = len(values)
    expected = lb.raw_batch(
        7, last_offset_delta=count - 1, record_count=count, records=records, leader_epoch=5,
        base_timestamp=1_700_000_000_001, max_timestamp=1_700_000_000_001,
    )  # fmt: skip
    assert encode_batch(values, base_offset=7, leader_epoch=5, timestamp=1_700_000_000_001) == expected
