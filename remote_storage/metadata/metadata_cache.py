"""Fold the records of `__remote_log_metadata` into the newest state of every remote segment.

The cache applies records as a broker does (RemoteIndex). A whole record must be COPY_SEGMENT_STARTED, an update must be
of a known segment, and a state transition that KIP-405 forbids is dropped. Unlike a broker's cache, this one keeps
segments after their deletion is finished, so that no run publishes them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord, PartitionDelete, SegmentRecord
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition


class MetadataCache:
    """Remote segments by partition, filled record by record in the order of each metadata partition."""

    def __init__(self) -> None:
        self._segments: dict[TopicIdPartition, dict[str, RemoteLogSegmentMetadata]] = defaultdict(dict)
        self._indexes: dict[TopicIdPartition, RemoteIndex] = defaultdict(RemoteIndex)
        self._order: dict[str, tuple[int, int]] = {}
        self._applied = 0
        self.begun: dict[str, int] = {}  # ms, time of each segment's first record, by segment id
        self.dropped = 0  # number of records that a broker drops, too
        self.doubtful: set[str] = set()  # segment ids that only dropped records name
        # Segment ids of records that tiersnap published; brokers uploaded all others.
        self.ours: set[str] = set()
        self.copied: set[str] = set()  # segment ids that were ever COPY_SEGMENT_FINISHED

    def apply(self, record: MetadataRecord, *, is_ours: bool = False) -> bool:
        """Apply one record, which tiersnap published if it `is_ours`; return whether it changed the cache."""
        if isinstance(record, PartitionDelete):
            return False  # no broker reads it either
        named = record.metadata.id if isinstance(record, SegmentRecord) else record.id
        partition, segment_id = named.topic_id_partition, named.segment_id
        if is_ours:
            self.ours.add(segment_id)
        segment = self._indexes[partition].apply(record)
        if segment is None:
            self.dropped += 1
            if segment_id not in self._segments[partition]:
                self.doubtful.add(segment_id)
            return False
        self._segments[partition][segment_id] = segment
        self.begun.setdefault(segment_id, segment.event_timestamp)
        if segment.state is SegmentState.COPY_SEGMENT_FINISHED:
            self.copied.add(segment_id)
        self._applied += 1
        first, _ = self._order.get(segment_id, (self._applied, 0))
        self._order[segment_id] = first, self._applied
        return True

    def segments(self, partition: TopicIdPartition) -> dict[str, RemoteLogSegmentMetadata]:
        """Return the segments of a partition by segment id, in the order of their begin."""
        return self._segments.get(partition, {})

    def begun_by_brokers(self, partition: TopicIdPartition) -> frozenset[str]:
        """Return the ids of segments that brokers began to copy and did not finish."""
        begun = self.in_state(partition, SegmentState.COPY_SEGMENT_STARTED)
        return frozenset(each.id.segment_id for each in begun) - self.ours

    def attempts(self, partition: TopicIdPartition) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield the segments of a partition whose copy began and never finished.

        If a storage manager throws, the copy task deletes the leftovers (RemoteLogManager.copyLogSegment, since 3.9).
        Such an attempt is in a state of deletion. If the deletion fails, too, it stays in DELETE_SEGMENT_STARTED.
        """
        return (each for name, each in self.segments(partition).items() if name not in self.copied)

    def deleted_attempts(self, partition: TopicIdPartition) -> frozenset[str]:
        """Return the ids of attempts that brokers began to delete: they never become visible."""
        started = SegmentState.COPY_SEGMENT_STARTED
        return frozenset(each.id.segment_id for each in self.attempts(partition) if each.state is not started)

    def may_become_visible(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether brokers do not read a segment yet, and no broker began it."""
        partition, name = segment.id.topic_id_partition, segment.id.segment_id
        known = self.segments(partition).get(name)
        is_open = known is None or known.state is SegmentState.COPY_SEGMENT_STARTED
        return is_open and name not in self.begun_by_brokers(partition)

    def index(self, partition: TopicIdPartition) -> RemoteIndex:
        """Return the segments of a partition as brokers find them."""
        return self._indexes[partition]

    def partitions(self) -> list[TopicIdPartition]:
        """Return the partitions with a known segment, in order."""
        return sorted(partition for partition, known in self._segments.items() if known)

    def in_state(self, partition: TopicIdPartition, state: SegmentState) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield the segments of a partition that are in `state` now."""
        return (segment for segment in self.segments(partition).values() if segment.state is state)

    def order(self, segment: RemoteLogSegmentMetadata) -> tuple[int, int]:
        """Return the positions of a segment's first and newest record: numbers that grow within a partition."""
        return self._order[segment.id.segment_id]
