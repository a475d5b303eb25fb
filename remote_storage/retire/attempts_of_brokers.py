"""Find the leftovers of brokers' failed copy attempts in remote storage.

A copy task copies one segment after another. So if a broker begins another attempt for a partition, its earlier attempt
without COPY_SEGMENT_FINISHED has failed. The newest attempt of each broker may be running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tiersnap.remote_storage.layouts.remote_location import in_each_layout
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    ids_of_metadata,
)
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, list_segments
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.units import count_of, human_bytes


@dataclass(frozen=True, slots=True)
class AttemptLeftovers:
    """The leftovers of brokers' failed copy attempts in one partition."""

    partition: str
    attempts: int  # number of failed attempts with objects in the store
    bytes: int

    def says(self) -> str:
        """Return the finding as a sentence."""
        attempts = count_of(self.attempts, "failed copy attempt")
        return f"{self.partition}: {attempts} of brokers left {human_bytes(self.bytes)} in remote storage"


def ended_attempts(records: MetadataCache, partition: TopicIdPartition) -> frozenset[str]:
    """Return the segment ids of brokers' copy attempts that ended without COPY_SEGMENT_FINISHED."""
    segments = records.segments(partition)
    of_brokers = [segments[segment_id] for segment_id in segments.keys() - records.ours]
    newest = _newest_of_each_broker(records, of_brokers)
    started = {each.id.segment_id for each in of_brokers if each.state is SegmentState.COPY_SEGMENT_STARTED}
    return frozenset(started) - newest


def _newest_of_each_broker(records: MetadataCache, segments: Iterable[RemoteLogSegmentMetadata]) -> frozenset[str]:
    """Return the segment id of each broker's newest copy attempt. These attempts may be running."""
    newest: dict[int, RemoteLogSegmentMetadata] = {}
    for each in segments:
        before = newest.setdefault(each.broker_id, each)
        newest[each.broker_id] = max(before, each, key=lambda one: records.order(one)[0])
    return ids_of_metadata(newest.values())


def find_leftovers(store: ObjectStore, records: MetadataCache) -> Iterator[AttemptLeftovers]:
    """Yield the leftovers of failed attempts by partition. Only partitions with failed attempts are listed."""
    for partition in records.partitions():
        ended = ended_attempts(records, partition)
        if not ended:
            continue
        bytes_left = [each.stored for each in _segments(store, partition) if each.segment_id in ended]
        if bytes_left:
            yield AttemptLeftovers(str(partition), len(bytes_left), sum(bytes_left))


def _segments(store: ObjectStore, partition: TopicIdPartition) -> Iterator[SegmentObjects]:
    for location in in_each_layout(store):
        yield from list_segments(location, partition)
