"""Write the records of a plan, read them back, and check that brokers find all planned segments."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.errors import DeliveryFailedError, LostCopyError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC, MetadataRecord
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex, less_found
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.publish.readable_offsets import KEEP_LOCAL
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan
from tiersnap.snapshot.units import count_of

_PATIENCE_SECONDS = 10.0  # a partition of the topic whose leader has just moved shows its last records a moment later
_POLL_SECONDS = 0.5


def publish_plans(
    metadata_topic: MetadataTopic, reader: MetadataReader, plans: Iterable[PublishPlan], broker_id: int | None
) -> int:
    """Publish the plans that are not refused, and read the records back; returns their number.

    Args:
        reader: has read the partitions to their ends when the plans were made.

    Raises:
        DeliveryFailedError: a record was not acknowledged, or is not there although it was.
        LostCopyError: less is found than before, or than was planned.
    """
    now = int(time.time() * 1000)
    records = [(plan.partition, record) for plan in plans for record in plan.records(broker_id=broker_id, now=now)]
    if not records:
        return 0
    expected = expected_after(reader.cache, records)
    count = metadata_topic.publish(records)
    check_read_back(reader, expected)
    return count


def expected_after(
    cache: MetadataCache, records: Iterable[tuple[TopicIdPartition, MetadataRecord]]
) -> dict[TopicIdPartition, RemoteIndex]:
    """Return the expected index of each partition after brokers have read these records."""
    expected: dict[TopicIdPartition, RemoteIndex] = {}
    for partition, record in records:
        if partition not in expected:
            expected[partition] = cache.index(partition).copy()
        expected[partition].apply(record)
    return expected


def check_read_back(reader: MetadataReader, expected: Mapping[TopicIdPartition, RemoteIndex]) -> None:
    """Read the topic to its end and check that no expected segment is missing.

    Raises:
        DeliveryFailedError: a record is not there although it was acknowledged.
        LostCopyError: brokers find less than was planned, and have not begun to delete it.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while missing := _missing(reader.read_to_end(), expected):
        if time.monotonic() > deadline:
            raise DeliveryFailedError(
                f"{METADATA_TOPIC}: {count_of(len(missing), 'segment')} of {missing[0].id.topic_id_partition} not "
                f"there although all records were acknowledged, first {missing[0].id.segment_id}",
                hint="run the same command again: it publishes what is not there yet",
            )
        time.sleep(_POLL_SECONDS)
    for partition, index in expected.items():
        _refuse_less(reader.cache, partition, index)


def _missing(cache: MetadataCache, expected: Mapping[TopicIdPartition, RemoteIndex]) -> list[RemoteLogSegmentMetadata]:
    """Return the segments that our records finish and the topic does not, of the first partition with such segments."""
    for partition, index in expected.items():
        there = cache.segments(partition)
        found = [each for each in index.finished() if _is_unfinished(there.get(each.id.segment_id))]
        if found:
            return found
    return []


def _is_unfinished(found: RemoteLogSegmentMetadata | None) -> bool:
    return found is None or found.state is SegmentState.COPY_SEGMENT_STARTED


def _refuse_less(cache: MetadataCache, partition: TopicIdPartition, expected: RemoteIndex) -> None:
    finished = {each.id.segment_id for each in cache.in_state(partition, SegmentState.COPY_SEGMENT_FINISHED)}

    def rank(copy: RemoteLogSegmentMetadata | None) -> int:
        return copy is not None and copy.id.segment_id in finished

    for epoch, before in expected.epochs.items():
        for first, last in less_found(before, cache.index(partition).epochs[epoch], rank):
            raise LostCopyError(
                f"{partition}: offsets {first} to {last} of leader epoch {epoch}: brokers do not find them: "
                f"{METADATA_TOPIC} holds records of another writer beside ours; nothing more is published",
                hint=KEEP_LOCAL,
            )
