"""A scan as samples."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.metrics.of_run import Standing, of_ended
from tiersnap.snapshot.metrics.samples import Sample
from tiersnap.snapshot.readiness.scanned import Scanned
from tiersnap.snapshot.readiness.verdict import Verdict
from tiersnap.snapshot.report.model import Count


class ScanMetrics:
    """The metrics of the segments that a scan has seen.

    Attributes:
        by_partition: a sample a partition, and not only a topic.
    """

    def __init__(self, *, by_partition: bool) -> None:
        self.by_partition = by_partition
        self._standing = Standing()
        self._started = time.time_ns() // 1_000_000

    def add(self, scanned: Scanned) -> None:
        """Count one partition."""
        examination = scanned.examination
        counts: dict[Verdict, Count] = {}
        for segment, readiness in zip(examination.segments, scanned.readiness, strict=True):
            counts[readiness.verdict] = counts.get(readiness.verdict, Count()) + Count(1, segment.size)
        partition = examination.partition
        forgotten = 0 if scanned.forgotten is None else scanned.forgotten.count
        number = (("partition", str(partition.partition)),) if self.by_partition else ()
        self._standing.add((("topic", partition.topic), *number), counts, len(examination.findings), forgotten)

    def samples(self, exit_code: ExitCode) -> Iterator[Sample]:
        """All of it, now that the scan has ended."""
        yield from self._standing.samples()
        yield from of_ended(exit_code, started_at=self._started, finished_at=time.time_ns() // 1_000_000)
