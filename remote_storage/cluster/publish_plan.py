"""What is to be published: for every finished remote segment, what the brokers know of it and what they lack."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tiersnap.remote_storage.errors import LeaderEpochLineageError, SegmentHoleError
from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord, SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.snapshot.errors import CorruptDataError, GateError, TransientError

WhyOutside = Callable[[RemoteLogSegmentMetadata], str]


class PublishAction(StrEnum):
    """What becomes of one segment."""

    PUBLISH = "PUBLISH"  # COPY_SEGMENT_STARTED, then COPY_SEGMENT_FINISHED
    FINISH = "FINISH"  # somebody was killed between the two
    KNOWN = "KNOWN"
    DELETED = "DELETED"  # a broker has deleted it since, by retention
    COVERED = "COVERED"  # its offsets are in remote storage already, as another segment
    OTHER_LINEAGE = "OTHER_LINEAGE"  # of a leader that lost an unclean election; others of this log hold its offsets
    BELOW_LOG_START = "BELOW_LOG_START"  # by retention or DeleteRecords: published, it would bring them back


TO_BE_TOLD = frozenset({PublishAction.PUBLISH, PublishAction.FINISH})
"""Of these segments brokers are told."""


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """One finished remote segment and what becomes of it."""

    metadata: RemoteLogSegmentMetadata
    action: PublishAction


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What is published of a partition: all that is planned, or nothing where it is refused.

    Attributes:
        leader: broker that leads it, -1 where that is not known.
    """

    partition: TopicIdPartition
    segments: tuple[PlannedSegment, ...] = ()
    leader: int = -1
    refusal: GateError | TransientError | CorruptDataError | None = field(default=None, compare=False)

    def count(self, action: PublishAction) -> int:
        """Segments of an action."""
        return Counter(planned.action for planned in self.segments)[action]

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to publish."""
        return not any(planned.action in TO_BE_TOLD for planned in self.segments)

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
    segments: Iterable[RemoteLogSegmentMetadata],
    known: Mapping[str, RemoteLogSegmentMetadata],
    *,
    log_start_offset: int,
    why_outside: WhyOutside,
) -> tuple[PlannedSegment, ...]:
    """Plan the finished segments of one partition, ascending; `known` are those of the topic, by segment id.

    `why_outside` says why a segment is not in the partition's lineage, "" if it is; asked only of what is new, and of
    the finished segments that it must join.

    Raises:
        SegmentHoleError: offsets before a segment are nowhere in remote storage.
        LeaderEpochLineageError: brokers would not take a segment for one of this log, and none of this log holds its
            offsets.
    """
    planned: list[PlannedSegment] = []
    outside: list[tuple[RemoteLogSegmentMetadata, str]] = []
    next_offset: int | None = None
    for segment in segments:
        action = _without_lineage(segment, known, log_start_offset)
        if action in TO_BE_TOLD:
            if next_offset is None:
                next_offset = first_offset_missing(known.values(), log_start_offset, why_outside)
            if segment.end_offset < next_offset:
                action = PublishAction.COVERED
            elif why := why_outside(segment):
                action = PublishAction.OTHER_LINEAGE
                outside.append((segment, why))
            else:
                _refuse_hole(segment, next_offset)
                next_offset = segment.end_offset + 1
        planned.append(PlannedSegment(segment, action))
    for segment, why in outside:
        if next_offset is None or segment.end_offset >= next_offset:
            raise LeaderEpochLineageError(
                f"{segment.id.topic_id_partition}: segment {segment.start_offset}: {why}: the broker would copy it "
                "again",
                hint="it is of another log: tier the leader's log directory as it is now, up to this segment's end",
            )
    return tuple(planned)


def first_offset_missing(
    known: Iterable[RemoteLogSegmentMetadata], log_start_offset: int, why_outside: WhyOutside
) -> int:
    """Where the copier is to go on: behind the last finished segment of this log, or at the log start."""
    ends = (
        segment.end_offset + 1
        for segment in known
        if segment.state is SegmentState.COPY_SEGMENT_FINISHED
        and segment.end_offset >= log_start_offset
        and not why_outside(segment)
    )
    return max(log_start_offset, *ends, 0)


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
