"""A log of five segments, and the same without the third: what tests of lost segments begin with."""

from __future__ import annotations

from tests.reference.log_builder import data_batch

SEGMENTS = {
    0: [data_batch(0, 10, 1, 0, 0)],
    10: [data_batch(10, 10, 2, 0, 0)],
    20: [data_batch(20, 5, 2, 0, 10), data_batch(25, 5, 3, 0, 0)],  # the one that is lost
    30: [data_batch(30, 10, 1, 0, 10)],
    40: [data_batch(40, 5, 1, 0, 20)],
}
LEFT = {base: segment for base, segment in SEGMENTS.items() if base != 20}
NOW = ("--now", "2023-11-15T00:00:00Z")
