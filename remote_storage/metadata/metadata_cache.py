"""Fold the records of `__remote_log_metadata` into the newest state of every remote segment.

The cache applies records as a broker does (RemoteIndex). The first record of a segment must be COPY_SEGMENT_STARTED.
Later records must change the state as KIP-405 allows. Other records are dropped. Unlike a broker, the cache keeps
segments after their deletion, so that no run publishes them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord, PartitionDelete, SegmentRecord
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    ids_of_metadata,
)


class MetadataCache:
    """Remote segments by partition. The records of a metadata partition must be applied in their order."""

    def __init__(self) -> None:
        self._segments: dict[TopicIdPartition, dict[str, RemoteLogSegmentMetadata]] = defaultdict(dict)
        self._indexes: dict[TopicIdPartition, RemoteIndex] = defaultdict(RemoteIndex)
        self._order: dict[str, tuple[int, int]] = {}
        self._applied = 0
        self.begun: dict[str, int] = {}  # ms, time of each segment's first record, by segment id
        self.dropped = 0  # number of records that brokers drop, too
        self.doubtful: set[str] = set()  # segment ids that are only in dropped records
        # Segment ids in records that tiersnap published. Brokers published all other records.
        self.ours: set[str] = set()
        self.copied: set[str] = set()  # segment ids that were ever COPY_SEGMENT_FINISHED

    def apply(self, record: MetadataRecord, *, is_ours: bool = False) -> bool:
        """Apply one record, and return whether it changed the cache.

        `is_ours` is whether tiersnap published the record.
        """
        if isinstance(record, PartitionDelete):
            return False  # brokers ignore this record, too
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
        """Return the segments of a partition by segment id, in the order of their first records."""
        return self._segments.get(partition, {})

    def begun_by_brokers(self, partition: TopicIdPartition) -> frozenset[str]:
        """Return the ids of the segments whose copy attempt a broker began and did not end."""
        begun = self.in_state(partition, SegmentState.COPY_SEGMENT_STARTED)
        return ids_of_metadata(begun) - self.ours

    def attempts(self, partition: TopicIdPartition) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield the segments of a partition that were begun and never finished.

        If a storage manager throws an exception, the copy task deletes the leftovers (RemoteLogManager.copyLogSegment
        since 3.9), and the attempt is in a DELETE state. If the deletion fails, too, the attempt stays in
        DELETE_SEGMENT_STARTED.
        """
        for name, each in self.segments(partition).items():
            if name not in self.copied:
                yield each

    def deleted_attempts(self, partition: TopicIdPartition) -> frozenset[str]:
        """Return the segment ids of the attempts that brokers began to delete. Brokers never read these segments."""
        started = SegmentState.COPY_SEGMENT_STARTED
        return frozenset(each.id.segment_id for each in self.attempts(partition) if each.state is not started)

    def may_become_visible(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether tiersnap may publish a segment.

        Return False if a broker began the copy, or if the segment is already finished or deleted.
        """
        partition, name = segment.id.topic_id_partition, segment.id.segment_id
        known = self.segments(partition).get(name)
        is_open = known is None or known.state is SegmentState.COPY_SEGMENT_STARTED
        return is_open and name not in self.begun_by_brokers(partition)

    def index(self, partition: TopicIdPartition) -> RemoteIndex:
        """Return the index by which brokers find the segments of a partition."""
        return self._indexes[partition]

    def partitions(self) -> list[TopicIdPartition]:
        """Return the partitions that have a segment in this cache, ascending."""
        return sorted(partition for partition, known in self._segments.items() if known)

    def in_state(self, partition: TopicIdPartition, state: SegmentState) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield the segments of a partition whose newest state is `state`."""
        for segment in self.segments(partition).values():
            if segment.state is state:
                yield segment

    def order(self, segment: RemoteLogSegmentMetadata) -> tuple[int, int]:
        """Return the positions of a segment's first and newest record. A later record has a greater position."""
        return self._order[segment.id.segment_id]
