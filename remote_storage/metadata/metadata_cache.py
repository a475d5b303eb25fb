"""What the records of `__remote_log_metadata` come to: the newest state of every remote segment.

Records are taken as a broker takes them: a whole record must be COPY_SEGMENT_STARTED, an update must be of a segment
that is known, and a step that KIP-405 does not allow is dropped. Unlike a broker's cache this one keeps segments whose
deletion is finished, so that nobody publishes them again.

Follows org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord, SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    ALLOWED_TRANSITIONS,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)


class MetadataCache:
    """Remote segments by partition, filled record by record in the order of each metadata partition.

    Attributes:
        dropped: records that a broker drops as well.
        doubtful: segment ids of dropped records of which nothing else is known.
    """

    def __init__(self) -> None:
        self._segments: dict[TopicIdPartition, dict[str, RemoteLogSegmentMetadata]] = defaultdict(dict)
        self._order: dict[str, tuple[int, int]] = {}
        self._applied = 0
        self.dropped = 0
        self.doubtful: set[str] = set()

    def apply(self, record: MetadataRecord) -> bool:
        """Take one record; returns whether it changed anything."""
        if isinstance(record, SegmentRecord):
            return self._add(record.metadata)
        if isinstance(record, SegmentUpdate):
            return self._update(record)
        return False  # the deletion of a partition: no broker reads it either

    def segments(self, partition: TopicIdPartition) -> dict[str, RemoteLogSegmentMetadata]:
        """Segments of a partition by segment id, in the order they were started."""
        return self._segments.get(partition, {})

    def by_newest_record(self, partition: TopicIdPartition) -> dict[str, RemoteLogSegmentMetadata]:
        """Segments of a partition by segment id as they are now, those last whose newest record came last."""
        return dict(sorted(self.segments(partition).items(), key=lambda item: self._order[item[0]][1]))

    def in_state(self, partition: TopicIdPartition, state: SegmentState) -> Iterator[RemoteLogSegmentMetadata]:
        """Segments of a partition that are in `state` now."""
        return (segment for segment in self.segments(partition).values() if segment.state is state)

    def order(self, segment: RemoteLogSegmentMetadata) -> tuple[int, int]:
        """When a segment's first and its newest record came: numbers that grow with the topic, within a partition."""
        return self._order[segment.id.segment_id]

    def _add(self, metadata: RemoteLogSegmentMetadata) -> bool:
        known = self._segments[metadata.id.topic_id_partition]
        before = known.get(metadata.id.segment_id)
        if metadata.state is not SegmentState.COPY_SEGMENT_STARTED or not _is_allowed(before, metadata.state):
            self._drop(metadata.id.segment_id, before)
            return False
        known[metadata.id.segment_id] = metadata
        self._note(metadata.id.segment_id)
        return True

    def _update(self, update: SegmentUpdate) -> bool:
        known = self._segments[update.id.topic_id_partition]
        before = known.get(update.id.segment_id)
        if before is None or not _is_allowed(before, update.state):
            self._drop(update.id.segment_id, before)
            return False
        known[update.id.segment_id] = replace(
            before, state=update.state, broker_id=update.broker_id, event_timestamp=update.event_timestamp
        )
        self._note(update.id.segment_id)
        return True

    def _drop(self, segment_id: str, before: RemoteLogSegmentMetadata | None) -> None:
        self.dropped += 1
        if before is None:
            self.doubtful.add(segment_id)

    def _note(self, segment_id: str) -> None:
        self._applied += 1
        first, _ = self._order.get(segment_id, (self._applied, 0))
        self._order[segment_id] = first, self._applied


def _is_allowed(before: RemoteLogSegmentMetadata | None, after: SegmentState) -> bool:
    return after in ALLOWED_TRANSITIONS[None if before is None else before.state]
