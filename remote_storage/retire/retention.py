"""Find the remote segments of a partition that are past retention. Pure: metadata in, a prefix of the log out.

As RemoteLogManager.RLMExpirationTask does it: in ascending offset, up to the first segment that stays,

    log start   its end offset lies below the log start
    time        its largest timestamp <= now - retention.ms
    size        the log behind it still has retention.bytes

Three things differ, because no broker is there to ask. The lineage is that of the newest copy, and segments wholly
below its first leader epoch are the oldest part of the log, judged like the rest: a broker deletes those unasked. A
copy that contradicts the lineage (an unclean election left it) goes only when the log start has passed it. And where
copies overlap, as a leader leaves them that failed over, the bytes of one of them count: a broker knows of no other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, end_offset_for, outside_lineage
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs


class ExpireAction(StrEnum):
    """The action on a segment, or on a whole partition."""

    DELETE = "DELETE"
    LOCKED = "LOCKED"  # the store does not let it be deleted now
    WAIT = "WAIT"  # an older segment is LOCKED: only a prefix of the log goes
    LEAVE_TO_BROKERS = "LEAVE_TO_BROKERS"
    IN_USE = "IN_USE"  # somebody is copying segments of the partition
    REFUSE = "REFUSE"


class Breach(StrEnum):
    """The limit that a segment breaks."""

    LOG_START = "LOG_START"
    TIME = "TIME"
    SIZE = "SIZE"
    OUTSIDE_LINEAGE = "OUTSIDE_LINEAGE"  # the log start has passed it, and it is not of this log
    BEGUN = "BEGUN"  # DELETE_SEGMENT_STARTED is recorded already


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of retention; None sets no limit."""

    now: int  # ms, by the store's clock
    milliseconds: int | None = None  # retention.ms
    size: int | None = None  # retention.bytes, of segment files
    log_start_offset: int | None = None  # first offset that is to stay


@dataclass(frozen=True, slots=True)
class Expired:
    """A segment that goes, and why."""

    metadata: RemoteLogSegmentMetadata
    breach: Breach


def expired(
    segments: Sequence[RemoteLogSegmentMetadata], lineage: LeaderEpochs, retention: Retention
) -> tuple[Expired, ...]:
    """The segments that go, ascending.

    Args:
        segments: complete copies, each with a largest timestamp that is not -1.
        lineage: leader epochs of the newest copy, (epoch, start offset) ascending, at least one.
    """
    log_end = max((each.end_offset + 1 for each in segments), default=0)
    ordered = sorted((each for each in segments if _is_in_log(each, lineage, log_end)), key=_order)
    in_log = {each.id for each in ordered}
    bytes_from = _bytes_from(ordered)
    found: list[Expired] = []
    for each in ordered:
        breach = _breach(each, retention, bytes_from)
        if breach is None:
            break
        found.append(Expired(each, breach))
    log_start = max((each.metadata.end_offset + 1 for each in found), default=0)
    epoch = max((epoch for epoch, start in lineage if start <= log_start), default=-1)
    found += [
        Expired(each, Breach.OUTSIDE_LINEAGE)
        for each in segments
        if each.id not in in_log and each.end_offset < log_start and each.segment_leader_epochs[-1][0] <= epoch
    ]
    return tuple(sorted(found, key=lambda each: _order(each.metadata)))


def _breach(segment: RemoteLogSegmentMetadata, retention: Retention, bytes_from: Callable[[int], int]) -> Breach | None:
    if retention.log_start_offset is not None and segment.end_offset < retention.log_start_offset:
        return Breach.LOG_START
    if retention.milliseconds is not None and segment.max_timestamp <= retention.now - retention.milliseconds:
        return Breach.TIME
    if retention.size is not None and bytes_from(segment.end_offset + 1) >= retention.size:
        return Breach.SIZE
    return None


def _bytes_from(segments: Sequence[RemoteLogSegmentMetadata]) -> Callable[[int], int]:
    """Given an offset: bytes of the segments (ascending) that begin there or behind, no offset counted twice."""
    begins = [each.start_offset for each in segments]
    sizes, beginning = [0], None
    for each in reversed(segments):
        is_apart = beginning is None or each.end_offset < beginning
        beginning = each.start_offset if is_apart else beginning
        sizes.append(sizes[-1] + (each.segment_size if is_apart else 0))
    return lambda offset: sizes[len(begins) - bisect_left(begins, offset)]


def _is_in_log(segment: RemoteLogSegmentMetadata, lineage: LeaderEpochs, log_end: int) -> bool:
    start = lineage[0][1]
    if segment.end_offset < start:
        return True
    return not outside_lineage(segment, end_offset_for(lineage, log_end), log_start_offset=start)


def _order(segment: RemoteLogSegmentMetadata) -> tuple[int, int, str]:
    return segment.start_offset, segment.end_offset, segment.id.segment_id
