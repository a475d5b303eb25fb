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
    FINISH = "FINISH"  # a run was killed between the two
    KNOWN = "KNOWN"
    DELETED = "DELETED"  # a broker has deleted it since, by retention
    COVERED = "COVERED"  # complete segments that brokers know, or that are published with it, hold its offsets
    OTHER_LINEAGE = "OTHER_LINEAGE"  # of a leader that lost an unclean election; others of this log hold its offsets
    LOST = "LOST"  # brokers know and read it, its objects are not complete, and no segment of ours replaces it
    HELD_BACK = "HELD_BACK"  # it would hide other segments, brokers would not read it, or it follows such a segment
    BELOW_LOG_START = "BELOW_LOG_START"  # by retention or DeleteRecords; publishing would bring its offsets back


TO_BE_TOLD = frozenset({PublishAction.PUBLISH, PublishAction.FINISH})
"""Segments with these actions are published."""
KNOWN_TO_BROKERS = frozenset({PublishAction.KNOWN, PublishAction.COVERED})
"""Brokers already have the offsets of segments with these actions."""


@dataclass(frozen=True, slots=True)
class SegmentToPublish:
    """One finished remote segment and its action; `error` is the reason if it is held back or read in part."""

    metadata: RemoteLogSegmentMetadata
    action: PublishAction
    error: TiersnapError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """The plan of a partition: all of it is published, or nothing if it is refused."""

    partition: TopicIdPartition
    segments: tuple[SegmentToPublish, ...] = ()
    leader: int = -1  # broker that leads it, -1 if unknown
    refusal: TiersnapError | None = field(default=None, compare=False)

    def count(self, action: PublishAction) -> int:
        """Return the number of segments with an action."""
        return Counter(planned.action for planned in self.segments)[action]

    @property
    def errors(self) -> list[TiersnapError]:
        """Return refusals, lost segments, and the first segment that is held back or read in part."""
        errors = []
        if self.refusal is not None:
            errors.append(self.refusal)
        lost = self._of_actions({PublishAction.LOST})
        if lost:
            errors.append(lost_copies(lost))
        held = [planned.error for planned in self.segments if planned.error is not None]
        return [*errors, *held[:1]]

    @property
    def blocked_by(self) -> TiersnapError | None:
        """Return the error that keeps all of it from being published; None if none does."""
        if self.refusal is not None or not self.is_done:
            return self.refusal
        return next(iter(self.errors), None)

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left to publish."""
        return not self.to_tell

    @property
    def to_tell(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that the records publish."""
        return self._of_actions(TO_BE_TOLD)

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
        """Return the end of remote storage after this plan; 0 if remote storage is empty."""
        known = self._of_actions(TO_BE_TOLD | KNOWN_TO_BROKERS)
        return max((each.end_offset + 1 for each in known), default=0)

    def _of_actions(self, actions: Collection[PublishAction]) -> list[RemoteLogSegmentMetadata]:
        return [each.metadata for each in self.segments if each.action in actions]

    def records(self, *, broker_id: int | None, now: int) -> Iterator[MetadataRecord]:
        """Yield the records in the order in which brokers must read them; `now` in ms."""
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
    """Return the segments by partition, in ascending start offset."""
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
    """Plan the finished segments of one partition in ascending order, followed by the lost ones.

    No planned record makes fewer offsets readable (ReadableOffsets). A segment whose records would is held back. Other
    segments are published without it, except those that follow it at the end of the log.

    Args:
        why_outside: returns the reason if a segment is not in the partition's lineage, else "". Called only if a
            segment is new or lost, for new and for finished segments.
        complete_segments: called with finished segments that are not among `segments`. Without it, the brokers' copies
            are taken to hold all offsets below their end.
        wrong: ids of brokers' segments that complete ones may replace.

    Raises:
        SegmentHoleError: remote storage lacks the offsets before a segment.
        LeaderEpochLineageError: brokers would not accept a segment for this log, and no segment of this log holds its
            offsets.
        LostCopyError: none of the brokers' segments is complete, and `wrong` is empty.
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
    end, are_trusted = end_of_copies(of_this_log, log_start_offset), complete_segments is None
    planning = _Planning(readable, known, why_outside, end, are_copies_trusted=are_trusted)
    planned = list(map(planning.plan, segments, actions))
    planned = list(map(planning.leave_out, planned))  # once the end of remote storage is known
    lost = [SegmentToPublish(each, PublishAction.LOST) for each in readable.lost()]
    return (*map(planning.judge, planned), *lost)


@dataclass
class _Planning:
    """The new segments of one partition, one after another."""

    readable: ReadableOffsets
    known: Mapping[str, RemoteLogSegmentMetadata]  # by segment id, as brokers know them
    why_outside: WhyOutside
    next_offset: int  # end of remote storage with the segments that are planned
    are_copies_trusted: bool  # whether the brokers' copies are taken to hold all offsets below their end
    is_blocked: bool = False  # whether a segment at that end is held back: later segments wait
    outside: dict[str, str] = field(default_factory=dict)  # by id of a segment: why it is of another log

    def plan(self, segment: RemoteLogSegmentMetadata, action: PublishAction) -> SegmentToPublish:
        """Plan one segment; `leave_out` decides about one of another log."""
        if action not in TO_BE_TOLD:
            return SegmentToPublish(segment, action)
        is_behind = segment.end_offset >= self.next_offset
        if not is_behind and self._is_held(segment):
            return SegmentToPublish(segment, PublishAction.COVERED)
        why = self.why_outside(segment)
        if why:
            self.outside[segment.id.segment_id] = why
            return SegmentToPublish(segment, PublishAction.OTHER_LINEAGE)
        return self.tell(segment, action)

    def _is_held(self, segment: RemoteLogSegmentMetadata) -> bool:
        return self.are_copies_trusted or self.readable.hold(segment)

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
        """Add an error to a segment that is published if brokers would read only a part of it."""
        if planned.action not in TO_BE_TOLD or self.readable.read(self._told(planned.metadata)):
            return planned
        return replace(planned, error=read_in_part(planned.metadata))

    def _told(self, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
        """Return the segment as brokers know it or will know it: the record of FINISH holds only its id."""
        return self.known.get(segment.id.segment_id, segment)

    def leave_out(self, planned: SegmentToPublish) -> SegmentToPublish:
        """Leave out a segment of another log, with an error if brokers do not read its offsets; return others as is.

        Raises:
            LeaderEpochLineageError: no segment of this log reaches its end.
        """
        if planned.action is not PublishAction.OTHER_LINEAGE:
            return planned
        segment = planned.metadata
        why = self.outside[segment.id.segment_id]
        if segment.end_offset >= self.next_offset and not self.is_blocked:
            raise LeaderEpochLineageError(
                f"{segment.id.topic_id_partition}: segment {segment.start_offset}: {why}: the broker would copy it "
                "again",
                hint="it is of another log: tier the leader's log directory as it is now, up to this segment's end",
            )
        if self._is_held(segment):
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
    """Return the ids of the segments that are not listed and have not become complete since."""
    living = (each for each in finished if each.end_offset >= log_start_offset)
    unseen = _ids(living) - _ids(listed)
    if not unseen or complete_segments is None:
        return set()
    return unseen.difference(complete_segments(unseen))


def _ids(segments: Iterable[RemoteLogSegmentMetadata]) -> set[str]:
    return {each.id.segment_id for each in segments}


def _without_lineage(
    segment: RemoteLogSegmentMetadata, known: Mapping[str, RemoteLogSegmentMetadata], log_start_offset: int
) -> PublishAction:
    before = known.get(segment.id.segment_id)
    if before is None:
        action = PublishAction.PUBLISH
    elif before.state is SegmentState.COPY_SEGMENT_STARTED:
        action = PublishAction.FINISH
    elif before.state is SegmentState.COPY_SEGMENT_FINISHED:
        return PublishAction.KNOWN
    else:
        return PublishAction.DELETED
    if segment.end_offset < log_start_offset:
        return PublishAction.BELOW_LOG_START
    return action


def _refuse_hole(segment: RemoteLogSegmentMetadata, next_offset: int) -> None:
    if segment.start_offset > next_offset:
        raise SegmentHoleError(
            f"{segment.id.topic_id_partition}: segment {segment.start_offset} is next, but remote storage ends at "
            f"{next_offset}: the offsets between would never be copied",
            hint="tier the earlier segments first, on the leader's host: tiersnap tier --apply. Where it says "
            "GAP_IN_REMOTE let brokers copy (remote.log.copy.disable=false), then tiersnap maintain remove-orphans",
            next_offset=next_offset,
        )
