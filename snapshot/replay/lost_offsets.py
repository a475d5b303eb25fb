"""Find lost offsets: offsets that had batches and are now in no segment of a log.

A gap between two segments does not prove a loss. UnifiedLog.roll may start a segment above the end of the previous one,
and the log cleaner may have removed whole segments. Two things prove that a segment was lost: a snapshot file above the
gap names a batch in the gap, or the index of a segment that began in the gap still exists.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.snapshot_comparison import ReadSnapshot, found_at


@dataclass(frozen=True, slots=True)
class LostOffsets:
    """Offsets [first, next) that provably had batches and are now in no segment."""

    first: int
    next: int
    # Base offset of a lost segment whose index still exists; None if a snapshot file above the gap is the proof.
    indexed: int | None = None

    def is_known_to(self, entries: np.ndarray) -> bool:
        """Return whether an entry (ENTRY_DTYPE) names a last batch or a transaction start in these offsets."""
        offsets = _offsets_in(entries)
        return bool(((offsets >= self.first) & (offsets < self.next)).any())

    @property
    def proof(self) -> str:
        """Return a description of the proof."""
        if self.indexed is None:
            return "a snapshot file names batches with these offsets"
        return f"the index file of a segment at offset {self.indexed} still exists"

    def __str__(self) -> str:
        return f"no segment has the offsets {self.first} to {self.next - 1}"


def gap_between(partition: Partition, first: int, following: int | None) -> LostOffsets | None:
    """Return the offsets between a segment and the next one.

    Return None if no offset is between them, or if the log cleaner has already compacted this part of the log.

    Args:
        first: exclusive end offset of the segment.
        following: base offset of the next segment; None if the segment is the last one.
    """
    if following is None or first >= following or following <= (partition.cleaner_offset or 0):
        return None
    return LostOffsets(first, following)


class LostOffsetsSearch:
    """A search of the gaps of a log for lost offsets. It reads each snapshot file at most once."""

    def __init__(self, partition: Partition, read_snapshot: ReadSnapshot) -> None:
        self._partition = partition
        # Below the cleaner's offset, an index without a segment proves nothing: the cleaner may leave it.
        self._indexed = [offset for offset in partition.orphan_indexes if offset >= (partition.cleaner_offset or 0)]
        self._unread = deque(sorted(partition.snapshots))
        self._read_snapshot = read_snapshot
        # The offsets that snapshot files name, ascending; for each, the greatest offset of a file that names it.
        self._named = np.empty(0, np.int64)
        self._named_at = np.empty(0, np.int64)

    def between(self, first: int, following: int | None) -> LostOffsets | None:
        """Return the gap if it is proven that a segment in it was lost, else None.

        Call this method with ascending gaps.
        """
        lost = gap_between(self._partition, first, following)
        if lost is None:
            return None
        place = bisect_left(self._indexed, first)
        if place < len(self._indexed) and self._indexed[place] < lost.next:
            return replace(lost, indexed=self._indexed[place])
        while self._unread and self._unread[0] < lost.next:
            self._unread.popleft()
        while not self._is_named(lost):
            if not self._unread:
                return None
            self._read(self._unread.popleft(), first)
        return lost

    def _is_named(self, lost: LostOffsets) -> bool:
        low, high = np.searchsorted(self._named, [lost.first, lost.next])
        return bool((self._named_at[low:high] >= lost.next).any())

    def _read(self, at: int, first: int) -> None:
        entries = found_at(at, self._read_snapshot).entries
        if entries is None:
            return
        named = np.unique(_offsets_in(entries))
        named = named[named >= first]  # later gaps are above `first`
        # np.unique keeps the first of equal offsets, which is this file's; later files have greater offsets.
        self._named, chosen = np.unique(np.concatenate([named, self._named]), return_index=True)
        self._named_at = np.concatenate([np.full(named.size, at), self._named_at])[chosen]


def _offsets_in(entries: np.ndarray) -> np.ndarray:
    return np.concatenate([entries["last_offset"], entries["current_txn_first_offset"]])
