"""Choose the remote segments that make one log, and their offsets, before any object is fetched.

The leader epochs of the newest remote segment are the log's lineage. An offset of a segment is used only if the segment
and the lineage have the same leader epoch for this offset. So records of a leader that lost an unclean election are not
used. The segments are joined end to end from the log start offset. If several segments contain the next offset, one is
chosen by these rules, in this order:

    1. prefer a segment that begins at that offset
    2. prefer a segment whose offsets are all used
    3. prefer the segment that ends at the highest offset
    4. prefer the latest copy attempt, by time and then by segment id

Replicas roll at different offsets, so segments can overlap. An overlapping segment is cut between two batches. The
rules of the lineage are in snapshot.log.leader_epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tiersnap.remote_storage.errors import MissingHeadError, MissingTailError, ObjectNotFoundError, RemoteGapError
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, epochs_in_range
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment
from tiersnap.remote_storage.restore.request import LeftOutCopy
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch, LeaderEpochs
from tiersnap.snapshot.units import count_of

_MOST_GAPS_NAMED = 10


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Offsets [start_offset, end_offset) of a remote segment, which become one local segment."""

    copy: RemoteSegment
    start_offset: int
    end_offset: int

    @property
    def is_whole(self) -> bool:
        """Return whether the local segment is equal to the remote segment, byte for byte."""
        return (self.start_offset, self.end_offset) == (self.copy.start_offset, self.copy.end_offset)


@dataclass(frozen=True, slots=True)
class Chain:
    """A log without gaps."""

    pieces: tuple[LogPiece, ...]  # ascending and contiguous
    log_start_offset: int  # an offset of the first piece
    leader_epochs: LeaderEpochs  # (epoch, start offset) of the pieces, ascending
    left_out: tuple[LeftOutCopy, ...]
    # The lineage has offsets below this one (exclusive) that remote storage lacks, perhaps because of retention. None
    # if the log begins with the lineage.
    missing_below: int | None

    @property
    def start_offset(self) -> int:
        """Return the base offset of the first segment."""
        return self.pieces[0].start_offset

    @property
    def end_offset(self) -> int:
        """Return the log end offset (exclusive)."""
        return self.pieces[-1].end_offset

    @property
    def size(self) -> int:
        """Return the bytes of the segment files to fetch."""
        return sum(piece.copy.metadata.segment_size for piece in self.pieces)


def plan_chain(
    copies: Sequence[RemoteSegment],
    lineage: LeaderEpochs,
    *,
    unusable: Sequence[IncompleteSegment] = (),
    log_start_offset: int | None = None,
    until: int | None = None,
) -> Chain:
    """Choose remote segments, and parts of them, that form the log without overlaps.

    Args:
        copies: remote segments of one partition, at least one.
        lineage: leader epochs of the newest segment.
        unusable: incomplete segments. Errors name the incomplete segments that the log would need.
        log_start_offset: first wanted offset. [default: the start of the lineage, or the first higher offset that a
            segment contains]
        until: wanted end, exclusive. [default: the end of the newest segment, which must be usable]

    Raises:
        ObjectNotFoundError: no segment contains the first wanted offset or a later one.
        MissingHeadError: no log start offset is given, and the log would begin above an incomplete segment.
        MissingTailError: the log ends below `until`. Or `until` is None, and an incomplete segment may contain later
            offsets.
        RemoteGapError: no segment of this lineage contains the offsets between two segments, or the given first offset.
    """
    of = copies[0].metadata.id.topic_id_partition
    intervals = _up_to(until, _in_lineage(copies, lineage))
    wanted = lineage[0][1] if log_start_offset is None else log_start_offset
    ahead = [interval for interval in intervals if interval.end_offset > wanted]
    if not ahead:
        raise ObjectNotFoundError(f"{of}: no complete remote segment has offset {wanted} or a later one")
    log_start = _log_start(of, ahead, wanted, unusable, is_given=log_start_offset is not None)
    pieces, gaps = _lay_end_to_end(ahead, log_start)
    if gaps:
        raise _gap_error(of, gaps, unusable)
    if until is None:
        _check_tail(of, pieces[-1], unusable)
    else:
        _check_until(of, pieces[-1].end_offset, until)
    return Chain(
        tuple(pieces),
        log_start,
        _leader_epochs(pieces, lineage),
        (*_left_out_copies(copies, intervals, pieces, until), *_left_out_attempts(unusable)),
        log_start if log_start > wanted else None,
    )


def _in_lineage(copies: Iterable[RemoteSegment], lineage: LeaderEpochs) -> list[LogPiece]:
    """Return the offsets of segments that belong to the lineage, one piece for each contiguous range."""
    return [LogPiece(copy, start, end) for copy in copies for start, end in copy.facts.held(lineage)]


def _up_to(until: int | None, intervals: Sequence[LogPiece]) -> list[LogPiece]:
    """Return the intervals below `until` (exclusive). An interval that contains `until` is cut there."""
    if until is None:
        return list(intervals)
    below = (each for each in intervals if each.start_offset < until)
    return [replace(each, end_offset=min(each.end_offset, until)) for each in below]


def _log_start(
    of: TopicIdPartition,
    ahead: Iterable[LogPiece],
    wanted: int,
    unusable: Sequence[IncompleteSegment],
    *,
    is_given: bool,
) -> int:
    """Return the first offset of the log: the wanted offset, or the first offset above it that a segment contains.

    Args:
        is_given: whether the user gave the wanted offset. If so, the log must begin at this offset.

    Raises:
        RemoteGapError: no segment contains the given offset.
        MissingHeadError: the log would begin above an incomplete segment.
    """
    first = min(piece.start_offset for piece in ahead)
    if first <= wanted:
        return wanted
    if is_given:
        raise _gap_error(of, [(wanted, first)], unusable)
    _check_head(of, first, unusable)
    return first


def _lay_end_to_end(ahead: Sequence[LogPiece], log_start: int) -> tuple[list[LogPiece], list[tuple[int, int]]]:
    """Return the pieces at and above the log start offset, and the gaps [start, end) between them."""
    pieces = [_best_at(log_start, ahead, prefer_start=-1)]
    gaps: list[tuple[int, int]] = []
    while following := [interval for interval in ahead if interval.end_offset > pieces[-1].end_offset]:
        end = pieces[-1].end_offset
        at = max(end, min(interval.start_offset for interval in following))
        if at > end:
            gaps.append((end, at))
        best = _best_at(at, following, prefer_start=at)
        pieces.append(LogPiece(best.copy, at, best.end_offset))
    return pieces, gaps


def _check_head(of: TopicIdPartition, first: int, unusable: Sequence[IncompleteSegment]) -> None:
    """Refuse a log that begins above incomplete segments.

    Retention did not delete these segments, because their objects or records still exist.
    """
    older = [each for each in unusable if each.start_offset < first]
    if older:
        raise MissingHeadError(
            f"{of}: the log would begin at offset {first}, because "
            f"{count_of(len(older), 'older segment', 'older segments')} cannot be used: {_named(older)}",
            hint=f"restore the objects of these segments; or let the log begin at offset {first}: --log-start "
            f"{first} --partition {of}",
        )


def _check_until(of: TopicIdPartition, end_offset: int, until: int) -> None:
    """Refuse a log that ends below the end offset that the user gave."""
    if end_offset < until:
        raise MissingTailError(
            f"{of}: the usable segments end at offset {end_offset}, before the wanted end offset {until}",
            hint=f"give --until {end_offset} --partition {of}, or a lower offset",
        )


def _check_tail(of: TopicIdPartition, last: LogPiece, unusable: Sequence[IncompleteSegment]) -> None:
    """Refuse a log if an incomplete segment may continue it."""
    end_offset = last.end_offset
    newer = [each for each in unusable if _reaches_behind(each, last)]
    if newer:
        raise MissingTailError(
            f"{of}: the log would end at offset {end_offset}, because "
            f"{count_of(len(newer), 'newer segment', 'newer segments')} cannot be used: {_named(newer)}",
            hint=f"restore the objects of these segments; or let the log end at offset {end_offset}: --until "
            f"{end_offset} --partition {of}",
        )


def _reaches_behind(segment: IncompleteSegment, last: LogPiece) -> bool:
    """Return whether an incomplete segment may contain offsets at or above the log end.

    A new leader may roll its segments at other offsets than the old leader. So the segment with the next offset can
    begin below the log end.
    """
    if segment.end_offset is not None:
        return segment.end_offset > last.end_offset
    return segment.start_offset > last.copy.start_offset


def _named(attempts: Sequence[IncompleteSegment]) -> str:
    shown = sorted(attempts, key=lambda each: each.start_offset)[:_MOST_GAPS_NAMED]
    return "; ".join(f"segment {each.segment_id} from offset {each.start_offset}: {each.problem}" for each in shown)


def _best_at(offset: int, intervals: Iterable[LogPiece], *, prefer_start: int) -> LogPiece:
    """Return the best interval that contains an offset, by the rules of this module.

    Args:
        prefer_start: an interval that begins at this offset is preferred to all others; -1 for none.
    """

    def rank(interval: LogPiece) -> tuple[bool, bool, int, int, str]:
        begins_there = interval.start_offset == prefer_start
        return begins_there, interval.is_whole, interval.end_offset, *interval.copy.attempt

    return max((each for each in intervals if each.start_offset <= offset), key=rank)


def _leader_epochs(pieces: Sequence[LogPiece], lineage: LeaderEpochs) -> LeaderEpochs:
    """Return the leader epochs of the log. Below the start of the lineage, they come from the segments' metadata."""
    start, end = pieces[0].start_offset, pieces[-1].end_offset
    entries: list[LeaderEpoch] = []
    for piece in pieces:
        stop = min(piece.end_offset, lineage[0][1])
        if piece.start_offset < stop:
            entries += _later(
                epochs_in_range(piece.copy.metadata.segment_leader_epochs, piece.start_offset, stop), entries
            )
    return epochs_in_range([*entries, *_later(lineage, entries)], start, end)


def _later(some: LeaderEpochs, than: Sequence[LeaderEpoch]) -> list[LeaderEpoch]:
    """Return the entries of `some` whose epoch is higher than the last epoch of `than`."""
    return [entry for entry in some if not than or entry[0] > than[-1][0]]


def _left_out_copies(
    copies: Sequence[RemoteSegment], intervals: Sequence[LogPiece], pieces: Sequence[LogPiece], until: int | None
) -> Iterator[LeftOutCopy]:
    """Yield the remote segments that no piece uses, with the reason."""
    used = {piece.copy.segment_id for piece in pieces}
    in_lineage = {interval.copy.segment_id for interval in intervals}
    by_start = {piece.start_offset: piece for piece in pieces}

    def reason(copy: RemoteSegment) -> str:
        if copy.end_offset <= pieces[0].start_offset:
            return "the segment is below the log start offset"
        if until is not None and copy.start_offset >= until:
            return "the segment is above the end offset of the restored log"
        if copy.segment_id not in in_lineage:
            return "the newest segment does not have the leader epochs of this segment"
        if same := by_start.get(copy.start_offset):
            return f"segment {same.copy.segment_id}, which has the same base offset, is used instead"
        return "other segments with the same offsets are used instead"

    for copy in copies:
        if copy.segment_id not in used:
            yield LeftOutCopy(copy.segment_id, copy.start_offset, copy.end_offset, reason(copy))


def _left_out_attempts(unusable: Iterable[IncompleteSegment]) -> Iterator[LeftOutCopy]:
    for attempt in unusable:
        yield LeftOutCopy(attempt.segment_id, attempt.start_offset, None, attempt.problem)


def _gap_error(
    of: TopicIdPartition, gaps: Sequence[tuple[int, int]], unusable: Iterable[IncompleteSegment]
) -> RemoteGapError:
    named = ", ".join(f"{start} to {end - 1}" for start, end in gaps[:_MOST_GAPS_NAMED])
    if len(gaps) > _MOST_GAPS_NAMED:
        named += f" and {len(gaps) - _MOST_GAPS_NAMED} more ranges"
    message = f"{of}: no complete remote segment of this log has the offsets {named}"
    for each in unusable:
        if _is_in_gap(each, gaps):
            message += f"; segment {each.segment_id} from offset {each.start_offset} cannot be used: {each.problem}"
    return RemoteGapError(
        message,
        hint="restore never restores a log with a gap: restore the missing objects, or let the log begin above the "
        f"gap: --log-start {gaps[-1][1]} --partition {of}",
        gaps=[list(gap) for gap in gaps],
    )


def _is_in_gap(attempt: IncompleteSegment, gaps: Iterable[tuple[int, int]]) -> bool:
    return any(start <= attempt.start_offset < end for start, end in gaps)
