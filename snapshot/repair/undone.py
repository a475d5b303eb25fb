"""Find the snapshots of a repair that a broker will delete when it starts.

It opens every segment, those below the log start as well, and recovers one whose .index is not there or whose .txnindex
names an offset below its base: all snapshots above it go, but for the last ones (LogLoader.loadSegmentFiles).
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from tiersnap.snapshot.formats.transaction_index import ABORTED_TXN_ON_DISK
from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.log_dir import Partition, Segment


def lost_index(partition: Partition) -> int | None:
    """Base offset of the first closed segment without an .index.

    The broker makes it again at its next start, and deletes every snapshot above it but the last ones as it does.
    """
    lost = (each.base_offset for each in partition.segments if each.offset_index is None and not each.is_active)
    return next(lost, None)


def lost_below_log_start(partition: Partition) -> bool:
    """Return whether a segment below the log start lacks its .index: a start deletes all snapshots above it."""
    return any(each.offset_index is None for each in partition.deleted_segments)


def undone_at_start(filesystem: FileSystem, partition: Partition, mended: Container[str] = ()) -> Iterator[str]:
    """Yield warnings if the next start of a broker will delete snapshots, those just written among them.

    Args:
        mended: names of files that the repair writes.
    """
    for each in (*partition.deleted_segments, *(one for one in partition.segments if not one.is_active)):
        is_mended = f"{each.base_offset:020d}.txnindex" in mended
        if each.offset_index is None or (not is_mended and _has_wrong_transaction_index(filesystem, each)):
            yield f"{partition.name}: {_said(partition, each)}"
            return


def _said(partition: Partition, segment: Segment) -> str:
    base_offset, is_lost = segment.base_offset, segment.offset_index is None
    what = f"segment {base_offset} has {'no .index' if is_lost else 'a .txnindex that is none'}"
    if segment in partition.deleted_segments:
        return (
            f"{what}, and lies below the log start. At its next start the broker recovers it and deletes every "
            "snapshot above it: move its files away before"
        )
    if is_lost:
        return (
            f"{what}. At its next start the broker makes it again and deletes every snapshot above it but the last "
            "ones: start it once, stop it, then repair"
        )
    return (
        f"{what}. At its next start the broker recovers the segment and deletes every snapshot above it but the last "
        "ones: replace that .txnindex before, with --replace"
    )


def _has_wrong_transaction_index(filesystem: FileSystem, segment: Segment) -> bool:
    """As TransactionIndex.sanityCheck; what is behind the last whole entry no broker reads."""
    if segment.transaction_index is None:
        return False
    try:
        data = read_bounded(filesystem, segment.transaction_index.path)
    except OSError:
        return False
    entries = np.frombuffer(data[: len(data) - len(data) % ABORTED_TXN_ON_DISK.itemsize], ABORTED_TXN_ON_DISK)
    return bool((entries["last_offset"] < segment.base_offset).any())
