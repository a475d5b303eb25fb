"""Write the records of publication plans, and check by a read-back that brokers find all planned segments."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.errors import DeliveryFailedError, LostCopyError
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC, MetadataRecord
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex, less_found
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    ids_of_metadata,
)
from tiersnap.remote_storage.publish.readable_offsets import KEEP_LOCAL
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan
from tiersnap.snapshot.units import count_of

_PATIENCE_SECONDS = 10.0  # after a leader change, the last records of a partition become readable a moment later
_POLL_SECONDS = 0.5


def publish_plans(
    metadata_topic: MetadataTopic, reader: MetadataReader, plans: Iterable[PublishPlan], broker_id: int | None
) -> int:
    """Write the records of plans that are not refused, and read them back. Return the number of records.

    Args:
        reader: the reader with which the plans were made; it has read all partitions to their ends.

    Raises:
        DeliveryFailedError: a record was not acknowledged, or an acknowledged record cannot be read.
        LostCopyError: brokers find fewer offsets than planned.
    """
    now = int(time.time() * 1000)
    records: list[tuple[TopicIdPartition, MetadataRecord]] = []
    for plan in plans:
        records += [(plan.partition, record) for record in plan.records(broker_id=broker_id, now=now)]
    if not records:
        return 0
    expected = expected_after(reader.cache, records)
    count = metadata_topic.publish(records)
    check_read_back(reader, expected)
    return count


def expected_after(
    cache: MetadataCache, records: Iterable[tuple[TopicIdPartition, MetadataRecord]]
) -> dict[TopicIdPartition, RemoteIndex]:
    """Return the index that brokers should have after these records, by partition."""
    expected: dict[TopicIdPartition, RemoteIndex] = {}
    for partition, record in records:
        if partition not in expected:
            expected[partition] = cache.index(partition).copy()
        expected[partition].apply(record)
    return expected


def check_read_back(reader: MetadataReader, expected: Mapping[TopicIdPartition, RemoteIndex]) -> None:
    """Read `__remote_log_metadata` to its end, and check that all expected segments are found.

    Raises:
        DeliveryFailedError: an acknowledged record cannot be read.
        LostCopyError: brokers do not find an expected offset, although its segment was not deleted.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while missing := _missing(reader.read_to_end(), expected):
        if time.monotonic() > deadline:
            raise DeliveryFailedError(
                f"{METADATA_TOPIC}: the records of {count_of(len(missing), 'segment')} of "
                f"{missing[0].id.topic_id_partition} cannot be read, although the brokers acknowledged these "
                f"records; the first of the segments is {missing[0].id.segment_id}",
                hint="run the same command again: it publishes the missing segments",
            )
        time.sleep(_POLL_SECONDS)
    for partition, index in expected.items():
        _refuse_less(reader.cache, partition, index)


def _missing(cache: MetadataCache, expected: Mapping[TopicIdPartition, RemoteIndex]) -> list[RemoteLogSegmentMetadata]:
    """Return the segments of one partition whose expected records are not in the cache yet.

    Return an empty list if all records are in the cache.
    """
    for partition, index in expected.items():
        there = cache.segments(partition)
        found = [each for each in index.finished() if _is_unfinished(there.get(each.id.segment_id))]
        if found:
            return found
    return []


def _is_unfinished(found: RemoteLogSegmentMetadata | None) -> bool:
    return found is None or found.state is SegmentState.COPY_SEGMENT_STARTED


def _refuse_less(cache: MetadataCache, partition: TopicIdPartition, expected: RemoteIndex) -> None:
    finished = ids_of_metadata(cache.in_state(partition, SegmentState.COPY_SEGMENT_FINISHED))

    def rank(copy: RemoteLogSegmentMetadata | None) -> int:
        return copy is not None and copy.id.segment_id in finished

    for epoch, before in expected.epochs.items():
        for first, last in less_found(before, cache.index(partition).epochs[epoch], rank):
            raise LostCopyError(
                f"{partition}: brokers do not find the offsets {first} to {last} of leader epoch {epoch}, because "
                f"another writer wrote to {METADATA_TOPIC} too; tiersnap publishes nothing more",
                hint=KEEP_LOCAL,
            )
