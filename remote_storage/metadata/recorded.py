"""Convert records of `__remote_log_metadata` to PartitionRecords, from which verdicts are made.

The records come from a MetadataCache, or from replicas of the topic in log directories.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tiersnap.remote_storage.metadata import metadata_records
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC, CorruptMetadataRecordError
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.snapshot.log.log_dir import LogDir, Partition, split_folder_name
from tiersnap.snapshot.log.records import SegmentRecords
from tiersnap.snapshot.replay.remote_listing import ListedCopy, RemoteSegmentState
from tiersnap.snapshot.replay.remote_records import PartitionRecords, Records

_log = logging.getLogger(__name__)


def recorded(cache: MetadataCache, partition: TopicIdPartition, *, is_complete: bool) -> PartitionRecords:
    """Return the records of a partition, which must have a topic id. See `PartitionRecords` for `is_complete`."""
    segments = tuple(map(_segment, cache.segments(partition).values()))
    return PartitionRecords(partition.topic_id or "", segments, is_complete, tuple(sorted(cache.doubtful)))


def _segment(found: RemoteLogSegmentMetadata) -> ListedCopy:
    return ListedCopy(
        found.id.segment_id,
        found.start_offset,
        found.end_offset + 1,
        RemoteSegmentState(found.state.name),
        leader_epochs=found.segment_leader_epochs,
    )


@dataclass(frozen=True)
class Replica:
    """A replica of a metadata partition in a log directory."""

    log_dir: LogDir
    partition: Partition

    @property
    def end(self) -> int:
        """Return the high watermark of the replica, 0 if it is unknown. All replicas have the same records below it."""
        return self.partition.high_watermark or 0

    def read(self) -> MetadataCache:
        """Return the folded records below the high watermark. If a record cannot be decoded, return an empty cache."""
        cache = MetadataCache()
        try:
            for value in self._values():
                cache.apply(metadata_records.decode(value))
        except CorruptMetadataRecordError as error:
            _log.warning("%s: records ignored: %s", self.partition.path, error.message)
            return MetadataCache()
        return cache

    def _values(self) -> Iterator[bytes]:
        for segment in self.partition.segments:
            records = SegmentRecords(self.log_dir.filesystem, segment)
            for record in records:
                if record.offset >= self.end:
                    return
                yield record.value or b""
            for finding in records.findings:
                raise CorruptMetadataRecordError(str(finding))


def replicas(log_dirs: Iterable[LogDir], is_wanted: Callable[[int], bool] = lambda _: True) -> dict[int, Replica]:
    """Return one replica of each metadata partition, by number: the replica with the highest high watermark.

    Args:
        is_wanted: returns whether a metadata partition is wanted; by default all are.
    """
    found: dict[int, Replica] = {}
    for each in log_dirs:
        for folder in each.folders:
            name = split_folder_name(folder)
            if name is not None and name[0] == METADATA_TOPIC and is_wanted(name[1]):
                replica = Replica(each, each.partition(folder))
                best = found.setdefault(name[1], replica)
                found[name[1]] = max(best, replica, key=lambda one: one.end)
    return found


def read_replicas(log_dirs: Iterable[LogDir]) -> Records | None:
    """Return the records from the log directories' replicas of metadata partitions, or None without a replica."""
    found = replicas(log_dirs)
    if not found:
        return None
    records: dict[tuple[str, int], PartitionRecords] = {}
    for replica in found.values():
        cache = replica.read()
        for partition in cache.partitions():
            records[partition.topic, partition.partition] = recorded(cache, partition, is_complete=False)
    return records
