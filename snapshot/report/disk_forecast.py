"""The forecast of local disks: what local retention may delete, and how long the disks last."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.report.run_info import Disk, Size


@dataclass(frozen=True, kw_only=True)
class DiskForecast(Disk):
    """One file system.

    Attributes:
        bytes_per_day: that the log directories on it grow by.
        freeable: bytes of segments on it that are tiered, or will be after the next run and `tiersnap publish`.
        days: until it is full; None where nothing grows.
        days_when_freed: the same once the freeable bytes are gone.
    """

    bytes_per_day: Size
    freeable: Size
    days: float | None
    days_when_freed: float | None


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """All log directories; bytes.

    Attributes:
        bytes_per_day: that they grow by.
        tiered: local files of segments that brokers know in remote storage; local.retention.* deletes them.
        uploaded: likewise after `tiersnap publish`.
        in_remote: likewise if brokers know them, which nobody asked.
        ready: likewise after the next run and `tiersnap publish`.
        waiting: that stay until what stands in the way is cleared.
        disks: the fullest first.
    """

    bytes_per_day: Size
    tiered: Size
    uploaded: Size
    in_remote: Size
    ready: Size
    waiting: Size
    disks: tuple[DiskForecast, ...]
