"""A log of 52 weeks in small segments: few bytes a week, and all the segments that a year has."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from tests.reference import log_builder as lb

DAY = 86_400_000
WEEK = 7 * DAY
NOW = lb.TIMESTAMP + 52 * WEEK
_RECORDS = 10
_PAYLOAD = b"v" * 200


@dataclass(frozen=True)
class YearLog:
    """`year-0`, so many segments a week, each with as many batches; every producer writes for a week.

    Attributes:
        batches: of a segment.
    """

    segments_a_week: int = 4
    batches: int = 8

    @property
    def segments(self) -> int:
        return 52 * self.segments_a_week

    @property
    def records(self) -> int:
        """Of a segment."""
        return self.batches * _RECORDS

    def write(self, log_dir: Path, weeks: int = 52) -> int:
        """Write the first weeks, as a broker leaves them that has been on all the time; the bytes of the segments."""
        entries = {base: self._segment(number, base) for number, base in self._bases(weeks)}
        end = weeks * self.segments_a_week * self.records
        folder = lb.write_partition(log_dir, "year", 0, entries, high_watermark=end, indexes=True)
        for number, base in self._bases(weeks):
            newest = self._time(number) + _RECORDS - 1
            stem = folder / f"{base:020d}"
            stem.with_suffix(".timeindex").write_bytes(struct.pack(">qi", newest, self.records - 1))
            os.utime(stem.with_suffix(".log"), ns=(newest * 1_000_000,) * 2)
        return sum(len(entry) for segment in entries.values() for entry in segment)

    def _bases(self, weeks: int) -> list[tuple[int, int]]:
        return [(number, number * self.records) for number in range(weeks * self.segments_a_week)]

    def _time(self, number: int) -> int:
        return lb.TIMESTAMP + number * WEEK // self.segments_a_week

    def _segment(self, number: int, base: int) -> list[bytes]:
        producer_id = number // self.segments_a_week
        first = number % self.segments_a_week * self.records
        return [
            lb.data_batch(
                base + step * _RECORDS,
                _RECORDS,
                producer_id,
                0,
                first + step * _RECORDS,
                timestamp=self._time(number),
                payload=_PAYLOAD,
            )
            for step in range(self.batches)
        ]
