"""Find a log whose log start offset is above its log end offset. When a broker starts, it deletes such a log.

Such a log exists if an old copy of a disk was restored, but the newer checkpoint was kept (UnifiedLog, LogLoader.load).
"""

from __future__ import annotations

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import LOG_START_OFFSETS, Partition
from tiersnap.snapshot.log.segment_scan import SegmentScan


def find_past_end(partition: Partition, log_end: int) -> Finding | None:
    """Return a finding if the checkpoint's log start offset is above `log_end`, the exclusive end of the log."""
    start = partition.log_start_checkpoint
    if start is None or not partition.segments or start <= log_end:
        return None
    path = f"{partition.path.rpartition('/')[0]}/{LOG_START_OFFSETS}"
    message = f"{partition.name}: the log start offset {start} is above the log end offset {log_end}: "
    message += "a broker deletes this log when it starts"
    return Finding(FindingKind.CORRUPT_CHECKPOINT, path, -1, message)


def read_past_end(filesystem: FileSystem, partition: Partition) -> Finding | None:
    """Return the finding of `find_past_end`. The active segment is read only if the log start is above its base offset.

    If the active segment is damaged, the log end is unknown, and the result is None.
    """
    if not partition.segments:
        return None
    active = partition.segments[-1]
    if find_past_end(partition, active.base_offset) is None:
        return None
    scan = SegmentScan.of(filesystem, active, keep_rows=False)
    for _ in scan:
        pass  # only the end is needed
    if scan.end.finding is not None:
        return None
    return find_past_end(partition, scan.end.last_offset + 1)
