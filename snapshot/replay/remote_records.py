"""Records of `__remote_log_metadata` about partitions: the newest state of each remote segment that they name.

The cluster has all records. A replica of `__remote_log_metadata` in a log directory may lack the newest ones. So it can
prove that a record exists, but not that a record is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tiersnap.snapshot.replay.remote_listing import ListedCopy, RemoteListing, RemoteSegmentState


@dataclass(frozen=True, slots=True)
class PartitionRecords:
    """The records of one partition.

    Attributes:
        segments: the segments in their newest recorded state.
        is_complete: all records of the partition were read.
        doubtful: ids of segments whose remaining records are all of a kind that brokers drop.
        error: why the records could not be read; "" if they were.
    """

    topic_id: str
    segments: tuple[ListedCopy, ...] = ()
    is_complete: bool = False
    doubtful: tuple[str, ...] = ()
    error: str = ""

    @property
    def published(self) -> tuple[ListedCopy, ...]:
        """Return the segments that brokers read."""
        return tuple(each for each in self.segments if each.is_finished)

    @property
    def ended(self) -> frozenset[str]:
        """Return the ids of segments that brokers may know: their copy attempt has ended, or its end is unknown."""
        begun = RemoteSegmentState.COPY_SEGMENT_STARTED
        return frozenset([*self.doubtful, *(each.segment_id for each in self.segments if each.state is not begun)])

    @property
    def listing(self) -> RemoteListing:
        """Return the remote segments that brokers read, without a check that their objects exist."""
        copies = (replace(each, is_brokers=None, is_published=True) for each in self.published)
        return RemoteListing(tuple(copies))


Records = Mapping[tuple[str, int], PartitionRecords]
"""Records by topic and partition number."""


def merged(found: Iterable[PartitionRecords]) -> PartitionRecords | None:
    """Return records of one partition, merged from several partitions of `__remote_log_metadata`; None without any.

    All records of a partition are in one of these, until the number of partitions changes.
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
    found = None if records is None else records.get((topic, partition))
    return found if found is not None and found.topic_id == topic_id else None
