"""Compare a remote segment with a partition's leader epoch lineage.

A broker looks for remote segments by the epochs of its own leader epoch cache. One whose epochs are not in it is no
segment of this log to the broker: its copier copies the offsets again, readers do not find it.

A lineage is asked as a follower asks a leader, with OffsetForLeaderEpoch: for an epoch the answer is the largest epoch
of the cache that is not above it, and its exclusive end offset. Where the epoch lies below the first of the cache the
answer is the epoch itself and the start of the first one; above the last there is none, (-1, -1).

Follows RemoteLogManager.isRemoteSegmentWithinLeaderEpochs and LeaderEpochFileCache.endOffsetFor of Kafka, in package
org.apache.kafka.storage.internals.epoch. Epochs wholly below the log start, which the cache has forgotten, are left
out, as the broker leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
)
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs

UNDEFINED = (-1, -1)
EndOffsetFor = Callable[[int], tuple[int, int]]


def end_offset_for(epochs: Sequence[tuple[int, int]], log_end_offset: int) -> EndOffsetFor:
    """Answer as a broker with this leader epoch cache, (epoch, start offset) ascending; the end is exclusive."""

    def answer(epoch: int) -> tuple[int, int]:
        if not epochs or epoch < 0:
            return UNDEFINED
        if epoch == epochs[-1][0]:
            return epoch, log_end_offset
        above = next((start for candidate, start in epochs if candidate > epoch), None)
        if above is None:
            return UNDEFINED
        below = [candidate for candidate, _ in epochs if candidate <= epoch]
        return (below[-1] if below else epoch), above

    return answer


def outside_lineage(segment: RemoteLogSegmentMetadata, end_offset_for: EndOffsetFor, *, log_start_offset: int) -> str:
    """Return why `segment` is not in the lineage, in words for a person; "" if it is."""
    end = segment.end_offset + 1
    epochs = _without_empty(epochs_in_range(segment.segment_leader_epochs, log_start_offset, end), end)
    epochs = tuple((epoch, max(start, segment.start_offset)) for epoch, start in epochs)
    if not epochs:
        return f"it ends before the log start {log_start_offset}"
    ends = [start for _, start in epochs[1:]] + [end]
    for number, ((epoch, start), epoch_end) in enumerate(zip(epochs, ends, strict=True)):
        answered, lineage_end = end_offset_for(epoch)
        before = end_offset_for(epoch - 1)[1] if epoch > 0 else -1
        if answered != epoch or lineage_end == before:
            return f"leader epoch {epoch} is not in the lineage of the partition"
        if before > start:
            return f"leader epoch {epoch} begins at offset {before}, in the segment it has offset {start}"
        if number < len(epochs) - 1 and lineage_end != epoch_end:
            return f"leader epoch {epoch} ends at offset {lineage_end}, in the segment at {epoch_end}"
        if lineage_end < epoch_end:
            return f"leader epoch {epoch} ends at offset {lineage_end}, the segment at {epoch_end}"
    return ""


def _without_empty(epochs: LeaderEpochs, end: int) -> LeaderEpochs:
    starts = [start for _, start in epochs[1:]] + [end]
    return tuple(entry for entry, following in zip(epochs, starts, strict=True) if entry[1] < following)


def epochs_in_range(epochs: Iterable[tuple[int, int]], start: int, end: int) -> LeaderEpochs:
    """The (epoch, start offset) entries of offsets [start, end), the first clamped to `start`.

    Follows org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.epochEntriesInRange.
    """
    below = [entry for entry in epochs if entry[1] < end]
    before = [(epoch, start) for epoch, first in below if first <= start]
    return (*before[-1:], *(entry for entry in below if entry[1] > start))


def without_empty(epochs: Iterable[tuple[int, int]]) -> LeaderEpochs:
    """The entries without those under which nothing was written: the next one begins at the same offset.

    A broker drops such an entry when it assigns the next (LeaderEpochFileCache.truncateAndAppend).
    """
    entries = tuple(epochs)
    return (*(entry for entry, after in pairwise(entries) if entry[1] != after[1]), *entries[-1:])
