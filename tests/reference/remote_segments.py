"""Metadata of remote segments of one partition, as tests of what brokers are told need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    new_segment_id,
)

PARTITION = TopicIdPartition("orders", "lZ6vvmajTWKDBUTV6SQAtQ", 3)


def remote_segment(
    start: int,
    end: int,
    leader_epochs: Sequence[tuple[int, int]],
    state: SegmentState = SegmentState.COPY_SEGMENT_FINISHED,
    *,
    event_timestamp: int = 8,
) -> RemoteLogSegmentMetadata:
    """A new segment with offsets `start` to `end`, both inclusive, written under these (epoch, start offset)."""
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId(PARTITION.topic, PARTITION.topic_id or "", PARTITION.partition, new_segment_id()),
        start_offset=start,
        end_offset=end,
        broker_id=1,
        max_timestamp=7,
        event_timestamp=event_timestamp,
        segment_leader_epochs=tuple(leader_epochs),
        segment_size=9,
        state=state,
    )


def cache_of(*segments: RemoteLogSegmentMetadata) -> MetadataCache:
    """What is known once all of them have been begun, and then each has come to its state, in this order."""
    cache = MetadataCache()
    for each in segments:
        cache.apply(SegmentRecord(replace(each, state=SegmentState.COPY_SEGMENT_STARTED)))
    for each in segments:
        for state in list(SegmentState)[1 : each.state + 1]:
            cache.apply(SegmentUpdate(each.id, each.broker_id, each.event_timestamp, state))
    return cache
