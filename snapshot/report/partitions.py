"""Aggregated tables -> a PagePartition for each replica of a partition, still without timelines.

The forecast says what tiering frees on local disks, and how long they last at the rate of the last RECENT_MS before the
run, by the timestamps of the records. What retention deletes meanwhile is not taken off, so disks may last longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from tiersnap.snapshot.gate.printed_steps import commands, text
from tiersnap.snapshot.gate.verdict import SEVERITY, WAITING, Verdict
from tiersnap.snapshot.report.aggregate import PARTITION_CODES, RECENT_MS, Aggregated
from tiersnap.snapshot.report.disk_forecast import DiskForecast, Forecast
from tiersnap.snapshot.report.model import Count, PageBlocker, PagePartition, Totals, totals_of
from tiersnap.snapshot.report.run_info import Disk, RunInfo, without_user
from tiersnap.snapshot.report.step_place import place_of, segment_file

Codes = tuple[int, int, int]  # topic, log directory, partition


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of Aggregated.verdicts; the fields are its columns."""

    topic: int
    log_dir: int
    partition: int
    verdict: int
    segments: int
    bytes: int
    first_offset: int
    reason: str
    next_step: str
    oldest: int | None
    findings: int
    topic_id: str | None
    recent_bytes: int
    log_start_offset: int
    last_stable_offset: int | None
    high_watermark: int | None

    @property
    def count(self) -> Count:
        return Count(self.segments, self.bytes)


def partitions(found: Aggregated, run: RunInfo) -> Iterator[tuple[Codes, PagePartition]]:
    """Each partition once, in the order of its codes."""
    if not found.verdicts.num_rows:
        return
    table = found.verdicts.sort_by([(name, "ascending") for name in (*PARTITION_CODES, "verdict")])
    columns = [table[name].to_pylist() for name in _Row.__slots__]
    for codes, group in groupby(zip(*columns, strict=True), key=itemgetter(0, 1, 2)):
        yield codes, _partition(found, run, [_Row(*values) for values in group])


def _partition(found: Aggregated, run: RunInfo, rows: list[_Row]) -> PagePartition:
    topic, log_dir, partition = found.topics[rows[0].topic], found.log_dirs[rows[0].log_dir], rows[0].partition
    waiting = [row for row in rows if SEVERITY[row.verdict] in WAITING]
    totals = totals_of(
        {SEVERITY[row.verdict]: row.count for row in rows},
        findings=sum(row.findings for row in rows),
        recent=sum(row.recent_bytes for row in rows),
        waiting_since=min((row.oldest for row in waiting if row.oldest is not None), default=None),
    )
    return PagePartition(
        **vars(totals),
        log_dir=without_user(log_dir),
        topic=topic,
        partition=partition,
        topic_id=next((row.topic_id for row in rows if row.topic_id is not None), None),
        log_start_offset=max(row.log_start_offset for row in rows),
        last_stable_offset=_max(row.last_stable_offset for row in rows),
        high_watermark=_max(row.high_watermark for row in rows),
        blocking=tuple(_blockers(waiting, run, without_user(log_dir), topic)),
    )


def _max(offsets: Iterator[int | None]) -> int | None:
    return max((offset for offset in offsets if offset is not None), default=None)


def _blockers(waiting: list[_Row], run: RunInfo, log_dir: str, topic: str) -> Iterator[PageBlocker]:
    # A filtered table may hold segments that wait for one that is not in it.
    causes = [row for row in waiting if SEVERITY[row.verdict] is not Verdict.GAP_BEFORE] or waiting
    for row in sorted(causes, key=lambda row: row.first_offset):
        on_host = run.collected.get(log_dir, log_dir)
        file = segment_file(on_host, topic, row.partition, row.first_offset)
        clearing = place_of(run, (on_host,)).beside(file).steps(SEVERITY[row.verdict])
        yield PageBlocker(
            verdict=SEVERITY[row.verdict],
            base_offset=row.first_offset,
            segments=row.segments,
            bytes=row.bytes,
            reason=row.reason,
            next_step=text(clearing),
            commands=commands(clearing),
            steps=clearing,
        )


DAY_MS = 86_400_000


def forecast(total: Totals, partitions: Iterable[PagePartition], disks: Iterable[Disk]) -> Forecast:
    """Return the forecast of all segments, the partitions that they are of, and the disks below them."""
    recent: Counter[str] = Counter()
    freeable: Counter[str] = Counter()
    for each in partitions:
        recent[each.log_dir] += each.recent_bytes
        freeable[each.log_dir] += each.tiered_bytes + each.uploaded_bytes + each.ready_bytes
    found = [
        _of_disk(disk, sum(recent[each] for each in disk.log_dirs), sum(freeable[each] for each in disk.log_dirs))
        for disk in disks
    ]
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
    return DiskForecast(
        **vars(disk),
        bytes_per_day=rate,
        freeable=freeable,
        days=disk.free / rate if rate else None,
        days_when_freed=(disk.free + freeable) / rate if rate else None,
    )
