"""Compute the offsets that remote segments of one partition's lineage cover, as a broker does, without a store.

A broker continues to copy after the highest offset that it finds in remote storage, and never copies offsets below it,
covered or not. That offset follows org.apache.kafka.server.log.remote.storage.RemoteLogManager
.findHighestRemoteOffset: it is in the newest leader epoch of the log that has a remote segment, cut at the epoch's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.leader_epochs import Interval, epoch_ranges, held_intervals, joined


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """One copy of a segment in remote storage."""

    start_offset: int
    end_offset: int  # exclusive
    leader_epochs: LeaderEpochs  # (epoch, start offset) of the segment, ascending
    # All its objects exist in the right sizes and it is visible. If that was not checked, a COPY_SEGMENT_FINISHED
    # record names it. An incomplete segment covers nothing.
    is_complete: bool = True
    is_ours: bool = False  # tiersnap uploaded it
    # A COPY_SEGMENT_FINISHED record names it; None if no such record is known and not all records were read.
    is_published: bool | None = None

    def held(self, lineage: LeaderEpochs) -> list[Interval]:
        """Return its offsets that belong to the lineage; see held_intervals."""
        return held_intervals(self.start_offset, self.end_offset, self.leader_epochs, lineage)

    def is_of(self, lineage: LeaderEpochs) -> bool:
        """Return whether all of it belongs to the lineage."""
        return self.held(lineage) == [(self.start_offset, self.end_offset)]


@dataclass(frozen=True, slots=True)
class RemoteCoverage:
    """The offsets of one lineage that are in remote storage."""

    # [start, exclusive end) of the offsets that remote segments of the lineage cover: ascending, neither overlapping
    # nor adjacent.
    covered: tuple[Interval, ...] = ()
    highest: int = 0  # exclusive; the broker's highest remote offset + 1, 0 without one. It copies nothing below.
    in_flight: frozenset[int] = frozenset()  # base offsets of segments that are being copied now
    # [start, exclusive end) of tiersnap's unfinished segments, which count only after their claims are finished.
    unfinished: tuple[Interval, ...] = ()
    # ms by the store's clock at which a broker last wrote an object of a segment; None if none did.
    broker_wrote_at: int | None = None
    encrypted_by: str = ""  # key of a manifest which shows that the plugin encrypts; "" without one
    # Parts of the covered offsets: in segments that brokers know (`published`), in segments that tiersnap uploaded
    # (`ours`), and in segments without a known record, although one may exist (`unread`).
    published: tuple[Interval, ...] = ()
    ours: tuple[Interval, ...] = ()
    unread: tuple[Interval, ...] = ()
    lost: tuple[Interval, ...] = ()  # offsets of segments that brokers know and that lack objects

    def is_unfinished(self, start_offset: int, end_offset: int) -> bool:
        """Return whether an unfinished copy holds any of [start, exclusive end)."""
        return overlap(self.unfinished, start_offset, end_offset)

    def covers(self, start_offset: int, end_offset: int) -> bool:
        """Return whether every offset of [start, exclusive end) is covered; an empty range is."""
        return contain(self.covered, start_offset, end_offset)

    def has_segment(self, start_offset: int, end_offset: int, log_start_offset: int = 0) -> bool:
        """Return whether a segment of [start, exclusive end) is in remote storage, known to brokers or not.

        Records below the log start offset are deleted, and so may their remote copies be.
        """
        return end_offset <= self.highest and self.covers(max(start_offset, log_start_offset), end_offset)


NOTHING_REMOTE = RemoteCoverage()


def contain(intervals: Iterable[Interval], start_offset: int, end_offset: int) -> bool:
    """Return whether one of the intervals contains all of [start, exclusive end); an empty range is contained."""
    return start_offset >= end_offset or any(start <= start_offset and end_offset <= end for start, end in intervals)


def overlap(intervals: Iterable[Interval], start_offset: int, end_offset: int) -> bool:
    """Return whether one of the intervals contains an offset of [start, exclusive end)."""
    return any(start < end_offset and start_offset < end for start, end in intervals)


def coverage_of(copies: Iterable[CopyFacts], lineage: LeaderEpochs, log_end_offset: int) -> RemoteCoverage:
    """Return the coverage of complete segments; each counts for the offsets at which its epochs agree with the lineage.

    A broker copies nothing below a segment that it knows, so a segment that lost objects counts for `highest`.

    Args:
        lineage: (epoch, start offset) of the local log, ascending.
        log_end_offset: of the local log, exclusive.
    """
    complete: list[CopyFacts] = []
    lost: list[CopyFacts] = []
    for copy in copies:
        if copy.is_complete:
            complete.append(copy)
        elif copy.is_published:
            lost.append(copy)
    of_complete = [(copy, copy.held(lineage)) for copy in complete]

    def held(is_wanted: Callable[[CopyFacts], bool]) -> tuple[Interval, ...]:
        wanted = (intervals for copy, intervals in of_complete if is_wanted(copy))
        return tuple(joined(chain.from_iterable(wanted)))

    return RemoteCoverage(
        held(lambda _: True),
        _highest([*complete, *lost], lineage, log_end_offset),
        published=held(lambda copy: bool(copy.is_published)),
        ours=held(lambda copy: copy.is_ours),
        unread=held(lambda copy: copy.is_published is None),
        lost=tuple(joined(chain.from_iterable(copy.held(lineage) for copy in lost))),
    )


def _highest(copies: list[CopyFacts], lineage: LeaderEpochs, log_end_offset: int) -> int:
    highest: dict[int, int] = {}
    for copy in copies:
        for epoch, _, end in epoch_ranges(copy.leader_epochs, copy.end_offset):
            highest[epoch] = max(end, highest.get(epoch, end))
    for epoch, _, end in reversed(epoch_ranges(lineage, log_end_offset)):
        if epoch in highest:
            return min(highest[epoch], end)
    return 0
