"""Compare leader epochs of remote segments and of batches with the leader epochs of the log, its *lineage*.

An offset of a remote segment belongs to the log if segment and lineage have the same epoch for it. This excludes
records that the partition lost in an unclean leader election. Follows
org.apache.kafka.server.log.remote.storage.RemoteLogManager.isRemoteSegmentWithinLeaderEpochs.

The epochs in batch headers must agree with the leader-epoch-checkpoint. A broker finds a remote offset by the leader
epoch in its own checkpoint. If the checkpoint has wrong epochs, the broker does not find the records, or returns
records that do not belong to the log.

    batch at or above the first entry    must have the epoch of the last entry at or below its base offset
    batch below the first entry          not checked: the log start moved up, and older entries were dropped
    epoch -1, magic 0 and 1              not checked: the batch has no epoch

Follows org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache. If an epoch has no batches, the checkpoint has no
entry for it, or an entry with the start offset of the next epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs

Interval = tuple[int, int]  # [start offset, exclusive end offset)
ENDLESS = 1 << 63


def epoch_ranges(epochs: LeaderEpochs, end: int) -> list[tuple[int, int, int]]:
    """Return (epoch, start offset, exclusive end) for each entry. The last range ends at `end`."""
    if not epochs:
        return []
    ends = [*(start for _, start in epochs[1:]), end]
    return [(epoch, start, stop) for (epoch, start), stop in zip(epochs, ends, strict=True)]


def agreed_intervals(epochs: LeaderEpochs, end: int, lineage: LeaderEpochs) -> list[Interval]:
    """Return the offsets of a segment at which its epochs agree with the lineage, as ascending, disjoint intervals.

    If `epochs` or `lineage` is empty, return no interval.

    Args:
        epochs: (epoch, start offset) of the segment, ascending.
        end: exclusive end offset of the segment.
        lineage: (epoch, start offset) of the log, ascending.
    """
    if not lineage:
        return []
    agreed: list[Interval] = []
    begins = lineage[0][1]
    for epoch, start, stop in epoch_ranges(epochs, end):
        # When the log start moves up, the lineage loses older entries. So below its first entry, older epochs agree.
        if epoch <= lineage[0][0]:
            agreed.append((start, min(stop, begins)))
        if (known := _range_of(epoch, lineage)) is not None:
            agreed.append((max(start, known[0]), min(stop, known[1])))
    return joined(agreed)


def _range_of(epoch: int, lineage: LeaderEpochs) -> Interval | None:
    """Return the offsets of an epoch in the lineage, or None. The last epoch of the lineage has no end."""
    at = bisect_right(lineage, epoch, key=itemgetter(0))
    if not at or lineage[at - 1][0] != epoch:
        return None
    if at == len(lineage):
        return lineage[at - 1][1], ENDLESS
    return lineage[at - 1][1], lineage[at][1]


def held_intervals(start: int, end: int, epochs: LeaderEpochs, lineage: LeaderEpochs) -> list[Interval]:
    """Return the offsets of a remote segment that belong to the lineage.

    These are the `agreed_intervals`. If segment and lineage agree at the start offset of the segment's first epoch, the
    segment's offsets below this start offset are added. Such offsets exist if the log start was inside the segment, or
    if older records have no epoch.

    Args:
        start: base offset of the remote segment.
        end, epochs, lineage: see `agreed_intervals`.
    """
    agreed = agreed_intervals(epochs, end, lineage)
    if agreed and agreed[0][0] == epochs[0][1]:
        agreed[0] = (start, agreed[0][1])
    return agreed


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of the intervals as ascending intervals that are neither empty nor adjacent."""
    found: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


_UNTOLD = -1


@dataclass(frozen=True, slots=True)
class WrongEpoch:
    """A batch whose leader epoch differs from the lineage's epoch for its offset."""

    base_offset: int
    written: int  # epoch in the batch's header
    expected: int  # epoch of the last entry at or below `base_offset`


class EpochCheck:
    """A check of batches against the leader epochs of one log."""

    def __init__(self, epochs: LeaderEpochs) -> None:
        """Create a check against `epochs`: (epoch, start offset), ascending. Without epochs, no batch is wrong."""
        entries = np.array(epochs, np.int64).reshape(-1, 2)
        self._starts = np.ascontiguousarray(entries[:, 1])
        self._epochs = np.concatenate([np.array([_UNTOLD], np.int64), entries[:, 0]])

    def first_wrong(self, rows: np.ndarray) -> WrongEpoch | None:
        """Return the first batch with a wrong epoch, or None.

        Args:
            rows: RECORD_BATCH_DTYPE of magic 2, ascending, not empty.
        """
        offsets, written = rows["base_offset"], rows["partition_leader_epoch"]
        first, last = np.searchsorted(self._starts, offsets[[0, -1]], side="right")
        # Fast path: nearly always, all batches have the same epoch.
        told = self._epochs[first] if first == last else self._epochs[self._starts.searchsorted(offsets, side="right")]
        wrong = (written != told) & (written >= 0) & (told >= 0)
        if not wrong.any():
            return None
        at = int(wrong.argmax())
        return WrongEpoch(int(offsets[at]), int(written[at]), int(np.broadcast_to(told, wrong.shape)[at]))
