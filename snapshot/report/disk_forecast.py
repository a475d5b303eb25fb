"""The forecast of local disks: the bytes that local retention may delete, and the days until the disks are full."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.report.run_info import Disk, Size


@dataclass(frozen=True, kw_only=True)
class DiskForecast(Disk):
    """One file system.

    Attributes:
        bytes_per_day: growth of its log directories.
        freeable: bytes of segments that are tiered, or will be after the next run and `tiersnap publish`.
        days: until the file system is full; None without growth.
        days_when_freed: until it is full if the freeable bytes are deleted.
    """

    bytes_per_day: Size
    freeable: Size
    days: float | None
    days_when_freed: float | None


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """All log directories; bytes.

    Attributes:
        bytes_per_day: growth.
        tiered: segments that brokers know in remote storage; local.retention.* deletes them.
        uploaded: segments that local.retention.* deletes after `tiersnap publish`.
        in_remote: segments that local.retention.* deletes if brokers know them, which is unknown.
        ready: segments that local.retention.* deletes after the next run and `tiersnap publish`.
        waiting: segments that stay until they are no longer blocked.
        disks: the fullest first.
    """

    bytes_per_day: Size
    tiered: Size
    uploaded: Size
    in_remote: Size
    ready: Size
    waiting: Size
    disks: tuple[DiskForecast, ...]
