"""The forecast of local disks: bytes that local retention can delete, and days until the disks are full."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.report.run_info import Disk, Size


@dataclass(frozen=True, kw_only=True)
class DiskForecast(Disk):
    """The forecast of one file system.

    Attributes:
        bytes_per_day: growth of its log directories.
        freeable: bytes of segments that are tiered, or will be after the next run and `tiersnap publish`.
        days: days until the file system is full; None without growth.
        days_when_freed: days until the file system is full if the freeable bytes are deleted; None without growth.
    """

    bytes_per_day: Size
    freeable: Size
    days: float | None
    days_when_freed: float | None


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The forecast of all log directories, in bytes.

    Attributes:
        bytes_per_day: growth of the log directories.
        tiered: segments that local.retention.* deletes, because brokers have them in remote storage.
        uploaded: segments that local.retention.* deletes after `tiersnap publish`.
        in_remote: segments that local.retention.* deletes if brokers have published them, which is unknown.
        ready: segments that local.retention.* deletes after the next run and `tiersnap publish`.
        waiting: segments that stay until nothing blocks them.
        disks: forecasts by file system, the fullest first.
    """

    bytes_per_day: Size
    tiered: Size
    uploaded: Size
    in_remote: Size
    ready: Size
    waiting: Size
    disks: tuple[DiskForecast, ...]
