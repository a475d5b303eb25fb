"""Find the remote segment from which a broker reads an offset.

Among the segments with the offset's leader epoch, the broker takes the one with the greatest start offset at or below
the offset. It tries only this one segment. If the segment ends below the offset, the broker reads nothing, even if an
earlier segment contains the offset.

A newly finished segment replaces the segment with the same start offset. For each leader epoch, the
broker keeps the highest end offset that any finished segment ever had. If the new segment reaches this end, it replaces
all segments that begin at or above its start. So a segment can hide other segments (see `less_found`).

This is an exact model of RemoteLogMetadataCache and RemoteLogLeaderEpochState in
org.apache.kafka.server.log.remote.metadata.storage. tests/broker/test_remote_index.py compares the model with Kafka.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord, SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    ALLOWED_TRANSITIONS,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)

Found = tuple[int, int, RemoteLogSegmentMetadata | None]
"""First and last offset (inclusive), and the segment from which brokers read these offsets; None if there is none."""
Rank = Callable[[RemoteLogSegmentMetadata | None], int]
"""Returns the rank of a segment that brokers find; 0 for None."""

_ENDLESS = 1 << 63


@dataclass
class EpochIndex:
    """The segments that brokers find in one leader epoch, by ascending start offset."""

    starts: list[int] = field(default_factory=list)  # first offset of each segment in this epoch
    # Each segment with its last offset in this epoch, inclusive.
    copies: list[tuple[RemoteLogSegmentMetadata, int]] = field(default_factory=list)
    highest: int = -1  # last offset of all segments that were ever finished in this epoch; -1 if there are none

    def copy(self) -> EpochIndex:
        """Return an independent copy."""
        return EpochIndex([*self.starts], [*self.copies], self.highest)

    def take(self, copy: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        """Apply the new state of a segment. `start` and `end` (inclusive) are the segment's offsets in this epoch."""
        if copy.state is SegmentState.COPY_SEGMENT_FINISHED:
            self._finish(copy, start, end)
        elif copy.state is SegmentState.DELETE_SEGMENT_STARTED:
            at = bisect_left(self.starts, start)
            if self.starts[at : at + 1] == [start] and self.copies[at][0].id == copy.id:
                del self.starts[at], self.copies[at]

    def _finish(self, copy: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        at = bisect_left(self.starts, start)
        superseded = at + (self.starts[at : at + 1] == [start])
        if self.highest <= end:
            superseded = len(self.starts)
        self.starts[at:superseded] = [start]
        self.copies[at:superseded] = [(copy, end)]
        self.highest = max(self.highest, end)

    def read(self, first: int, last: int = _ENDLESS) -> Iterator[Found]:
        """Yield (first, last, segment) for consecutive ranges of the offsets `first` to `last` (inclusive).

        The segment is the one that brokers find for the range, or None.
        """
        at, number = first, bisect_right(self.starts, first)
        while at <= last:
            until = last
            if number < len(self.starts):
                until = min(last, self.starts[number] - 1)
            if number:
                copy, end = self.copies[number - 1]
                if at <= end:
                    yield at, min(until, end), copy
                    at = min(until, end) + 1
            if at <= until:
                yield at, until, None
            at, number = until + 1, number + 1


class RemoteIndex:
    """The remote segments of a partition that brokers find. Each record updates the index."""

    def __init__(self) -> None:
        self.epochs: dict[int, EpochIndex] = defaultdict(EpochIndex)  # the segments that brokers find, by leader epoch
        self._known: dict[str, RemoteLogSegmentMetadata] = {}

    def copy(self) -> RemoteIndex:
        """Return an independent copy."""
        other = RemoteIndex()
        for epoch, each in self.epochs.items():
            other.epochs[epoch] = each.copy()
        other._known = dict(self._known)
        return other

    def finished(self) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield all finished segments, including segments that brokers do not find."""
        for each in self._known.values():
            if each.state is SegmentState.COPY_SEGMENT_FINISHED:
                yield each

    def found(self) -> set[RemoteLogSegmentId]:
        """Return the ids of the segments that brokers find for at least one offset."""
        return {copy.id for epoch in self.epochs.values() for copy, _ in epoch.copies}

    def apply(self, record: MetadataRecord) -> RemoteLogSegmentMetadata | None:
        """Apply a record, and return the new state of its segment. Return None if a broker drops the record."""
        segment = self._next(record)
        if segment is not None:
            self.take(segment)
        return segment

    def take(self, segment: RemoteLogSegmentMetadata) -> None:
        """Apply the state of a segment, without a check of the transition."""
        for epoch, start, end in parts(segment):
            self.epochs[epoch].take(segment, start, end)
        self._known[segment.id.segment_id] = segment
        if segment.state is SegmentState.DELETE_SEGMENT_FINISHED:
            del self._known[segment.id.segment_id]

    def after(self, segment: RemoteLogSegmentMetadata) -> dict[int, EpochIndex]:
        """Return the index of each leader epoch of a segment, as it would be after the segment's state is applied.

        This RemoteIndex does not change.
        """
        found = {epoch: self.epochs[epoch].copy() for epoch, _ in segment.segment_leader_epochs}
        for epoch, start, end in parts(segment):
            found[epoch].take(segment, start, end)
        return found

    def read(self, copy: RemoteLogSegmentMetadata) -> Iterator[Found]:
        """Yield the segments that brokers find for the offsets and epochs of `copy`.

        The index need not contain `copy`.
        """
        for epoch, start, end in parts(copy):
            yield from self.epochs[epoch].read(start, end)

    def _next(self, record: MetadataRecord) -> RemoteLogSegmentMetadata | None:
        if isinstance(record, SegmentRecord):
            known = self._known.get(record.metadata.id.segment_id)
            has_saved = record.metadata.state is SegmentState.COPY_SEGMENT_STARTED
            if has_saved and _is_allowed(known, record.metadata.state):
                return record.metadata
            return None
        if not isinstance(record, SegmentUpdate):
            return None  # a PartitionDelete, which brokers ignore, too
        known = self._known.get(record.id.segment_id)
        has_saved = record.state is SegmentState.COPY_SEGMENT_STARTED
        if known is None or has_saved or not _is_allowed(known, record.state):
            return None
        return replace(known, state=record.state, broker_id=record.broker_id, event_timestamp=record.event_timestamp)


def less_found(before: EpochIndex, after: EpochIndex, rank: Rank, first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the offset ranges (inclusive) for which `after` finds a segment of a lower rank than `before` finds.

    Offsets below `first` are ignored.
    """
    for start, end, copy in before.read(first):
        if not rank(copy):
            continue
        for at, until, now in after.read(start, end):
            if rank(now) < rank(copy):
                yield at, until


def parts(copy: RemoteLogSegmentMetadata) -> Iterator[tuple[int, int, int]]:
    """Yield each leader epoch of a segment, with the segment's first and last offset (inclusive) in that epoch."""
    epochs = copy.segment_leader_epochs
    ends = [*(start - 1 for _, start in epochs[1:]), copy.end_offset]
    for (epoch, start), end in zip(epochs, ends, strict=True):
        yield epoch, start, end


def _is_allowed(known: RemoteLogSegmentMetadata | None, after: SegmentState) -> bool:
    return after in ALLOWED_TRANSITIONS[None if known is None else known.state]
