"""The partitions of a report, built from aggregated tables, and the forecast of local disks.

The forecast contains the bytes that tiering frees, and the days until the disks are full. Its write rate is the average
of the last RECENT_MS before the run, by the timestamps of the records. It ignores deletions by retention, so the disks
may last longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from tiersnap.snapshot.gate.verdict import SEVERITY, WAITING, Verdict
from tiersnap.snapshot.report.aggregate import PARTITION_CODES, RECENT_MS, Aggregated
from tiersnap.snapshot.report.blockers import PageBlocker, cleared_by
from tiersnap.snapshot.report.disk_forecast import DiskForecast, Forecast
from tiersnap.snapshot.report.model import Count, Offsets, PagePartition, Totals, totals_of
from tiersnap.snapshot.report.run_info import Disk, RunInfo, without_user
from tiersnap.snapshot.report.step_place import place_of, segment_file
from tiersnap.snapshot.rows import Rows

Codes = tuple[int, int, int]  # topic, log directory, partition


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of Aggregated.verdicts: the segments of a partition with one verdict."""

    topic: int
    log_dir: int
    partition: int
    verdict: int  # rank in SEVERITY
    count: Count
    first_offset: int
    reason: str
    oldest: int | None
    findings: int
    topic_id: str | None
    recent_bytes: int
    offsets: Offsets

    @property
    def codes(self) -> Codes:
        return self.topic, self.log_dir, self.partition

    @property
    def judged(self) -> Verdict:
        return SEVERITY[self.verdict]

    @property
    def waits_since(self) -> int | None:
        return self.oldest if self.judged in WAITING else None


_ROWS = Rows(_Row)


def partitions(found: Aggregated, run: RunInfo) -> Iterator[tuple[Codes, PagePartition]]:
    """Yield the partitions in the order of their codes, each once and without a timeline."""
    if not found.verdicts.num_rows:
        return
    table = found.verdicts.sort_by([(name, "ascending") for name in (*PARTITION_CODES, "verdict")])
    for codes, group in groupby(_ROWS.read(table.select(_ROWS.names).to_batches()), key=attrgetter("codes")):
        yield codes, _partition(found, run, codes, list(group))


def _partition(found: Aggregated, run: RunInfo, codes: Codes, rows: list[_Row]) -> PagePartition:
    topic_code, log_dir_code, number = codes
    topic, log_dir = found.topics[topic_code], without_user(found.log_dirs[log_dir_code])
    return PagePartition(
        **vars(_totals(rows)),
        **vars(_offsets([row.offsets for row in rows])),
        log_dir=log_dir,
        topic=topic,
        partition=number,
        topic_id=next((row.topic_id for row in rows if row.topic_id is not None), None),
        blocking=tuple(_blockers(rows, run, log_dir, topic)),
    )


def _totals(rows: list[_Row]) -> Totals:
    verdicts: dict[Verdict, Count] = {}
    findings = recent = 0
    for row in rows:
        verdicts[row.judged] = row.count
        findings += row.findings
        recent += row.recent_bytes
    return totals_of(verdicts, findings, recent, _waiting_since(rows))


def _waiting_since(rows: list[_Row]) -> int | None:
    return min((row.waits_since for row in rows if row.waits_since is not None), default=None)


def _offsets(offsets: list[Offsets]) -> Offsets:
    """Return for each field the largest value in `offsets`."""
    return Offsets(
        log_start_offset=max(each.log_start_offset for each in offsets),
        last_stable_offset=_max(each.last_stable_offset for each in offsets),
        high_watermark=_max(each.high_watermark for each in offsets),
    )


def _max(offsets: Iterator[int | None]) -> int | None:
    return max((offset for offset in offsets if offset is not None), default=None)


def _causes(rows: Iterable[_Row]) -> list[_Row]:
    """Return the rows whose verdicts block segments. Rows of GAP_BEFORE are included only if no other row blocks."""
    causes: list[_Row] = []
    behind_gap: list[_Row] = []
    for row in rows:
        if row.judged is Verdict.GAP_BEFORE:
            behind_gap.append(row)
        elif row.judged in WAITING:
            causes.append(row)
    # The rows may be filtered, so the segment that GAP_BEFORE waits for may be missing.
    return causes or behind_gap


def _blockers(rows: list[_Row], run: RunInfo, log_dir: str, topic: str) -> Iterator[PageBlocker]:
    """Yield the verdicts that block segments of a partition, in offset order."""
    for row in sorted(_causes(rows), key=lambda row: row.first_offset):
        on_host = run.collected.get(log_dir, log_dir)
        file = segment_file(on_host, topic, row.partition, row.first_offset)
        yield PageBlocker(
            verdict=row.judged,
            base_offset=row.first_offset,
            segments=row.count.segments,
            bytes=row.count.bytes,
            reason=row.reason,
            **cleared_by(place_of(run, (on_host,)).beside(file).steps(row.judged)),
        )


DAY_MS = 86_400_000


def forecast(total: Totals, partitions: Iterable[PagePartition], disks: Iterable[Disk]) -> Forecast:
    """Return the forecast of local disks. `total` are the totals of all segments."""
    recent: Counter[str] = Counter()
    freeable: Counter[str] = Counter()
    for each in partitions:
        recent[each.log_dir] += each.recent_bytes
        freeable[each.log_dir] += each.tiered_bytes + each.uploaded_bytes + each.ready_bytes
    found = []
    for disk in disks:
        recent_bytes = sum(map(recent.__getitem__, disk.log_dirs))
        found.append(_of_disk(disk, recent_bytes, sum(map(freeable.__getitem__, disk.log_dirs))))
    return Forecast(
        bytes_per_day=_per_day(total.recent_bytes),
        tiered=total.tiered_bytes,
        uploaded=total.uploaded_bytes,
        in_remote=total.in_remote_bytes,
        ready=total.ready_bytes,
        waiting=total.waiting_bytes,
        disks=tuple(sorted(found, key=lambda each: (each.free / max(1, each.total), each.mount))),
    )


def _per_day(recent_bytes: int) -> int:
    return recent_bytes * DAY_MS // RECENT_MS


def _of_disk(disk: Disk, recent_bytes: int, freeable: int) -> DiskForecast:
    rate = _per_day(recent_bytes)
    days: float | None = None
    days_when_freed: float | None = None
    if rate:
        days = disk.free / rate
        days_when_freed = (disk.free + freeable) / rate
    return DiskForecast(**vars(disk), bytes_per_day=rate, freeable=freeable, days=days, days_when_freed=days_when_freed)
