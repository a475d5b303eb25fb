"""The leader epochs of a log as its lineage: which offsets of a copy belong to it.

A copy counts for the offsets that were written under the same epoch as the lineage says; what a leader wrote that
lost an unclean election does not. Follows the rules of
org.apache.kafka.server.log.remote.storage.RemoteLogManager.isRemoteSegmentWithinLeaderEpochs.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs

Interval = tuple[int, int]  # [start offset, exclusive end offset)
ENDLESS = 1 << 63


def epoch_ranges(epochs: LeaderEpochs, end: int) -> list[tuple[int, int, int]]:
    """(epoch, start offset, exclusive end) of each entry; the last ends at `end`."""
    if not epochs:
        return []
    ends = [*(start for _, start in epochs[1:]), end]
    return [(epoch, start, stop) for (epoch, start), stop in zip(epochs, ends, strict=True)]


def agreed_intervals(epochs: LeaderEpochs, end: int, lineage: LeaderEpochs) -> list[Interval]:
    """The offsets of a copy that were written under the epochs of the lineage: ascending, apart, none for no epochs.

    Args:
        epochs: (epoch, start offset) of the copy, ascending.
        end: exclusive end offset of the copy.
        lineage: (epoch, start offset) of the log, ascending.
    """
    if not lineage:
        return []
    agreed: list[Interval] = []
    begins = lineage[0][1]
    known = {epoch: (start, stop) for epoch, start, stop in epoch_ranges(lineage, ENDLESS)}
    for epoch, start, stop in epoch_ranges(epochs, end):
        # Below its first entry the lineage was cut when the log start moved on; older epochs may well have been there.
        if epoch <= lineage[0][0]:
            agreed.append((start, min(stop, begins)))
        if epoch in known:
            agreed.append((max(start, known[epoch][0]), min(stop, known[epoch][1])))
    return joined(agreed)


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """The same offsets as ascending intervals that neither touch nor overlap; empty ones are dropped."""
    found: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
