"""Find the offset at which a bounded scan of a listed partition begins."""

from __future__ import annotations

from typing import Any

from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.formats.indexes import decode_time_index
from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.replay.scan_window import window_offset


def mark_window(row: dict[str, Any], filesystem: FileSystem, partition: Partition, since: int) -> None:
    """Set `window_offset` of the row, and what the time indexes say of its closed segments."""
    largest: list[int | None] = []
    for segment, listed in zip(partition.segments, row["segments"], strict=True):
        listed["largest_timestamp"] = None if segment.is_active else _largest_timestamp(filesystem, segment)
        # A time index that lost its end tells too early a time. Then the file's own time, if it was kept, is later.
        written = segment.log.modified_ns // 1_000_000
        largest.append(None if listed["largest_timestamp"] is None else max(listed["largest_timestamp"], written))
    bases = [segment.base_offset for segment in partition.segments]
    found = window_offset(bases, largest, since)
    if found is not None and partition.high_watermark is not None:
        # What transactions are open at the high watermark must be known.
        below = [base for base in bases if base <= max(partition.high_watermark, partition.log_start_offset)]
        found = min(found, below[-1]) if len(below) > 1 else None
    row["window_offset"] = found if found is None or found > bases[0] else None
    if row["start"] is not None and row["start"]["offset"] < (row["window_offset"] or 0):
        row["start"] = None  # no replay begins there


def _largest_timestamp(filesystem: FileSystem, segment: Segment) -> int | None:
    """The last entry of the segment's time index (ms), None where there is no index or no time in it."""
    if segment.time_index is None:
        return None
    try:
        entries = decode_time_index(read_bounded(filesystem, segment.time_index.path), base_offset=segment.base_offset)
    except (OSError, CorruptIndexError):
        return None
    return int(entries["timestamp"][-1]) if entries.size and entries["timestamp"][-1] > 0 else None
