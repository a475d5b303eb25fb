"""Find partitions whose last stable offset has not advanced for an hour, although closed segments exist above it.

A copy task copies a segment only if it ends at or below the last stable offset. An open transaction stops this offset
from advancing, and so does a high watermark that does not advance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.units import count_of, human_bytes, human_duration, utc

STANDS_AFTER_MS = 3_600_000
"""ms. By default, a transaction ends within 15 minutes (transaction.max.timeout.ms)."""


@dataclass(frozen=True, slots=True)
class StandingOffset:
    """A partition whose last stable offset does not advance."""

    partition: str
    last_stable_offset: int
    since: int  # ms: time of the first record at or above the last stable offset
    age_ms: int
    segments: int  # number of closed segments that end above the last stable offset
    waiting_bytes: int  # bytes of the closed segments that end above the last stable offset

    def says(self) -> str:
        """Return the finding as a sentence."""
        wait = count_of(self.segments, "closed segment", "closed segments")
        return (
            f"{self.partition}: the last stable offset has not moved from {self.last_stable_offset} for "
            f"{human_duration(self.age_ms)}, since {utc(self.since)}; {wait} above it "
            f"({human_bytes(self.waiting_bytes)}) cannot be tiered"
        )


def find_standing(
    cluster: Cluster, partitions: Mapping[TopicIdPartition, tuple[FileSystem, Partition]], now: int
) -> list[StandingOffset]:
    """Return the partitions whose last stable offset does not advance.

    Args:
        partitions: local partitions that brokers copy and that have a leader.
        now: ms.
    """
    found = dict(_find_standing_now(cluster, partitions, now))
    # A transaction with old timestamps may have been open only for a moment, so request the offset again.
    again = cluster.stable_offsets(found)
    return [each for name, each in found.items() if again[name] == each.last_stable_offset]


def _find_standing_now(
    cluster: Cluster, partitions: Mapping[TopicIdPartition, tuple[FileSystem, Partition]], now: int
) -> Iterator[tuple[TopicPartition, StandingOffset]]:
    names = {(each.topic, each.partition): each for each in partitions if partitions[each][1].segments[1:]}
    for name, offset in cluster.stable_offsets(names).items():
        standing = _standing(*partitions[names[name]], offset, now)
        if standing is not None:
            yield name, standing


def _standing(filesystem: FileSystem, partition: Partition, offset: int, now: int) -> StandingOffset | None:
    """Return the partition as a StandingOffset.

    None if no closed segment ends above `offset`, or if the record at `offset` was written within the last hour.
    """
    waiting = list(_waiting(partition, offset))
    if not waiting:
        return None
    since = _time_at(filesystem, partition, offset, now)
    if since > now - STANDS_AFTER_MS:
        return None
    size = sum(each.log.size for each in waiting)
    return StandingOffset(partition.name, offset, since, now - since, len(waiting), size)


def _waiting(partition: Partition, offset: int) -> Iterator[Segment]:
    """Yield the closed segments that end above an offset."""
    for each in partition.segments:
        if (each.next_base_offset or 0) > offset:
            yield each


def _time_at(filesystem: FileSystem, partition: Partition, offset: int, now: int) -> int:
    """Return the time (ms) at which the record at an offset was written, or `now` if no local segment has the offset.

    The record was written after the previous segment was closed. So the result is at least the modification time of the
    previous segment's file. If the record has no timestamp, or a timestamp in the future, the result is the
    modification time of the file that contains the record.
    """
    previous = holding = None
    for each in partition.segments:
        if each.base_offset <= offset:
            previous, holding = holding, each
    if holding is None:
        return now
    timestamp = _timestamp(filesystem, holding, offset)
    if timestamp is None:
        return now
    if not 0 <= timestamp <= now:
        return _ended_at(holding)
    if previous is None:
        return timestamp
    return max(timestamp, _ended_at(previous))


def _ended_at(segment: Segment) -> int:
    return segment.log.modified_ns // 1_000_000


def _timestamp(filesystem: FileSystem, segment: Segment, offset: int) -> int | None:
    """Return the max timestamp (ms) of the first batch that ends at or above an offset; None without such a batch."""
    from tiersnap.snapshot.log.segment_scan import SegmentScan  # with numpy

    for rows in SegmentScan.of(filesystem, segment, check_crc=False):
        above = rows[rows["base_offset"] + rows["last_offset_delta"] >= offset]
        if above.size:
            return int(above["max_timestamp"][0])
    return None
