"""Rebuild leader epochs that a leader-epoch-checkpoint lost, from the headers of the log's batches.

A power loss leaves the file empty or full of zeros. A broker that starts with an empty file adds only epochs of later
writes (KAFKA-15046, KAFKA-16541). A leader cannot copy a segment without an epoch: its copy task fails with
"segmentLeaderEpochs can not be null or empty". As in LogSegment.recover, an epoch begins with its first batch, and
epochs never descend.

Local batches cannot show the epochs below the first segment. So if a log begins in remote storage, its rebuilt epochs
are incomplete.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.snapshot.formats.checkpoints import LeaderEpoch, LeaderEpochs
from tiersnap.snapshot.log.file_names import LARGEST_OFFSET
from tiersnap.snapshot.log.file_system import FileSystem

if TYPE_CHECKING:
    from tiersnap.snapshot.log.log_dir import Segment

_START = struct.Struct(">q4xib")  # base offset, leader epoch, magic
_OLDEST_WITH_EPOCH = 2  # magic


@dataclass(frozen=True, slots=True)
class KnownEpochs:
    """The leader epochs of a log, from its checkpoint and from batches."""

    epochs: LeaderEpochs | None  # (epoch, start offset), ascending; None if neither the file nor a batch has an epoch
    lost_below: int = 0  # below this offset, the file lost its epochs, and `epochs` come from batches


def complete(
    filesystem: FileSystem, found: LeaderEpochs | None, segments: Sequence[Segment], log_start_offset: int
) -> KnownEpochs:
    """Return the epochs of the file, preceded by the epochs that it lost.

    Args:
        found: epochs in the file; None if it is missing or unreadable.
        segments: ascending; the first one contains the log start offset. Brokers remove the epochs of older segments
            from the file.
    """
    if not segments or (found and found[0][1] <= log_start_offset):
        return KnownEpochs(found)
    rebuilt = epochs_of_batches(filesystem, segments)
    if not rebuilt:
        return KnownEpochs(found)
    if not found:
        return KnownEpochs(rebuilt, LARGEST_OFFSET)
    first_epoch, first_offset = found[0]
    lost = tuple(each for each in rebuilt if each[0] < first_epoch and each[1] < first_offset)
    if not lost:
        return KnownEpochs(found)
    return KnownEpochs((*lost, *found), first_offset)


def epochs_of_batches(filesystem: FileSystem, segments: Sequence[Segment], *, reads_all: bool = False) -> LeaderEpochs:
    """Return (epoch, first offset) for each epoch of the batches, ascending.

    Return () if no batch has an epoch, or if an epoch is uncertain. An epoch is uncertain if epochs descend, or if it
    may have begun in a damaged closed segment.

    Args:
        reads_all: whether to read every batch and verify its CRC. Otherwise a segment is skipped if the next segment
            begins with the same epoch.
    """
    firsts: list[tuple[int, int] | None] = [None] * len(segments)
    if not reads_all:
        firsts = [_first(filesystem, each.log.path) for each in segments]
    found: list[LeaderEpoch] = []
    newest = -1
    for segment, first, following in zip(segments, firsts, [*firsts[1:], None], strict=True):
        changes = [first]
        has_one_epoch = first is not None and following is not None and first[0] == following[0]
        if not has_one_epoch:
            changes = _changes(filesystem, segment, check_crc=reads_all)
        for change in changes:
            if change is None:
                return ()
            epoch, offset = change
            if epoch < newest:
                return ()
            if epoch > newest:
                found.append(LeaderEpoch(epoch, offset))
                newest = epoch
    return tuple(found)


def _first(filesystem: FileSystem, path: str) -> tuple[int, int] | None:
    """Return (leader epoch, base offset) of the first batch; None if it has no epoch or cannot be read."""
    try:
        with filesystem.open(path) as file:
            data = file.read(_START.size)
    except OSError:
        return None
    if len(data) < _START.size:
        return None
    offset, epoch, magic = _START.unpack(data)
    if magic < _OLDEST_WITH_EPOCH or epoch < 0:
        return None
    return epoch, offset


def _changes(filesystem: FileSystem, segment: Segment, *, check_crc: bool) -> list[tuple[int, int] | None]:
    """Return (leader epoch, base offset) of each batch that begins an epoch; add None if the segment is damaged."""
    # Imported here, because the compiled kernels load slowly and most logs do not need them.
    import numpy as np

    from tiersnap.snapshot.log.segment_scan import SegmentScan

    scan = SegmentScan.of(filesystem, segment, check_crc=check_crc)
    found: list[tuple[int, int] | None] = []
    before = -1
    for rows in scan:
        epochs = rows["partition_leader_epoch"]
        at = np.flatnonzero(np.diff(epochs, prepend=before))
        pairs = zip(epochs[at].tolist(), rows["base_offset"][at].tolist(), strict=True)
        found += [each for each in pairs if each[0] >= 0]
        before = int(epochs[-1])
    if scan.end.finding is not None and not segment.is_active:
        found.append(None)
    return found
