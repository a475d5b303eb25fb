"""One log out of all the copies that remote storage has: which bytes of which copy, decided before any is fetched.

The leader epochs of the newest copy are the log's lineage. Of every copy those offsets count that were written under
the same epoch as the lineage says; what a leader wrote that lost an unclean election does not. From the log start on
the copies are laid end to end. Where several hold the next offset, the first of these decides:

    1. a copy that begins there
    2. a copy that is taken whole
    3. the one that reaches further
    4. the later attempt, by its time and then by its segment id

A copy that overlaps its neighbours (replicas roll at different offsets) is cut at a batch. The rules of the lineage are
those of snapshot.log.leader_epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.errors import MissingHeadError, MissingTailError, ObjectNotFoundError, RemoteGapError
from tiersnap.remote_storage.inventory.remote_segment import IncompleteSegment, RemoteSegment
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, epochs_in_range
from tiersnap.remote_storage.restore.request import LeftOutCopy
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch, LeaderEpochs
from tiersnap.snapshot.units import count_of

_MOST_GAPS_NAMED = 10


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Offsets [start_offset, end_offset) of a copy, which become one local segment."""

    copy: RemoteSegment
    start_offset: int
    end_offset: int

    @property
    def is_whole(self) -> bool:
        """Return whether the local segment is the remote one, byte for byte."""
        return (self.start_offset, self.end_offset) == (self.copy.start_offset, self.copy.end_offset)


@dataclass(frozen=True, slots=True)
class Chain:
    """A log without gaps."""

    pieces: tuple[LogPiece, ...]  # ascending; each begins where the one before ends
    log_start_offset: int  # in the first piece
    leader_epochs: LeaderEpochs  # (epoch, start offset) of the pieces, ascending
    left_out: tuple[LeftOutCopy, ...]
    # offsets below the first piece that the lineage knows and remote storage has not: exclusive end, or None. Retention
    # deletes such segments.
    missing_below: int | None

    @property
    def start_offset(self) -> int:
        """Base offset of the first segment."""
        return self.pieces[0].start_offset

    @property
    def end_offset(self) -> int:
        """Exclusive."""
        return self.pieces[-1].end_offset

    @property
    def size(self) -> int:
        """Bytes of the logs to be fetched."""
        return sum(piece.copy.metadata.segment_size for piece in self.pieces)


def plan_chain(
    copies: Sequence[RemoteSegment],
    lineage: LeaderEpochs,
    *,
    unusable: Sequence[IncompleteSegment] = (),
    log_start_offset: int | None = None,
    until: int | None = None,
) -> Chain:
    """Lay the copies end to end.

    Args:
        copies: of one partition, at least one.
        lineage: leader epochs of the newest copy.
        unusable: attempts that are no copies, to be named where they would be needed.
        log_start_offset: first offset wanted; by default where the lineage begins, or the first copy after that.
        until: exclusive end wanted; by default all that there is, which must then be usable.

    Raises:
        ObjectNotFoundError: no copy holds an offset from there on.
        MissingHeadError: no log start is given, and an older segment is not usable.
        MissingTailError: a newer segment is not usable; or the copies end below `until`.
        RemoteGapError: offsets in between are in no copy of this lineage; or those at a given log start.
    """
    of = copies[0].metadata.id.topic_id_partition
    intervals = _up_to(until, [interval for copy in copies for interval in _agreed(copy, lineage)])
    wanted = lineage[0][1] if log_start_offset is None else log_start_offset
    ahead = [interval for interval in intervals if interval.end_offset > wanted]
    if not ahead:
        raise ObjectNotFoundError(f"{of}: no complete copy of a segment holds offset {wanted} or a later one")
    first = min(interval.start_offset for interval in ahead)
    if first > wanted and log_start_offset is not None:
        raise _gap_error(of, [(wanted, first)], unusable)
    if first > wanted:
        _check_head(of, first, [each for each in unusable if each.start_offset < first])
    log_start = max(wanted, first)
    pieces = [max((each for each in ahead if each.start_offset <= log_start), key=lambda each: _preference(each, -1))]
    gaps: list[tuple[int, int]] = []
    while True:
        at = pieces[-1].end_offset
        following = [interval for interval in ahead if interval.end_offset > at]
        if not following:
            break
        if all(interval.start_offset > at for interval in following):
            gaps.append((at, min(interval.start_offset for interval in following)))
            at = gaps[-1][1]
        chosen = max((each for each in following if each.start_offset <= at), key=lambda each: _preference(each, at))
        pieces.append(LogPiece(chosen.copy, at, chosen.end_offset))
    if gaps:
        raise _gap_error(of, gaps, unusable)
    _check_tail(of, pieces[-1], unusable, until)
    return Chain(
        tuple(pieces),
        log_start,
        _leader_epochs(pieces, lineage),
        tuple(_left_out(copies, intervals, pieces, unusable, until)),
        first if first > wanted else None,
    )


def _agreed(copy: RemoteSegment, lineage: LeaderEpochs) -> list[LogPiece]:
    """The offsets of a copy that belong to the lineage, as one piece a stretch."""
    return [LogPiece(copy, start, end) for start, end in copy.facts.held(lineage)]


def _up_to(until: int | None, intervals: Sequence[LogPiece]) -> list[LogPiece]:
    if until is None:
        return list(intervals)
    return [
        LogPiece(each.copy, each.start_offset, min(each.end_offset, until))
        for each in intervals
        if each.start_offset < until
    ]


def _check_head(of: TopicIdPartition, first: int, older: Sequence[IncompleteSegment]) -> None:
    """Retention leaves nothing of a segment; what is left of one says that it was lost, or never finished."""
    if older:
        raise MissingHeadError(
            f"{of}: the log would begin at offset {first}, and "
            f"{count_of(len(older), 'older segment is', 'older segments are')} not usable: {_named(older)}",
            hint="bring their objects back; or say that the log is to begin there: "
            f"--log-start {first} --partition {of}",
        )


def _check_tail(of: TopicIdPartition, last: LogPiece, unusable: Sequence[IncompleteSegment], until: int | None) -> None:
    end_offset = last.end_offset
    if until is not None:
        if end_offset < until:
            raise MissingTailError(
                f"{of}: the usable copies end at offset {end_offset}, before {until}",
                hint=f"--until {end_offset} --partition {of}, or less",
            )
        return
    newer = [each for each in unusable if _reaches_behind(each, last)]
    if newer:
        raise MissingTailError(
            f"{of}: the log would end at offset {end_offset}, and "
            f"{count_of(len(newer), 'newer segment is', 'newer segments are')} not usable: {_named(newer)}",
            hint="bring their objects back; or say that the log is to end there: "
            f"--until {end_offset} --partition {of}",
        )


def _reaches_behind(segment: IncompleteSegment, last: LogPiece) -> bool:
    """Return whether a segment may hold offsets behind the log's last one.

    A new leader rolled elsewhere: it copies the segment that has the next offset in it, from below the end on.
    """
    if segment.end_offset is not None:
        return segment.end_offset > last.end_offset
    return segment.start_offset > last.copy.start_offset


def _named(attempts: Sequence[IncompleteSegment]) -> str:
    return "; ".join(
        f"segment {each.segment_id} from offset {each.start_offset}: {each.problem}"
        for each in sorted(attempts, key=lambda each: each.start_offset)[:_MOST_GAPS_NAMED]
    )


def _preference(interval: LogPiece, at: int) -> tuple[bool, bool, int, int, str]:
    begins_there = interval.start_offset == at
    return begins_there, interval.is_whole, interval.end_offset, *interval.copy.attempt


def _leader_epochs(pieces: Sequence[LogPiece], lineage: LeaderEpochs) -> LeaderEpochs:
    """The lineage within the pieces, and below its beginning what the pieces themselves say."""
    start, end = pieces[0].start_offset, pieces[-1].end_offset
    entries: list[LeaderEpoch] = []
    for piece in pieces:
        stop = min(piece.end_offset, lineage[0][1])
        if piece.start_offset < stop:
            for entry in epochs_in_range(piece.copy.metadata.segment_leader_epochs, piece.start_offset, stop):
                if not entries or entry[0] > entries[-1][0]:
                    entries.append(entry)
    entries += [entry for entry in lineage if not entries or entry[0] > entries[-1][0]]
    return epochs_in_range(entries, start, end)


def _left_out(
    copies: Sequence[RemoteSegment],
    intervals: Sequence[LogPiece],
    pieces: Sequence[LogPiece],
    unusable: Iterable[IncompleteSegment],
    until: int | None,
) -> Iterable[LeftOutCopy]:
    used = {piece.copy.segment_id for piece in pieces}
    agreed = {interval.copy.segment_id for interval in intervals}
    for copy in copies:
        if copy.segment_id in used:
            continue
        same = next((piece for piece in pieces if piece.start_offset == copy.start_offset), None)
        if copy.end_offset <= pieces[0].start_offset:
            reason = "below the log start offset"
        elif until is not None and copy.start_offset >= until:
            reason = "behind the end that was asked for"
        elif copy.segment_id not in agreed:
            reason = "written under leader epochs that the newest segment does not know"
        elif same is not None:
            reason = f"another copy of the same base offset is taken: {same.copy.segment_id}"
        else:
            reason = "other copies hold the same offsets"
        yield LeftOutCopy(copy.segment_id, copy.start_offset, copy.end_offset, reason)
    for attempt in unusable:
        yield LeftOutCopy(attempt.segment_id, attempt.start_offset, None, attempt.problem)


def _gap_error(
    of: TopicIdPartition, gaps: Sequence[tuple[int, int]], unusable: Iterable[IncompleteSegment]
) -> RemoteGapError:
    named = ", ".join(f"{start} to {end - 1}" for start, end in gaps[:_MOST_GAPS_NAMED])
    more = f" and {len(gaps) - _MOST_GAPS_NAMED} gaps more" if len(gaps) > _MOST_GAPS_NAMED else ""
    broken = [
        f"segment {attempt.segment_id} from offset {attempt.start_offset} is not usable: {attempt.problem}"
        for attempt in unusable
        if any(start <= attempt.start_offset < end for start, end in gaps)
    ]
    return RemoteGapError(
        "; ".join([f"{of}: offsets {named}{more} are in no complete remote segment of this log", *broken]),
        hint="a log with a hole is never restored: bring the missing objects back, "
        f"or begin behind the hole with --log-start {gaps[-1][1]} --partition {of}",
        gaps=[list(gap) for gap in gaps],
    )
