"""Find faults in a segment's index files: wrong file sizes, or wrong entries."""

from __future__ import annotations

from collections.abc import Iterator

from tiersnap.snapshot.formats.index_order import SegmentExtent, fault_of_order, fault_of_size
from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.log.segment_walk import SegmentEnd


def faults_by_size(segment: Segment) -> tuple[str, ...]:
    """Return a message for each index file of a wrong size in a closed segment. No file is read."""
    if segment.is_active:
        return ()
    faults: list[str] = []
    for name, ref in _indexes(segment):
        fault = fault_of_size(name, ref.size, segment.log.size)
        if fault:
            faults.append(f"{name}: {fault}")
    return tuple(faults)


def faults_by_order(filesystem: FileSystem, segment: Segment, end: SegmentEnd) -> tuple[str, ...]:
    """Return a message for each index file of a closed segment, if the file has the right size but wrong entries.

    An unreadable index gives no message, because the upload rebuilds it.

    Args:
        end: result of the segment's scan. If the segment is damaged, its indexes are not checked.
    """
    if segment.is_active or end.finding is not None:
        return ()
    extent = SegmentExtent(segment.base_offset, end.last_offset, end.total_bytes, end.max_timestamp)
    faults: list[str] = []
    for name, ref in _indexes(segment):
        if fault_of_size(name, ref.size, segment.log.size):
            continue
        data = _read(filesystem, ref)
        if data is None:
            continue
        fault = fault_of_order(name, data, extent)
        if fault:
            faults.append(f"{name}: {fault}")
    return tuple(faults)


def _indexes(segment: Segment) -> Iterator[tuple[str, FileRef]]:
    found = {
        "offset index": segment.offset_index,
        "time index": segment.time_index,
        "transaction index": segment.transaction_index,
    }
    for name, ref in found.items():
        if ref is not None:
            yield name, ref


def _read(filesystem: FileSystem, ref: FileRef) -> bytes | None:
    try:
        return read_bounded(filesystem, ref.path)
    except OSError:
        return None
