"""Find the remote segments that failed copy attempts of brokers left.

A copy task copies one segment after another, so an attempt without COPY_SEGMENT_FINISHED has failed once the same
broker began another one for the partition. The newest attempt of each broker may be in progress.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tiersnap.remote_storage.layouts.remote_location import in_each_layout
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.remote_log.segment_objects import list_segments
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.units import count_of, human_bytes


@dataclass(frozen=True, slots=True)
class AttemptLeftovers:
    """The objects that failed copy attempts of brokers left of a partition."""

    partition: str
    attempts: int  # with objects
    bytes: int

    def says(self) -> str:
        """Return the sentence for people."""
        attempts = count_of(self.attempts, "failed copy attempt")
        return f"{self.partition}: {attempts} of brokers left {human_bytes(self.bytes)} in remote storage"


def ended_attempts(records: MetadataCache, partition: TopicIdPartition) -> frozenset[str]:
    """Return the ids of segments that brokers began to copy, and that ended without COPY_SEGMENT_FINISHED."""
    newest: dict[int, RemoteLogSegmentMetadata] = {}
    of_brokers = [each for name, each in records.segments(partition).items() if name not in records.ours]
    for each in of_brokers:
        before = newest.setdefault(each.broker_id, each)
        newest[each.broker_id] = max(before, each, key=lambda one: records.order(one)[0])
    at_work = {each.id.segment_id for each in newest.values()}
    begun = (each.id.segment_id for each in of_brokers if each.state is SegmentState.COPY_SEGMENT_STARTED)
    return frozenset(begun) - at_work


def find_leftovers(store: ObjectStore, records: MetadataCache) -> Iterator[AttemptLeftovers]:
    """Yield the leftovers of failed attempts by partition; only partitions with such attempts are listed."""
    for partition in records.partitions():
        ended = ended_attempts(records, partition)
        if not ended:
            continue
        listed = (each for location in in_each_layout(store) for each in list_segments(location, partition))
        left = [each for each in listed if each.segment_id in ended]
        if left:
            yield AttemptLeftovers(str(partition), len(left), sum(each.stored for each in left))
