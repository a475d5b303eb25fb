"""Compute which offsets of a partition the remote segments cover, by a broker's rules.

A broker copies only segments above its highest remote offset, even if remote storage has gaps below. To find this
offset, the broker takes the newest of the log's leader epochs that a remote segment contains. The highest remote offset
is the last offset of this epoch in a remote segment. A log's lineage is the list of its leader epochs. Follows
org.apache.kafka.server.log.remote.storage.RemoteLogManager.findHighestRemoteOffset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.leader_epochs import Interval, epoch_ranges, held_intervals, joined


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """The facts about a remote segment that decide which offsets it covers."""

    start_offset: int
    end_offset: int  # exclusive
    leader_epochs: LeaderEpochs  # (epoch, start offset) of the segment, ascending
    # Whether the segment is visible and all its objects exist in the right sizes; if that was not checked, whether a
    # COPY_SEGMENT_FINISHED record names it. An incomplete segment covers nothing.
    is_complete: bool = True
    is_ours: bool = False  # whether tiersnap uploaded it
    # Whether a COPY_SEGMENT_FINISHED record names it; None if no such record was found and not all records were read.
    is_published: bool | None = None

    def held(self, lineage: LeaderEpochs) -> list[Interval]:
        """Return the segment's offsets that belong to the lineage; see `held_intervals`."""
        return held_intervals(self.start_offset, self.end_offset, self.leader_epochs, lineage)

    def is_of(self, lineage: LeaderEpochs) -> bool:
        """Return whether all offsets of the segment belong to the lineage."""
        return self.held(lineage) == [(self.start_offset, self.end_offset)]


@dataclass(frozen=True, slots=True)
class RemoteCoverage:
    """The offsets of one lineage that are in remote storage."""

    # [start, exclusive end) of the offsets that remote segments of the lineage cover: ascending, neither overlapping
    # nor adjacent.
    covered: tuple[Interval, ...] = ()
    highest: int = 0  # the broker's highest remote offset + 1, or 0; a broker copies no offset below it
    in_flight: frozenset[int] = frozenset()  # base offsets of segments that are being copied now
    # [start, exclusive end) of tiersnap's unfinished segments. `covered` lacks them until their claims are finished.
    unfinished: tuple[Interval, ...] = ()
    # Time of a broker's last write of a segment's object, ms by the store's clock; None without one.
    broker_wrote_at: int | None = None
    encrypted_by: str = ""  # key of a manifest which shows that the plugin encrypts; "" without one
    # Parts of `covered`: segments with a COPY_SEGMENT_FINISHED record (`published`), segments that tiersnap uploaded
    # (`ours`), and segments whose record was not found although not all records were read (`unread`).
    published: tuple[Interval, ...] = ()
    ours: tuple[Interval, ...] = ()
    unread: tuple[Interval, ...] = ()
    lost: tuple[Interval, ...] = ()  # offsets of published segments that lack objects

    def is_unfinished(self, start_offset: int, end_offset: int) -> bool:
        """Return whether an unfinished segment contains an offset of [start, exclusive end)."""
        return overlap(self.unfinished, start_offset, end_offset)

    def covers(self, start_offset: int, end_offset: int) -> bool:
        """Return whether remote segments cover all of [start, exclusive end); True for an empty range."""
        return contain(self.covered, start_offset, end_offset)

    def has_segment(self, start_offset: int, end_offset: int, log_start_offset: int = 0) -> bool:
        """Return whether remote storage has the local segment [start, exclusive end), published or not.

        Offsets below `log_start_offset` need no remote segment, because their records are deleted.
        """
        return end_offset <= self.highest and self.covers(max(start_offset, log_start_offset), end_offset)


NOTHING_REMOTE = RemoteCoverage()


def contain(intervals: Iterable[Interval], start_offset: int, end_offset: int) -> bool:
    """Return whether one of the intervals contains all of [start, exclusive end); True for an empty range."""
    return start_offset >= end_offset or any(start <= start_offset and end_offset <= end for start, end in intervals)


def overlap(intervals: Iterable[Interval], start_offset: int, end_offset: int) -> bool:
    """Return whether one of the intervals contains an offset of [start, exclusive end)."""
    return any(start < end_offset and start_offset < end for start, end in intervals)


def coverage_of(copies: Iterable[CopyFacts], lineage: LeaderEpochs, log_end_offset: int) -> RemoteCoverage:
    """Return the coverage of a lineage by remote segments.

    A complete segment covers the offsets at which its leader epochs agree with the lineage. A published segment that
    lost objects covers nothing, but raises `highest`, because brokers do not copy its offsets again.

    Args:
        lineage: (epoch, start offset) of the local log, ascending.
        log_end_offset: exclusive end of the local log.
    """
    known: list[CopyFacts] = []
    of_complete: list[tuple[CopyFacts, list[Interval]]] = []
    lost: list[Interval] = []
    for copy in copies:
        if not copy.is_complete and not copy.is_published:
            continue
        known.append(copy)
        if copy.is_complete:
            of_complete.append((copy, copy.held(lineage)))
        else:
            lost += copy.held(lineage)

    def held(is_wanted: Callable[[CopyFacts], bool]) -> tuple[Interval, ...]:
        found: list[Interval] = []
        for copy, intervals in of_complete:
            if is_wanted(copy):
                found += intervals
        return tuple(joined(found))

    return RemoteCoverage(
        held(lambda _: True),
        _highest(known, lineage, log_end_offset),
        published=held(lambda copy: bool(copy.is_published)),
        ours=held(lambda copy: copy.is_ours),
        unread=held(lambda copy: copy.is_published is None),
        lost=tuple(joined(lost)),
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
