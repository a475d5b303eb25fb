"""Numbers and times as people read them."""

from __future__ import annotations

import pytest

from tiersnap.snapshot.units import utc

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (1795264963642, "2026-11-21T12:42:43.642Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (253402300800000, "10000-01-01T00:00:00.000Z"),
        (9223372036854775807, "292278994-08-17T07:12:55.807Z"),
        (-1, None),
        (None, None),
    ],
)
def test_utc_says_a_time_of_any_year_in_iso_8601(milliseconds, said):
    assert utc(milliseconds) == said
