"""Plan publication: compare every finished remote segment with what brokers know of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tiersnap.remote_storage.errors import LeaderEpochLineageError, SegmentHoleError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord, SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    WhyOutside,
    end_of_copies,
    finished_of_log,
)
from tiersnap.remote_storage.publish.readable_offsets import (
    ReadableOffsets,
    WholeOf,
    held_back,
    lost_copies,
    read_in_part,
)
from tiersnap.snapshot.errors import TiersnapError


class PublishAction(StrEnum):
    """The action on one segment."""

    PUBLISH = "PUBLISH"  # COPY_SEGMENT_STARTED, then COPY_SEGMENT_FINISHED
    FINISH = "FINISH"  # somebody was killed between the two
    KNOWN = "KNOWN"
    DELETED = "DELETED"  # a broker has deleted it since, by retention
    COVERED = "COVERED"  # whole copies that brokers know, or are to be told of, hold its offsets
    OTHER_LINEAGE = "OTHER_LINEAGE"  # of a leader that lost an unclean election; others of this log hold its offsets
    LOST = "LOST"  # brokers know it, read there, and its objects are not whole; no copy of ours takes its place
    HELD_BACK = "HELD_BACK"  # it would hide what brokers find, or they would not read it; or it lies behind such a one
    BELOW_LOG_START = "BELOW_LOG_START"  # by retention or DeleteRecords: published, it would bring them back


TO_BE_TOLD = frozenset({PublishAction.PUBLISH, PublishAction.FINISH})
"""Of these segments brokers are told."""
KNOWN_TO_BROKERS = frozenset({PublishAction.KNOWN, PublishAction.COVERED})
"""The offsets of these segments brokers know."""


@dataclass(frozen=True, slots=True)
class SegmentToPublish:
    """One finished remote segment and what becomes of it; `error` says why it is held back, or read in part."""

    metadata: RemoteLogSegmentMetadata
    action: PublishAction
    error: TiersnapError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """The plan of a partition: all of it is published, or nothing if it is refused."""

    partition: TopicIdPartition
    segments: tuple[SegmentToPublish, ...] = ()
    leader: int = -1  # broker that leads it, -1 where that is not known
    refusal: TiersnapError | None = field(default=None, compare=False)

    def count(self, action: PublishAction) -> int:
        """Segments of an action."""
        return Counter(planned.action for planned in self.segments)[action]

    @property
    def errors(self) -> list[TiersnapError]:
        """Return refusals, lost segments, and the first segment that is held back or read in part."""
        lost = [planned.metadata for planned in self.segments if planned.action is PublishAction.LOST]
        held = [planned.error for planned in self.segments if planned.error is not None]
        errors = [] if self.refusal is None else [self.refusal]
        if lost:
            errors.append(lost_copies(lost))
        return [*errors, *held[:1]]

    @property
    def blocked_by(self) -> TiersnapError | None:
        """Return why nothing is published of it; None if something is, or nothing is left."""
        return self.refusal or (next(iter(self.errors), None) if self.is_done else None)

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left to publish."""
        return not self.to_tell

    @property
    def to_tell(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments of which the records tell."""
        return [each.metadata for each in self.segments if each.action in TO_BE_TOLD]

    @property
    def is_open(self) -> bool:
        """Return whether something is to be published, and may be."""
        return self.refusal is None and not self.is_done

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is to be published, and nothing is refused."""
        return self.refusal is None and self.is_done

    @property
    def next_offset(self) -> int:
        """Return where remote storage ends once it is carried out; 0 if nothing is there."""
        known = (each.metadata.end_offset + 1 for each in self.segments if each.action in TO_BE_TOLD | KNOWN_TO_BROKERS)
        return max(known, default=0)

    def records(self, *, broker_id: int | None, now: int) -> Iterator[MetadataRecord]:
        """The records, in the order in which brokers must see them; `now` in ms."""
        if self.refusal is not None:
            return
        broker = self.leader if broker_id is None else broker_id
        for planned in self.segments:
            metadata = planned.metadata
            if planned.action is PublishAction.PUBLISH:
                started = SegmentState.COPY_SEGMENT_STARTED
                yield SegmentRecord(replace(metadata, state=started, broker_id=broker, event_timestamp=now))
            if planned.action in TO_BE_TOLD:
                yield SegmentUpdate(metadata.id, broker, now, SegmentState.COPY_SEGMENT_FINISHED)


def by_partition(
    segments: Iterable[RemoteLogSegmentMetadata],
) -> dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]:
    """Segments by partition, each partition's in ascending start offset."""
    found: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = defaultdict(list)
    for segment in sorted(segments, key=lambda each: (each.id.topic_id_partition, each.start_offset)):
        found[segment.id.topic_id_partition].append(segment)
    return dict(found)


def plan_segments(
    partition: TopicIdPartition,
    segments: Sequence[RemoteLogSegmentMetadata],
    cache: MetadataCache,
    *,
    log_start_offset: int,
    why_outside: WhyOutside,
    complete_segments: WholeOf | None = None,
    wrong: Collection[str] = (),
) -> tuple[SegmentToPublish, ...]:
    """Plan the finished segments of one partition, ascending, and behind them name the lost ones.

    No record that is planned makes less readable (ReadableOffsets); a segment whose records would is held back alone,
    with what lies behind it at the end of the log. `why_outside` says why a segment is not in the partition's lineage,
    "" if it is; asked only where something is new or lost, and then of what is new and of the finished segments.
    `complete_segments` is asked of those that are not among `segments`; without it whatever lies below the end of the
    brokers' copies is taken to be in them. Copies of the ids `wrong` are to be replaced by complete ones.

    Raises:
        SegmentHoleError: offsets before a segment are nowhere in remote storage.
        LeaderEpochLineageError: brokers would not take a segment for one of this log, and none of this log holds its
            offsets.
        LostCopyError: none of the brokers' copies is complete, and none is to be replaced.
    """
    known = cache.segments(partition)
    actions = [_without_lineage(segment, known, log_start_offset) for segment in segments]
    finished = list(cache.in_state(partition, SegmentState.COPY_SEGMENT_FINISHED))
    gone = _gone(finished, segments, log_start_offset, complete_segments)
    if not gone and not wrong and TO_BE_TOLD.isdisjoint(actions):
        return tuple(map(SegmentToPublish, segments, actions))
    of_this_log = finished_of_log(finished, log_start_offset, why_outside)
    readable = ReadableOffsets(cache.index(partition).copy(), of_this_log, gone, wrong, log_start_offset)
    if not wrong:  # mend proves the place before it replaces anything, and all of a partition may be wrong
        readable.refuse_other_place()
    planning = _Planning(readable, known, end_of_copies(of_this_log, log_start_offset))
    planned: list[SegmentToPublish] = []
    outside: dict[int, str] = {}
    for number, (segment, action) in enumerate(zip(segments, actions, strict=True)):
        becomes = SegmentToPublish(segment, action)
        if action in TO_BE_TOLD:
            if segment.end_offset < planning.next_offset and (complete_segments is None or readable.hold(segment)):
                becomes = SegmentToPublish(segment, PublishAction.COVERED)
            elif why := why_outside(segment):
                becomes = SegmentToPublish(segment, PublishAction.OTHER_LINEAGE)
                outside[number] = why
            else:
                becomes = planning.tell(segment, action)
        planned.append(becomes)
    for number, why in outside.items():
        planned[number] = planning.leave_out(planned[number], why, is_held=complete_segments is None)
    return (*map(planning.judge, planned), *(SegmentToPublish(each, PublishAction.LOST) for each in readable.lost()))


@dataclass
class _Planning:
    """The new segments of one partition, one after another."""

    readable: ReadableOffsets
    known: Mapping[str, RemoteLogSegmentMetadata]  # by segment id, as brokers know them
    next_offset: int  # where remote storage ends with what is planned
    is_blocked: bool = False  # whether a segment is held back there: those behind it wait

    def tell(self, segment: RemoteLogSegmentMetadata, action: PublishAction) -> SegmentToPublish:
        """Plan a segment of this log, or hold it back.

        Raises:
            SegmentHoleError: offsets before it are nowhere in remote storage.
        """
        is_behind = segment.end_offset >= self.next_offset
        if self.readable.read(segment):
            action = PublishAction.COVERED
        elif self.is_blocked and segment.start_offset > self.next_offset:
            return _held_back(segment, "so is one before it", is_behind=True)
        else:
            _refuse_hole(segment, self.next_offset)
            if why := self.readable.tell(replace(self._told(segment), state=SegmentState.COPY_SEGMENT_FINISHED)):
                self.is_blocked |= is_behind
                return _held_back(segment, why, is_behind=is_behind)
        self.next_offset = max(self.next_offset, segment.end_offset + 1)
        return SegmentToPublish(segment, action)

    def judge(self, planned: SegmentToPublish) -> SegmentToPublish:
        """Add to a segment that is told of that brokers read only a part of it, if that is so."""
        if planned.action not in TO_BE_TOLD or self.readable.read(self._told(planned.metadata)):
            return planned
        return replace(planned, error=read_in_part(planned.metadata))

    def _told(self, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
        """The segment as brokers know it, or will: FINISH names its id alone."""
        return self.known.get(segment.id.segment_id, segment)

    def leave_out(self, planned: SegmentToPublish, why: str, *, is_held: bool) -> SegmentToPublish:
        """Leave out a segment of another log; held back if brokers do not read its offsets either (`is_held`: they do).

        Raises:
            LeaderEpochLineageError: no segment of this log reaches its end.
        """
        segment = planned.metadata
        if segment.end_offset >= self.next_offset and not self.is_blocked:
            raise LeaderEpochLineageError(
                f"{segment.id.topic_id_partition}: segment {segment.start_offset}: {why}: the broker would copy it "
                "again",
                hint="it is of another log: tier the leader's log directory as it is now, up to this segment's end",
            )
        if is_held or self.readable.hold(segment):
            return planned
        return _held_back(segment, why, is_behind=segment.end_offset >= self.next_offset)


def _held_back(segment: RemoteLogSegmentMetadata, why: str, *, is_behind: bool) -> SegmentToPublish:
    return SegmentToPublish(segment, PublishAction.HELD_BACK, held_back(segment, why, is_behind=is_behind))


def _gone(
    finished: Iterable[RemoteLogSegmentMetadata],
    listed: Iterable[RemoteLogSegmentMetadata],
    log_start_offset: int,
    complete_segments: WholeOf | None,
) -> set[str]:
    """Return the ids of the segments that are neither listed nor have become complete since."""
    there = {each.id.segment_id for each in finished if each.end_offset >= log_start_offset}
    unseen = there - {each.id.segment_id for each in listed}
    return unseen - set(complete_segments(unseen)) if unseen and complete_segments is not None else set()


def _without_lineage(
    segment: RemoteLogSegmentMetadata, known: Mapping[str, RemoteLogSegmentMetadata], log_start_offset: int
) -> PublishAction:
    before = known.get(segment.id.segment_id)
    if before is not None and before.state is SegmentState.COPY_SEGMENT_FINISHED:
        return PublishAction.KNOWN
    if before is not None and before.state is not SegmentState.COPY_SEGMENT_STARTED:
        return PublishAction.DELETED
    if segment.end_offset < log_start_offset:
        return PublishAction.BELOW_LOG_START
    return PublishAction.PUBLISH if before is None else PublishAction.FINISH


def _refuse_hole(segment: RemoteLogSegmentMetadata, next_offset: int) -> None:
    if segment.start_offset > next_offset:
        raise SegmentHoleError(
            f"{segment.id.topic_id_partition}: segment {segment.start_offset} is next, but remote storage ends at "
            f"{next_offset}: the offsets between would never be copied",
            hint="tier the earlier segments first, on the leader's host: tiersnap tier --apply. Where it says "
            "GAP_IN_REMOTE let brokers copy (remote.log.copy.disable=false), then tiersnap maintain remove-orphans",
            next_offset=next_offset,
        )
