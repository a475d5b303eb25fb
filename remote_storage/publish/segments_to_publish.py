"""Plan the publication of a partition: compare its finished remote segments with the cluster's records."""

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
    ids_of_metadata,
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
    """The planned action for one segment."""

    PUBLISH = "PUBLISH"  # COPY_SEGMENT_STARTED, then COPY_SEGMENT_FINISHED
    FINISH = "FINISH"  # COPY_SEGMENT_FINISHED; a run was killed after COPY_SEGMENT_STARTED
    KNOWN = "KNOWN"  # already published
    DELETED = "DELETED"  # a broker deleted the segment by retention
    COVERED = "COVERED"  # other complete segments, published before or by this plan, contain its offsets
    OTHER_LINEAGE = "OTHER_LINEAGE"  # from a leader of an unclean election; segments of this log contain its offsets
    LOST = "LOST"  # published, but objects are missing, and no segment of ours replaces it
    HELD_BACK = "HELD_BACK"  # it would hide other segments, brokers would not read it, or it follows such a segment
    BELOW_LOG_START = (
        "BELOW_LOG_START"  # deleted by retention or DeleteRecords; a publication would restore its offsets
    )


TO_PUBLISH = frozenset({PublishAction.PUBLISH, PublishAction.FINISH})
"""The actions that publish a segment."""
KNOWN_TO_BROKERS = frozenset({PublishAction.KNOWN, PublishAction.COVERED})
"""The actions of segments whose offsets brokers can already read."""


@dataclass(frozen=True, slots=True)
class SegmentToPublish:
    """One finished remote segment and its action.

    `error` is set if the segment is held back, or if brokers would read only some of its offsets.
    """

    metadata: RemoteLogSegmentMetadata
    action: PublishAction
    error: TiersnapError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """The plan of one partition. If `refusal` is set, nothing of the partition is published."""

    partition: TopicIdPartition
    segments: tuple[SegmentToPublish, ...] = ()
    leader: int = -1  # id of the leader; -1 if unknown
    refusal: TiersnapError | None = field(default=None, compare=False)

    def count(self, action: PublishAction) -> int:
        """Return the number of segments with an action."""
        return Counter(planned.action for planned in self.segments)[action]

    @property
    def errors(self) -> list[TiersnapError]:
        """Return the refusal, the error about lost segments, and the first error of a single segment."""
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
        """Return the error that prevents the plan from publishing any segment of the partition, or None."""
        if self.refusal is not None or not self.is_done:
            return self.refusal
        return next(iter(self.errors), None)

    @property
    def is_done(self) -> bool:
        """Return whether the plan publishes no segment."""
        return not self.to_tell

    @property
    def to_tell(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that the plan publishes."""
        return self._of_actions(TO_PUBLISH)

    @property
    def is_open(self) -> bool:
        """Return whether the plan has segments to publish and is not refused."""
        return self.refusal is None and not self.is_done

    @property
    def is_idle(self) -> bool:
        """Return whether the plan has no segment to publish and is not refused."""
        return self.refusal is None and self.is_done

    @property
    def next_offset(self) -> int:
        """Return the exclusive end offset of remote storage after this plan; 0 if remote storage is empty."""
        known = self._of_actions(TO_PUBLISH | KNOWN_TO_BROKERS)
        return max((each.end_offset + 1 for each in known), default=0)

    @property
    def end_to_publish(self) -> int:
        """Return the exclusive end offset of the segments that the plan publishes; 0 if it publishes none."""
        return max((each.end_offset + 1 for each in self.to_tell), default=0)

    def _of_actions(self, actions: Collection[PublishAction]) -> list[RemoteLogSegmentMetadata]:
        return [each.metadata for each in self.segments if each.action in actions]

    def records(self, *, broker_id: int | None, now: int) -> Iterator[MetadataRecord]:
        """Yield the records in the order of publication. `now` is ms; without `broker_id`, records name the leader."""
        if self.refusal is not None:
            return
        broker = self.leader if broker_id is None else broker_id
        for planned in self.segments:
            metadata = planned.metadata
            if planned.action is PublishAction.PUBLISH:
                started = SegmentState.COPY_SEGMENT_STARTED
                yield SegmentRecord(replace(metadata, state=started, broker_id=broker, event_timestamp=now))
            if planned.action in TO_PUBLISH:
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
    """Return the finished segments of one partition with their actions, ascending, then the lost segments.

    A segment is held back if its records would make an offset unreadable (see ReadableOffsets). If a held-back segment
    ends above all published segments, segments at higher offsets must wait, too. All other segments are published.

    Args:
        segments: the finished remote segments, ascending.
        log_start_offset: the leader's log start offset.
        why_outside: returns the reason if a segment is not in the partition's lineage, otherwise "".
        complete_segments: returns the given segment ids that are complete. Without it, all published segments count as
            complete.
        wrong: ids of published segments that complete segments may replace.

    Raises:
        SegmentHoleError: remote storage lacks the offsets directly below a segment.
        LeaderEpochLineageError: a segment is from another log, and no segment of this log contains its offsets.
        LostCopyError: no published segment is complete, and `wrong` is empty.
    """
    known = cache.segments(partition)
    actions = [_without_lineage(segment, known, log_start_offset) for segment in segments]
    finished = list(cache.in_state(partition, SegmentState.COPY_SEGMENT_FINISHED))
    gone = _gone(finished, segments, log_start_offset, complete_segments)
    if not gone and not wrong and TO_PUBLISH.isdisjoint(actions):
        return tuple(map(SegmentToPublish, segments, actions))
    of_this_log = finished_of_log(finished, log_start_offset, why_outside)
    readable = ReadableOffsets(cache.index(partition).copy(), of_this_log, gone, wrong, log_start_offset)
    if not wrong:  # `mend` proves the location itself, and may replace all segments of a partition
        readable.refuse_other_place()
    end, are_trusted = end_of_copies(of_this_log, log_start_offset), complete_segments is None
    planning = _Planning(readable, known, why_outside, end, are_copies_trusted=are_trusted)
    planned = list(map(planning.plan, segments, actions))
    planned = list(map(planning.leave_out, planned))  # needs the final `next_offset`
    lost = [SegmentToPublish(each, PublishAction.LOST) for each in readable.lost()]
    return (*map(planning.judge, planned), *lost)


@dataclass
class _Planning:
    """Plans the segments of one partition one by one, ascending."""

    readable: ReadableOffsets
    known: Mapping[str, RemoteLogSegmentMetadata]  # the segments in the cluster's records, by segment id
    why_outside: WhyOutside
    next_offset: int  # exclusive end offset of remote storage, including planned segments
    are_copies_trusted: bool  # whether published segments count as complete and contiguous
    is_blocked: bool = False  # whether a segment at `next_offset` is held back, so that later segments wait
    outside: dict[str, str] = field(default_factory=dict)  # why segments are from another log, by segment id

    def plan(self, segment: RemoteLogSegmentMetadata, action: PublishAction) -> SegmentToPublish:
        """Plan one segment.

        The action for a segment of another log is OTHER_LINEAGE. After all segments are planned, pass each result to
        `leave_out`.
        """
        if action not in TO_PUBLISH:
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
            SegmentHoleError: remote storage lacks the offsets directly below the segment.
        """
        is_behind = segment.end_offset >= self.next_offset
        if self.readable.read(segment):
            action = PublishAction.COVERED
        elif self.is_blocked and segment.start_offset > self.next_offset:
            return _held_back(segment, "an earlier segment cannot be published", is_behind=True)
        else:
            _refuse_hole(segment, self.next_offset)
            if why := self.readable.tell(replace(self._as_recorded(segment), state=SegmentState.COPY_SEGMENT_FINISHED)):
                self.is_blocked |= is_behind
                return _held_back(segment, why, is_behind=is_behind)
        self.next_offset = max(self.next_offset, segment.end_offset + 1)
        return SegmentToPublish(segment, action)

    def judge(self, planned: SegmentToPublish) -> SegmentToPublish:
        """Add an error if brokers would read only some offsets of a segment to publish."""
        if planned.action not in TO_PUBLISH or self.readable.read(self._as_recorded(planned.metadata)):
            return planned
        return replace(planned, error=read_in_part(planned.metadata))

    def _as_recorded(self, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
        """Return the segment as the cluster's records describe it, because FINISH publishes only the segment id.

        If there is no record, return `segment`.
        """
        return self.known.get(segment.id.segment_id, segment)

    def leave_out(self, planned: SegmentToPublish) -> SegmentToPublish:
        """Hold back a segment of another log, unless segments of this log contain its offsets.

        All other segments are returned unchanged.

        Raises:
            LeaderEpochLineageError: no segment of this log reaches the segment's end offset.
        """
        if planned.action is not PublishAction.OTHER_LINEAGE:
            return planned
        segment = planned.metadata
        why = self.outside[segment.id.segment_id]
        if segment.end_offset >= self.next_offset and not self.is_blocked:
            raise LeaderEpochLineageError(
                f"{segment.id.topic_id_partition}: segment {segment.start_offset}: {why}: the broker would upload "
                "the segment again",
                hint="the segment belongs to another log: tier the log of the leader, at least up to offset "
                f"{segment.end_offset}. On the leader's host: tiersnap tier --apply",
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
) -> frozenset[str]:
    """Return the ids of published segments that are neither listed nor complete."""
    living = (each for each in finished if each.end_offset >= log_start_offset)
    unseen = ids_of_metadata(living) - ids_of_metadata(listed)
    if not unseen or complete_segments is None:
        return frozenset()
    return unseen.difference(complete_segments(unseen))


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
            f"{segment.id.topic_id_partition}: remote storage ends at offset {next_offset}, but the next segment "
            f"to publish starts at {segment.start_offset}: brokers would never upload the offsets between",
            hint="first upload the earlier segments on the leader's host: tiersnap tier --apply. If tier reports "
            "GAP_IN_REMOTE, let brokers upload (remote.log.copy.disable=false), then run tiersnap maintain "
            "remove-orphans",
            next_offset=next_offset,
        )
