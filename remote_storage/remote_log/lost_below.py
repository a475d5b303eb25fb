"""Find lost offsets below the first local file. Remote storage had these offsets and lost them.

The base offset of a claim or of a published segment is suspected if no complete segment begins there. If no offset is
suspected, no request is made. Otherwise the manifests of neighbouring segments are read, then the claims of the
suspected offsets, newest first. A second listing confirms the result, because another host may have finished a segment
since the first one.

Gaps between complete segments are always reported. Offsets below the first complete segment are reported only if the
log start is current (KnownLogStart in log_head.py). The checkpoint of a running broker may be a minute old.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.metadata.segment_metadata import name_of
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.log_head import (
    AskLogStart,
    KnownLogStart,
    LogHead,
    Uploads,
    gaps_between,
    start_by_files,
)
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, ids_of, list_segments
from tiersnap.remote_storage.stores.requests import in_waves
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch, LeaderEpochs
from tiersnap.snapshot.gate.lost_ranges import lost_error
from tiersnap.snapshot.log.coverage import overlap
from tiersnap.snapshot.log.leader_epochs import ENDLESS, Interval, agreed_intervals, joined
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.remote_listing import ListedCopy, LostRange, RemoteSegmentState
from tiersnap.snapshot.replay.remote_records import PartitionRecords

_DELETED = (RemoteSegmentState.DELETE_SEGMENT_STARTED, RemoteSegmentState.DELETE_SEGMENT_FINISHED)


def lost_error_of(location: RemoteLocation, partition: Partition, lost: Sequence[LostRange]) -> CorruptDataError | None:
    """Return the error that names the lost offsets of a partition; None if no offsets are lost."""
    if not lost:
        return None
    log_dir = posixpath.dirname(partition.path) if partition.is_of_this_host else ""
    return lost_error(partition.name, lost, location.words, log_dir)


@dataclass(frozen=True)
class LostBelow:
    """The search for lost offsets in one partition.

    Attributes:
        found: the first listing of `location`.
        records: the cluster's records of the partition; None if they were not read.
        ask: asks the cluster for the current log start; None without a cluster.
    """

    location: RemoteLocation
    partition: Partition
    found: RemoteInventory
    known: KnownManifests
    records: PartitionRecords | None = None
    ask: AskLogStart | None = None
    _held: dict[str, list[Interval]] = field(
        default_factory=dict
    )  # the log's offsets in each segment that was read, by segment id

    def find(self) -> tuple[LostRange, ...]:
        """Return the lost offsets, ascending; empty if the log start is unknown.

        Raises:
            TransientError, RemoteStorageError: remote storage or the cluster does not answer, or refuses a request.
        """
        start = start_by_files(self.partition)
        if start is None or start.offset >= self._first:
            return ()
        may_be_current = start
        if self.ask is not None:
            may_be_current = KnownLogStart(start.offset, is_current=True)
        if not any(self._lost(self._listed_first(), may_be_current)):
            return ()
        again = self._listed_again()
        return tuple(self._lost(again, self._asked_start(start)))

    def _asked_start(self, start: KnownLogStart) -> KnownLogStart:
        """Return the log start from the cluster. If the cluster does not know the log start, return `start`."""
        if self.ask is None:
            return start
        told = self.ask(name_of(self.partition))
        if told is None:
            return start
        return KnownLogStart(told, is_current=True)

    def _listed_first(self) -> list[SegmentObjects]:
        """Return the segments that have all objects in the first listing, ascending."""
        read = (*self.found.segments, *self.found.uncounted)
        self._held.update({each.segment_id: each.facts.held(self._lineage) for each in read})
        return sorted((*self.found.unread, *(each.objects for each in read)), key=_offset)

    def _listed_again(self) -> list[SegmentObjects]:
        """List both layouts again, and return the segments that have all objects, ascending."""
        listed: list[SegmentObjects] = []
        places = self.location, self.location.in_other_layout
        for location in places:
            listed += (each for each in list_segments(location, self.found.partition) if not each.missing)
        return sorted(listed, key=_offset)

    @property
    def _first(self) -> int:
        return self.partition.first_base_offset

    @property
    def _lineage(self) -> LeaderEpochs:
        return self.partition.leader_epochs or ()

    def _lost(self, segments: Sequence[SegmentObjects], start: KnownLogStart) -> Iterator[LostRange]:
        """Yield the lost offsets, given the listed segments that have all objects."""
        uploads = self._missing_uploads(segments, start.offset)
        suspected = self._suspected(uploads, segments, start)
        if not suspected:
            return
        self._read_around(segments, suspected)
        covered = self._covered(segments, start.offset)
        first = self._first
        if covered:
            first = covered[0][0]
        if start.is_current and suspected[0] < first:
            head = LogHead(uploads, first, self._first, needs_upload=True).judge(start)
            if head is not None:
                yield LostRange(head.start, first)
        for gap in gaps_between(covered, self._first):
            if any(each in range(*gap) for each in suspected) and uploads.has_any(*gap):
                yield LostRange(*gap)

    def _suspected(self, uploads: Uploads, segments: Sequence[SegmentObjects], start: KnownLogStart) -> list[int]:
        """Return the offsets that may be lost, ascending.

        If the log start is not current, offsets up to the start of the first segment are omitted.
        """
        suspected = sorted({max(base, start.offset) for base in uploads.bases})
        if start.is_current:
            return suspected
        if not segments:
            return []
        return suspected[bisect_right(suspected, segments[0].start_offset) :]

    def _missing_uploads(self, segments: Sequence[SegmentObjects], start: int) -> Uploads:
        """Return the uploads below the local log that have no listed segment. `start` is the log start offset.

        An upload is a claim or a published segment. A listed segment matches a claim by its base offset, and a
        published segment by its segment id.
        """
        begins = {each.start_offset for each in segments if self._held.get(each.segment_id) != []}
        recorded = self._recorded(ids_of(segments), start)
        claimed = tuple(self._missing_claims(begins, start))
        return Uploads(self.location.store, claimed, recorded, self._deleted)

    def _missing_claims(self, begins: Collection[int], start: int) -> Iterator[ClaimedSegment]:
        """Yield this log's claims below the first local file whose base offset is not in `begins`.

        `start` is the log start offset.
        """
        below = range(self._begin_at(begins, start), self._first)
        for each in self.found.claimed:
            is_missing = each.base_offset in below and each.base_offset not in begins
            if is_missing and self._is_of_log(each):
                yield each

    def _begin_at(self, begins: Iterable[int], start: int) -> int:
        """Return the highest base offset at or below `start`, or `start` if there is none.

        The log start `start` may be in the middle of a segment.
        """
        bases = chain(begins, (each.base_offset for each in self.found.claimed))
        return max((base for base in bases if base <= start), default=start)

    def _is_of_log(self, claimed: ClaimedSegment) -> bool:
        """Return whether the log has an offset of the claim's leader epoch at or above the claim's base offset."""
        epochs = (LeaderEpoch(claimed.leader_epoch, claimed.base_offset),)
        return bool(agreed_intervals(epochs, ENDLESS, self._lineage))

    def _recorded(self, ids: Collection[str], start: int) -> tuple[int, ...]:
        """Return the base offsets of published segments whose id is not in `ids`.

        If records may be missing, return an empty tuple.
        """
        if self.records is None or not self.records.is_complete:
            return ()
        absent = (each for each in self.records.published if each.segment_id not in ids)
        return tuple(self._bases_below(absent, start))

    def _bases_below(self, published: Iterable[ListedCopy], start: int) -> Iterator[int]:
        """Yield the base offsets of the log's segments between the log start and the local log."""
        for each in published:
            is_below = each.base_offset < self._first and each.next_base_offset > start
            if is_below and each.facts.held(self._lineage):
                yield each.base_offset

    @cached_property
    def _deleted(self) -> frozenset[str]:
        """Return the ids of segments that brokers deleted, are deleting or may have deleted, according to records."""
        if self.records is None:
            return frozenset()
        gone = (each.segment_id for each in self.records.segments if each.state in _DELETED)
        return frozenset([*gone, *self.records.doubtful])

    def _read_around(self, segments: Sequence[SegmentObjects], suspected: Iterable[int]) -> None:
        """Read the segments around each suspected offset.

        Above the offset, reading ends at the first segment with offsets of this log. Segments below the offset are
        read by `_read_below`.
        """
        starts = [each.start_offset for each in segments]
        highest = {bisect_right(starts, offset): offset for offset in suspected}
        for place, offset in sorted(highest.items(), reverse=True):
            below: Sequence[Interval] = ()
            if place:
                below = self._held.get(segments[place - 1].segment_id, ())
            if not overlap(below, offset, offset + 1):
                any(map(self._held_by, segments[place:]))
                self._read_below(reversed(segments[:place]), offset)

    def _read_below(self, segments: Iterable[SegmentObjects], offset: int) -> None:
        """Read segments in descending order.

        Stop after a group of parallel requests whose segments all end at or below `offset`.
        """
        for wave in in_waves(self._held_by, segments, is_known=lambda each: each.segment_id in self._held):
            held = list(chain.from_iterable(wave))
            if held and max(end for _, end in held) <= offset:
                return

    def _held_by(self, segment: SegmentObjects) -> list[Interval]:
        """Return this log's offsets in a segment. Read the segment if it was not read yet."""
        if segment.segment_id not in self._held:
            read = read_segment(self.location.store, segment, self.known)
            if not isinstance(read, RemoteSegment):
                return []
            self._held[segment.segment_id] = read.facts.held(self._lineage)
        return self._held[segment.segment_id]

    def _covered(self, segments: Iterable[SegmentObjects], start: int) -> list[Interval]:
        """Return the offsets in segments that were read, from the log start to the first local offset (exclusive)."""
        held = chain.from_iterable(self._held.get(each.segment_id, ()) for each in segments)
        return joined((max(begin, start), min(end, self._first)) for begin, end in held)


def _offset(segment: SegmentObjects) -> tuple[int, str]:
    return segment.start_offset, segment.segment_id
