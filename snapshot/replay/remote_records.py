"""Records of `__remote_log_metadata`: the newest recorded state of each remote segment of a partition.

The cluster has all records. A replica of `__remote_log_metadata` in a log directory may lack the newest records. So the
replica can prove that a record exists, but not that a record is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tiersnap.snapshot.replay.remote_listing import ListedCopy, RemoteListing, RemoteSegmentState


@dataclass(frozen=True, slots=True)
class PartitionRecords:
    """The records of one partition.

    Attributes:
        segments: the remote segments in their newest recorded state.
        is_complete: whether all records of the partition were read.
        doubtful: ids of segments that have records, but only of a kind that brokers ignore.
        error: why the records could not be read, or "".
    """

    topic_id: str
    segments: tuple[ListedCopy, ...] = ()
    is_complete: bool = False
    doubtful: tuple[str, ...] = ()
    error: str = ""

    @property
    def published(self) -> tuple[ListedCopy, ...]:
        """Return the remote segments that brokers read."""
        return tuple(each for each in self.segments if each.is_finished)

    @property
    def ended(self) -> frozenset[str]:
        """Return the ids of segments whose copy attempt has ended, and of the `doubtful` segments."""
        found = set(self.doubtful)
        for each in self.segments:
            if each.state is not RemoteSegmentState.COPY_SEGMENT_STARTED:
                found.add(each.segment_id)
        return frozenset(found)

    @property
    def listing(self) -> RemoteListing:
        """Return the remote segments that brokers read. Whether their objects exist is not checked."""
        copies = (replace(each, is_brokers=None, is_published=True) for each in self.published)
        return RemoteListing(tuple(copies))


Records = Mapping[tuple[str, int], PartitionRecords]
"""Records by topic and partition number."""


def merged(found: Iterable[PartitionRecords]) -> PartitionRecords | None:
    """Merge the records of one partition from several partitions of `__remote_log_metadata`.

    Without records, return None.

    All records of a partition are in one metadata partition, unless the number of metadata partitions was changed.
    """
    parts = tuple(found)
    if len(parts) < 2:
        return next(iter(parts), None)
    segments: list[ListedCopy] = []
    doubtful: set[str] = set()
    error = ""
    for each in parts:
        segments += each.segments
        doubtful.update(each.doubtful)
        error = error or each.error
    is_complete = all(each.is_complete for each in parts)
    return PartitionRecords(parts[0].topic_id, tuple(segments), is_complete, tuple(sorted(doubtful)), error)


def records_of(records: Records | None, topic: str, partition: int, topic_id: str | None) -> PartitionRecords | None:
    """Return the records of a partition; None if none were read, or if the topic id differs."""
    if records is None:
        return None
    found = records.get((topic, partition))
    if found is None or found.topic_id != topic_id:
        return None
    return found
