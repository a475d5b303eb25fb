"""Find the offsets that a log lost in remote storage, for `verify` and for listings of remote storage.

Offsets in a gap between complete segments are lost, because retention deletes only the oldest segments. Offsets below
the first segment are lost if they are at or above the log start offset, because brokers advance the log start before
they delete a segment. A finished claim proves that tiersnap uploaded a segment, even if its objects no longer exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.gate.lost_ranges import in_no_segment
from tiersnap.snapshot.gate.remote_check import RemoteVerdict
from tiersnap.snapshot.log.leader_epochs import ENDLESS, Interval
from tiersnap.snapshot.log.lock import holder_of
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import log_start_of


@dataclass(frozen=True, slots=True)
class KnownLogStart:
    """A log start offset.

    Attributes:
        is_current: False if the offset comes from the checkpoint of a running broker. Such a checkpoint is up to a
            minute old, and retention may have deleted further offsets since then.
    """

    offset: int
    is_current: bool


LogStartOf = Callable[[TopicIdPartition, Sequence[Interval]], KnownLogStart | None]
"""Returns the log start of a partition, or None if unknown. The intervals are offsets of remote segments, ascending.

Call it only after remote storage was listed. Otherwise a segment that retention deletes in between would look lost.
"""
AskLogStart = Callable[[TopicIdPartition], int | None]
"""Asks a cluster for the log start of a partition. Returns None if there is no leader, or if the topic id differs."""


def start_by_files(partition: Partition, covered: Sequence[Interval] = ()) -> KnownLogStart | None:
    """Return the log start offset according to the files of a log directory; None if unknown.

    Args:
        covered: offsets of the log's lineage that remote segments cover.
    """
    start = log_start_of(partition, covered)
    if start is None:
        return None
    return KnownLogStart(start, is_current=_has_current_checkpoint(partition))


def _has_current_checkpoint(partition: Partition) -> bool:
    """Return whether the log directory is on this host and no broker uses it. Otherwise the checkpoint may be old."""
    try:
        return partition.is_of_this_host and holder_of(Path(partition.path).parent) is None
    except OSError:
        return False


def unknown_log_start(_: TopicIdPartition, __: Sequence[Interval]) -> KnownLogStart | None:
    """Return None. A command with neither a log directory nor a cluster uses this function as its LogStartOf."""
    return None


def gaps_between(covered: Sequence[Interval], local_from: int | None) -> Iterator[Interval]:
    """Yield the gaps between covered intervals, then the gap from the last one up to the local log.

    Args:
        covered: ascending, disjoint intervals with exclusive ends.
        local_from: base offset of the first local file; None without a local log.
    """
    yield from ((stop, begin) for (_, stop), (begin, _) in pairwise(covered))
    if covered and local_from is not None:
        yield covered[-1][1], local_from


@dataclass(frozen=True)
class Uploads:
    """The claims and records that show which segments of one log were uploaded at some time.

    Attributes:
        claimed: segments that have a claim.
        recorded: base offsets of published segments; empty if the cluster's records may be incomplete.
        deleted: ids of segments in the state DELETE_SEGMENT_STARTED or DELETE_SEGMENT_FINISHED.
    """

    store: ObjectStore
    claimed: Iterable[ClaimedSegment]
    recorded: Collection[int] = ()
    deleted: Collection[str] = ()

    def has_any(self, start: int, end: int | None) -> bool:
        """Return whether a segment with a base offset in [start, end) was uploaded. Usually needs one request."""
        if end is None:
            end = ENDLESS
        within = range(start, end)
        if any(base in within for base in self.recorded):
            return True
        return any(map(self._was_finished, self._newest_first(within)))

    def _newest_first(self, offsets: range) -> list[ClaimedSegment]:
        """Return the claims on segments with these base offsets, newest first."""
        wanted = (each for each in self.claimed if each.base_offset in offsets)
        return sorted(wanted, key=lambda each: (each.base_offset, each.leader_epoch), reverse=True)

    @property
    def bases(self) -> list[int]:
        """Return the base offsets of all uploads."""
        return [*self.recorded, *(each.base_offset for each in self.claimed)]

    def last_from(self, offset: int) -> int:
        """Return the highest base offset of an upload at or below `offset`.

        Return `offset` if there is no such upload.
        """
        return max((each for each in self.bases if each <= offset), default=offset)

    def _was_finished(self, segment: ClaimedSegment) -> bool:
        """Return whether tiersnap finished the segment and brokers did not delete it.

        Return True for a damaged claim, because a false alarm is safer than a missing one.
        """
        try:
            claim = read_claim(self.store, segment)
        except CorruptDataError:
            return True
        return claim is not None and not {*claim.kept, *filter(None, [claim.finished])}.issubset(self.deleted)


@dataclass(frozen=True, slots=True)
class Head:
    """The missing offsets [start, end) below the first remote segment. `end` is None if there is no remote segment."""

    start: int
    end: int | None
    verdict: RemoteVerdict
    reason: str


@dataclass(frozen=True)
class LogHead:
    """The beginning of one log in remote storage.

    Attributes:
        first: the first offset in a remote segment; None without a segment.
        local_from: base offset of the first local file; None without a local log.
        needs_upload: If True, offsets count as lost only if `uploads` proves that they were uploaded. If False, this
            proof is needed in two cases: the local log contains the offsets, or no remote segment exists.
    """

    uploads: Uploads
    first: int | None
    local_from: int | None = None
    needs_upload: bool = False

    def judge(self, start: KnownLogStart | None) -> Head | None:
        """Return the offsets that are lost or may be lost; None if no offsets are missing."""
        if start is None:
            return self._judge_from_zero()
        if self.first is not None and self.first <= start.offset:
            return None
        if not self._is_proven(start.offset):
            return None
        if not start.is_current:
            return self._doubt(start.offset, _OLD_CHECKPOINT)
        return Head(start.offset, self.first, RemoteVerdict.MISSING, in_no_segment(self._from(start.offset)))

    def _judge_from_zero(self) -> Head | None:
        """Return the offsets from 0 to the first segment. They may be lost, because the log start is unknown."""
        if self.first is not None and self.first <= 0:
            return None
        if self.first is None and not self.uploads.has_any(0, None):
            return None
        return self._doubt(0, _UNKNOWN_START)

    def _is_proven(self, start: int) -> bool:
        """Return whether the offsets from `start` to the first segment are known to have been in remote storage."""
        if self.needs_upload:
            # The log start may be in the middle of a segment.
            return self.uploads.has_any(self.uploads.last_from(start), self.first)
        is_in_files = self.local_from is not None and self.local_from <= start
        return not (self.first is None or is_in_files) or self.uploads.has_any(start, self.first)

    def _doubt(self, start: int, why: str) -> Head:
        return Head(start, self.first, RemoteVerdict.UNVERIFIED, why.format(self._from(start)))

    def _from(self, start: int) -> str:
        return f"from {start} on" if self.first is None else f"{start} to {self.first - 1}"


_ASK = (
    "The log start offset decides which of the two is true: give the LOGDIR of a broker that has the partition, or "
    "--bootstrap-server"
)
_UNKNOWN_START = f"no remote segment has the offsets {{}}: retention deleted them, or they were lost. {_ASK}"
_OLD_CHECKPOINT = (
    "no remote segment has the offsets {}: they were lost, or retention deleted them. log-start-offset-checkpoint of "
    "the running broker may be out of date: give --bootstrap-server, or verify again after a minute"
)
