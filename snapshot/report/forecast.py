"""What tiering frees on local disks, and how long they last at the present rate.

A rate is what was written within RECENT_MS before the run began, by the timestamps of the records: bytes of the
segments whose newest record is that young. What retention deletes meanwhile is not taken off, so disks may last longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tiersnap.snapshot.report.aggregate import RECENT_MS
from tiersnap.snapshot.report.model import DiskForecast, Forecast, PagePartition, Totals
from tiersnap.snapshot.report.run_info import Disk

DAY_MS = 86_400_000


def forecast(total: Totals, partitions: Iterable[PagePartition], disks: Iterable[Disk]) -> Forecast:
    """Return the forecast of all segments, the partitions that they are of, and the disks below them."""
    recent: Counter[str] = Counter()
    freeable: Counter[str] = Counter()
    for each in partitions:
        recent[each.log_dir] += each.recent_bytes
        freeable[each.log_dir] += each.tiered_bytes + each.ready_bytes
    found = [
        _of_disk(disk, sum(recent[each] for each in disk.log_dirs), sum(freeable[each] for each in disk.log_dirs))
        for disk in disks
    ]
    return Forecast(
        bytes_per_day=_per_day(total.recent_bytes),
        tiered=total.tiered_bytes,
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
