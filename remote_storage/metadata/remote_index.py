"""Of which copy a broker reads an offset: it looks by leader epoch, then for the nearest start at or below the offset.

It looks no further: where the copy it finds ends before the offset, nothing is read, though one that begins earlier
holds it. A copy that is finished supersedes those that begin at or behind its start, where it reaches the end of all
that was finished before of that epoch.

Copies that were deleted are left out. They were the oldest of their log, or of none of its epochs, so what they may
have superseded lies below the log start.

Follows RemoteLogLeaderEpochState and RemoteLogMetadataCache in org.apache.kafka.server.log.remote.metadata.storage.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata

Found = tuple[int, int, RemoteLogSegmentMetadata | None]
"""First and last offset, and the copy of which they are read; None where nothing is found."""


@dataclass
class _Epoch:
    """The copies of one leader epoch by start offset; values are the copy and its last offset of the epoch."""

    starts: list[int] = field(default_factory=list)
    copies: dict[int, tuple[RemoteLogSegmentMetadata, int]] = field(default_factory=dict)
    highest: int = -1

    def finish(self, copy: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        while self.starts and self.starts[-1] >= start and self.highest <= end:
            del self.copies[self.starts.pop()]
        if start not in self.copies:
            insort(self.starts, start)
        self.copies[start] = copy, end
        self.highest = max(self.highest, end)

    def read(self, first: int, last: int) -> Iterator[Found]:
        at, number = first, bisect_right(self.starts, first)
        while at <= last:
            until = min(last, self.starts[number] - 1) if number < len(self.starts) else last
            if number:
                copy, end = self.copies[self.starts[number - 1]]
                if at <= end:
                    yield at, min(until, end), copy
                    at = min(until, end) + 1
            if at <= until:
                yield at, until, None
            at, number = until + 1, number + 1


class RemoteIndex:
    """The finished copies of a partition, given in the order in which they were finished."""

    def __init__(self, finished: Iterable[RemoteLogSegmentMetadata] = ()) -> None:
        self._epochs: dict[int, _Epoch] = defaultdict(_Epoch)
        for each in finished:
            self.finish(each)

    def finish(self, copy: RemoteLogSegmentMetadata) -> None:
        """Take COPY_SEGMENT_FINISHED."""
        for epoch, start, end in _parts(copy):
            self._epochs[epoch].finish(copy, start, end)

    def read(self, copy: RemoteLogSegmentMetadata) -> Iterator[Found]:
        """What is found for the offsets that `copy` holds, under its epochs, whether it is in here or not."""
        for epoch, start, end in _parts(copy):
            yield from self._epochs[epoch].read(start, end)


def _parts(copy: RemoteLogSegmentMetadata) -> Iterator[tuple[int, int, int]]:
    """Each leader epoch of a copy, with its first and last offset there."""
    epochs = copy.segment_leader_epochs
    ends = [*(start - 1 for _, start in epochs[1:]), copy.end_offset]
    return ((epoch, start, end) for (epoch, start), end in zip(epochs, ends, strict=True))
