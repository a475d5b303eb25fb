"""Remote log segment metadata and its states (KIP-405).

Brokers write a record before and after they change a segment's objects. Only these state transitions are allowed:

    from                       to
    (nothing)                  COPY_SEGMENT_STARTED
    COPY_SEGMENT_STARTED   0   itself, COPY_SEGMENT_FINISHED, DELETE_SEGMENT_STARTED
    COPY_SEGMENT_FINISHED  1   itself, DELETE_SEGMENT_STARTED
    DELETE_SEGMENT_STARTED 2   itself, DELETE_SEGMENT_FINISHED
    DELETE_SEGMENT_FINISHED 3  itself

Follows org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState, RemoteLogSegmentId and
RemoteLogSegmentMetadata. A segment id identifies one copy attempt: a second attempt at the same segment has a new id.

A broker finds remote segments by the epochs of its own leader epoch cache. If the epochs of a segment contradict this
cache, the segment does not belong to the broker's log. A lineage (EndOffsetFor) is a function. It returns a leader's
answer to a follower's OffsetForLeaderEpoch:

    requested epoch                  answer
    in the range of the cache        the largest epoch of the cache at or below it, and that epoch's exclusive end
    below the cache's first epoch    the requested epoch, and the start of the first epoch
    above the cache's last epoch     (-1, -1)

This follows RemoteLogManager.isRemoteSegmentWithinLeaderEpochs and LeaderEpochFileCache.endOffsetFor. The cache lacks
epochs that end below the log start offset. Like the broker, tiersnap ignores these epochs of a segment.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch, LeaderEpochs, is_topic_name
from tiersnap.snapshot.rows import Int32

if TYPE_CHECKING:  # it brings numpy
    from tiersnap.snapshot.log.log_dir import PartitionLog

_SHOWN = 80  # characters of a foreign text in an error
UUID_PATTERN = "[A-Za-z0-9_-]{21}[AQgw]"
"""The last of the 22 characters encodes only two bits, so it is one of four characters."""
_UUID = re.compile(UUID_PATTERN)


class SegmentState(IntEnum):
    """State of a remote segment. The numbers are those of Kafka's records."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


ALLOWED_TRANSITIONS: dict[SegmentState | None, frozenset[SegmentState]] = {
    None: frozenset({SegmentState.COPY_SEGMENT_STARTED}),
    SegmentState.COPY_SEGMENT_STARTED: frozenset(
        {SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED}
    ),
    SegmentState.COPY_SEGMENT_FINISHED: frozenset(
        {SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED}
    ),
    SegmentState.DELETE_SEGMENT_STARTED: frozenset(
        {SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED}
    ),
    SegmentState.DELETE_SEGMENT_FINISHED: frozenset({SegmentState.DELETE_SEGMENT_FINISHED}),
}


def is_uuid(text: str) -> bool:
    """Return whether `text` is a UUID as Kafka writes it: 16 bytes in base64url without padding, 22 characters."""
    return _UUID.fullmatch(text) is not None


def uuid_text(raw: bytes) -> str:
    """Return 16 bytes as Kafka writes a UUID: base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def new_segment_id() -> str:
    """Return a random UUID in Kafka's text form.

    Like Kafka's Uuid.randomUuid, never return an id that begins with `-`, because it would look like an option.
    """
    while True:
        text = uuid_text(uuid.uuid4().bytes)
        if not text.startswith("-"):
            return text


@dataclass(frozen=True, slots=True, order=True)
class TopicIdPartition:
    """A partition of a topic. `topic_id` is None if the topic has none, as with brokers before 2.8.

    Raises:
        InvalidKeyError: Kafka does not allow the topic name, the topic id or the partition number.
    """

    topic: str
    topic_id: str | None
    partition: Int32

    def __post_init__(self) -> None:
        if not is_topic_name(self.topic):
            name = self.topic[:_SHOWN]
            raise InvalidKeyError(
                f"{name!r} is not a topic name, which has 1 to 249 letters, digits, dots, dashes and _"
            )
        if self.topic_id is not None and not is_uuid(self.topic_id):
            raise InvalidKeyError(f"topic id {self.topic_id[:_SHOWN]!r}: not 22 base64url characters (16 bytes)")
        if not 0 <= self.partition < 1 << 31:
            raise InvalidKeyError(f"{self.partition} is not a partition number")

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def name_of(partition: PartitionLog) -> TopicIdPartition:
    """Return topic, topic id and partition number of a local partition."""
    return TopicIdPartition(partition.topic, partition.topic_id, partition.partition)


@lru_cache(maxsize=1024)
def partition_of(topic: str, topic_id: str | None, partition: int) -> TopicIdPartition:
    """Return a TopicIdPartition from a cache, because a listing names the same partition thousands of times.

    Raises InvalidKeyError like the class.
    """
    return TopicIdPartition(topic, topic_id, partition)


@dataclass(frozen=True, slots=True, order=True)
class RemoteLogSegmentId:
    """The id of a copy attempt at a segment. `topic_id` and `segment_id` are 22 characters base64url.

    Raises:
        InvalidKeyError: Kafka does not allow the topic name, an id or the partition number.
    """

    topic: str
    topic_id: str
    partition: int
    segment_id: str

    def __post_init__(self) -> None:
        partition_of(self.topic, self.topic_id, self.partition)
        if not is_uuid(self.segment_id):
            raise InvalidKeyError(f"segment id {self.segment_id[:_SHOWN]!r}: not 22 base64url characters (16 bytes)")

    @classmethod
    def of(cls, partition: TopicIdPartition, segment_id: str) -> RemoteLogSegmentId:
        """Return the id of a copy attempt at a segment of a partition. The partition must have a topic id."""
        return cls(partition.topic, partition.topic_id or "", partition.partition, segment_id)

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """Return the partition of the segment."""
        return partition_of(self.topic, self.topic_id, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}:{self.segment_id}"


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """A remote segment as Kafka's metadata records describe it.

    Raises:
        InvalidKeyError: Kafka's constructor would refuse these values.
    """

    id: RemoteLogSegmentId
    start_offset: int  # base offset of the segment
    end_offset: int  # inclusive: next base offset - 1
    broker_id: int
    max_timestamp: int  # ms, the largest timestamp of the segment
    event_timestamp: int  # ms, time of the transition to this state
    segment_leader_epochs: LeaderEpochs  # (epoch, first offset in this segment), ascending, at least one
    segment_size: int  # bytes of the log
    state: SegmentState

    def __post_init__(self) -> None:
        if self.start_offset < 0 or self.end_offset < self.start_offset:
            raise InvalidKeyError(
                f"{self.id}: the offsets {self.start_offset} to {self.end_offset} are not possible for a segment"
            )
        if not self.segment_leader_epochs:
            raise InvalidKeyError(f"{self.id}: a remote segment needs at least one leader epoch")


UNDEFINED = (-1, -1)
EndOffsetFor = Callable[[int], tuple[int, int]]


def end_offset_for(epochs: Sequence[tuple[int, int]], log_end_offset: int) -> EndOffsetFor:
    """Return a lineage that answers like a broker whose leader epoch cache has these entries.

    Args:
        epochs: (epoch, start offset) entries, ascending.
        log_end_offset: exclusive end of the last epoch.
    """

    def answer(epoch: int) -> tuple[int, int]:
        if not epochs or epoch < 0:
            return UNDEFINED
        if epoch == epochs[-1][0]:
            return epoch, log_end_offset
        below = epoch
        for candidate, start in epochs:
            if candidate > epoch:
                return below, start
            below = candidate
        return UNDEFINED

    return answer


def outside_lineage(segment: RemoteLogSegmentMetadata, end_offset_for: EndOffsetFor, *, log_start_offset: int) -> str:
    """Return the reason why `segment` is not in the lineage, for messages; "" if it is in the lineage."""
    end = segment.end_offset + 1
    epochs = _without_empty(epochs_in_range(segment.segment_leader_epochs, log_start_offset, end), end)
    epochs = tuple(LeaderEpoch(epoch, max(start, segment.start_offset)) for epoch, start in epochs)
    if not epochs:
        return f"the segment ends before the log start offset {log_start_offset}"
    ends = [start for _, start in epochs[1:]] + [end]
    for number, ((epoch, start), epoch_end) in enumerate(zip(epochs, ends, strict=True)):
        if why := _epoch_outside(epoch, start, epoch_end, end_offset_for, is_last=number == len(epochs) - 1):
            return why
    return ""


def _epoch_outside(epoch: int, start: int, end: int, end_offset_for: EndOffsetFor, *, is_last: bool) -> str:
    """Return the reason why a leader epoch of a segment is not in the lineage; "" if it is.

    Args:
        start: first offset of the epoch in the segment.
        end: exclusive end of the epoch in the segment; the segment's exclusive end if `is_last`.
    """
    answered, lineage_end = end_offset_for(epoch)
    before = end_offset_for(epoch - 1)[1] if epoch > 0 else -1
    if answered != epoch or lineage_end == before:
        return f"leader epoch {epoch} is not in the lineage of the partition"
    if before > start:
        return f"leader epoch {epoch} begins at offset {before} in the log, but at offset {start} in the segment"
    if not is_last and lineage_end != end:
        return f"leader epoch {epoch} ends at offset {lineage_end} in the log, but at offset {end} in the segment"
    if lineage_end < end:
        return f"leader epoch {epoch} ends at offset {lineage_end} in the log, but the segment ends at offset {end}"
    return ""


WhyOutside = Callable[[RemoteLogSegmentMetadata], str]
"""Returns the reason why a segment is not in the lineage of a log; "" if it is."""


def finished_of_log(
    known: Iterable[RemoteLogSegmentMetadata], log_start_offset: int, why_outside: WhyOutside
) -> list[RemoteLogSegmentMetadata]:
    """Return the finished segments of a log that end at or above the log start offset."""
    found = []
    for each in known:
        is_finished = each.state is SegmentState.COPY_SEGMENT_FINISHED
        if is_finished and each.end_offset >= log_start_offset and not why_outside(each):
            found.append(each)
    return found


def end_of_copies(copies: Iterable[RemoteLogSegmentMetadata], log_start_offset: int) -> int:
    """Return the highest exclusive end offset of `copies`, or the log start offset if that is higher."""
    return max(log_start_offset, *(each.end_offset + 1 for each in copies), 0)


def first_offset_missing(
    known: Iterable[RemoteLogSegmentMetadata], log_start_offset: int, why_outside: WhyOutside
) -> int:
    """Return the next offset to copy: the end of the log's finished segments, but at least the log start offset."""
    return end_of_copies(finished_of_log(known, log_start_offset, why_outside), log_start_offset)


def _without_empty(epochs: LeaderEpochs, end: int) -> LeaderEpochs:
    starts = [start for _, start in epochs[1:]] + [end]
    return tuple(entry for entry, following in zip(epochs, starts, strict=True) if entry[1] < following)


def epochs_in_range(epochs: Iterable[LeaderEpoch], start: int, end: int) -> LeaderEpochs:
    """Return the (epoch, start offset) entries of the offsets [start, end). The first entry begins at `start` or above.

    Follows org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.epochEntriesInRange.
    """
    before: LeaderEpochs = ()
    after: list[LeaderEpoch] = []
    for entry in epochs:
        if start < entry[1] < end:
            after.append(entry)
        elif entry[1] < end:
            before = (LeaderEpoch(entry[0], start),)
    return (*before, *after)


def without_empty(epochs: Iterable[LeaderEpoch]) -> LeaderEpochs:
    """Return the entries without empty epochs. An epoch is empty if the next entry begins at the same offset.

    A broker drops such an entry when it assigns the next epoch (LeaderEpochFileCache.truncateAndAppend).
    """
    entries = tuple(epochs)
    return (*(entry for entry, after in pairwise(entries) if entry[1] != after[1]), *entries[-1:])


def ids_of_metadata(segments: Iterable[RemoteLogSegmentMetadata]) -> frozenset[str]:
    """Return the segment ids."""
    return frozenset(each.id.segment_id for each in segments)
