"""What tiering frees on local disks, and how long they last at the present rate.

A rate is what was written within RECENT_MS before the run began, by the timestamps of the records: bytes of the
segments whose newest record is that young. What retention deletes meanwhile is not taken off, so disks may last longer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tiersnap.snapshot.report.aggregate import RECENT_MS
from tiersnap.snapshot.report.model import PartitionReport, Report
from tiersnap.snapshot.report.run_info import Disk

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class DiskForecast:
    """One file system.

    Attributes:
        bytes_per_day: that the log directories on it grow by.
        freeable: bytes of segments on it that are in remote storage, or go there with the next run.
        days: until it is full; None where nothing grows.
        days_when_freed: the same once the freeable bytes are gone.
    """

    disk: Disk
    bytes_per_day: int
    freeable: int
    days: float | None
    days_when_freed: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """All log directories; bytes.

    Attributes:
        bytes_per_day: that they grow by.
        tiered: local copies of what is in remote storage; a broker deletes them when local.retention.* says so.
        ready: likewise after the next run.
        waiting: that stay until what stands in the way is cleared.
    """

    bytes_per_day: int
    tiered: int
    ready: int
    waiting: int
    disks: tuple[DiskForecast, ...]


def forecast(report: Report) -> Forecast:
    """The forecast of a report, fullest disk first."""
    total = report.cluster
    recent: Counter[str] = Counter()
    freeable: Counter[str] = Counter()
    for partition in (each for topic in report.topics for each in topic.partitions):
        recent[partition.log_dir] += partition.totals.recent_bytes
        freeable[partition.log_dir] += _freeable(partition)
    disks = [
        _of_disk(disk, sum(recent[each] for each in disk.log_dirs), sum(freeable[each] for each in disk.log_dirs))
        for disk in report.run.disks
    ]
    return Forecast(
        bytes_per_day=_per_day(total.recent_bytes),
        tiered=total.tiered.bytes,
        ready=total.ready.bytes,
        waiting=total.waiting.bytes,
        disks=tuple(sorted(disks, key=lambda each: (each.disk.free / max(1, each.disk.total), each.disk.mount))),
    )


def _freeable(partition: PartitionReport) -> int:
    return partition.totals.tiered.bytes + partition.totals.ready.bytes


def _per_day(recent_bytes: int) -> int:
    return recent_bytes * DAY_MS // RECENT_MS


def _of_disk(disk: Disk, recent_bytes: int, freeable: int) -> DiskForecast:
    rate = _per_day(recent_bytes)
    return DiskForecast(
        disk=disk,
        bytes_per_day=rate,
        freeable=freeable,
        days=disk.free / rate if rate else None,
        days_when_freed=(disk.free + freeable) / rate if rate else None,
    )
