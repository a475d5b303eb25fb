"""Find the snapshots that a broker will delete at its next start, including snapshots that a repair wrote.

A starting broker opens every segment, even below the log start. It recovers a segment if the .index is missing, or if
the .txnindex names an offset below the base offset (LogLoader.loadSegmentFiles). A recovery deletes the snapshots above
the end of the segment. Only the snapshots at the base offsets of the last two segments and at the log end remain.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from tiersnap.snapshot.formats.transaction_index import ABORTED_TXN_ON_DISK
from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.log_dir import Partition, Segment


def lost_index(partition: Partition) -> int | None:
    """Return the base offset of the first closed segment without an .index, or None.

    At its next start, the broker recovers this segment, and so deletes snapshots above it.
    """
    lost = (each.base_offset for each in partition.segments if each.offset_index is None and not each.is_active)
    return next(lost, None)


def lost_below_log_start(partition: Partition) -> bool:
    """Return whether a segment below the log start has no .index.

    At its next start, the broker recovers such a segment, and so deletes snapshots above it.
    """
    return any(each.offset_index is None for each in partition.deleted_segments)


def undone_at_start(filesystem: FileSystem, partition: Partition, mended: Container[str] = ()) -> Iterator[str]:
    """Yield a warning if the broker's next start will delete snapshots, even those of this repair.

    Args:
        mended: names of files that the repair writes.
    """
    for each in (*partition.deleted_segments, *partition.segments):
        if not each.is_active and _is_recovered(filesystem, each, mended):
            yield f"{partition.name}: {_warning(partition, each)}"
            return


def _is_recovered(filesystem: FileSystem, segment: Segment, mended: Container[str]) -> bool:
    """Return whether the broker's next start recovers the segment."""
    if segment.offset_index is None:
        return True
    is_mended = f"{segment.base_offset:020d}.txnindex" in mended
    return not is_mended and _has_wrong_transaction_index(filesystem, segment)


def _warning(partition: Partition, segment: Segment) -> str:
    base_offset, is_lost = segment.base_offset, segment.offset_index is None
    what = f"segment {base_offset} has {'no .index' if is_lost else 'a wrong .txnindex'}"
    if segment in partition.deleted_segments:
        return (
            f"{what}, and is below the log start. At its next start the broker recovers this segment, and deletes "
            "every snapshot above the segment: before the start, move the segment's files away"
        )
    if is_lost:
        return (
            f"{what}. At its next start the broker rebuilds the index, and deletes all snapshots above the "
            "segment, except the last snapshots of the partition: start the broker once, stop it, then repair"
        )
    return (
        f"{what}. At its next start the broker recovers the segment, and deletes all snapshots above the segment, "
        "except the last snapshots of the partition: before the start, replace this .txnindex with --replace"
    )


def _has_wrong_transaction_index(filesystem: FileSystem, segment: Segment) -> bool:
    """Return whether TransactionIndex.sanityCheck fails. Brokers ignore bytes after the last complete entry."""
    if segment.transaction_index is None:
        return False
    try:
        data = read_bounded(filesystem, segment.transaction_index.path)
    except OSError:
        return False
    entries = np.frombuffer(data[: len(data) - len(data) % ABORTED_TXN_ON_DISK.itemsize], ABORTED_TXN_ON_DISK)
    return bool((entries["last_offset"] < segment.base_offset).any())
