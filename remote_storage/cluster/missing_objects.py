"""Find finished segments that brokers read and that lack objects in a store.

After the local files are deleted, consumers cannot read these segments. The search needs one listing per partition, and
reads no object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader
from tiersnap.remote_storage.cluster.topics import leaders_of
from tiersnap.remote_storage.layouts.layout import StoredState
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, mandatory, segments_by_id
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.units import count_of

_log = logging.getLogger(__name__)

_FINISHED = SegmentState.COPY_SEGMENT_FINISHED
Known = Mapping[TopicIdPartition, Sequence[RemoteLogSegmentMetadata]]
"""Segments that brokers read, by partition."""


@dataclass(frozen=True, slots=True)
class ReadByBrokers:
    """The finished segments that brokers read, ascending, and the log start offset of each partition with a leader."""

    segments: Known
    log_starts: Mapping[TopicIdPartition, int]


@dataclass(frozen=True, slots=True)
class MissingSegment:
    """A segment that brokers read and that lacks objects."""

    metadata: RemoteLogSegmentMetadata
    is_ours: bool  # whether tiersnap published it
    lacking: tuple[str, ...]  # key suffixes of the missing mandatory objects


@dataclass(frozen=True, slots=True)
class Missing:
    """The missing segments of one remote location. The partition with the most missing segments is first."""

    uri: str  # of the remote location
    known: int  # number of segments that brokers read
    segments: tuple[MissingSegment, ...] = ()
    # Name of the other layout if the first missing segment is complete in that layout at the same location, else None.
    elsewhere: str | None = None

    @property
    def partitions(self) -> int:
        """Return the number of partitions with missing segments."""
        return len({each.metadata.id.topic_id_partition for each in self.segments})

    @property
    def sentence(self) -> str:
        """Return the finding as a sentence with the consequence and the partition with the most missing segments."""
        if not self.known:
            return "brokers have tiered nothing yet"
        if not self.segments:
            return f"all {count_of(self.known, 'segment')} that brokers know are complete at {self.uri}"
        worst = self.segments[0].metadata.id.topic_id_partition
        of_worst = [each.metadata for each in self.segments if each.metadata.id.topic_id_partition == worst]
        first, last = of_worst[0].start_offset, of_worst[-1].end_offset
        verb = "are"
        if len(self.segments) == 1:
            verb = "is"
        return (
            f"{len(self.segments)} of {count_of(self.known, 'segment')} that brokers know "
            f"{verb} not at {self.uri} ({count_of(self.partitions, 'partition')}). After brokers delete the local "
            f"files, consumers cannot read the missing segments. {worst} lacks "
            f"{count_of(len(of_worst), 'segment')} between offsets {first} and {last}"
        )


def find_missing(known: Known, ask: Callable[[], Known], ours: Collection[str], location: RemoteLocation) -> Missing:
    """Return the segments that brokers read and that are incomplete in a store.

    Args:
        known: the segments that brokers read, by partition.
        ask: returns the segments that brokers read now; called only if a segment is missing.
        ours: ids of the segments that tiersnap published.

    Raises:
        TransientError: brokers or the store do not answer.
    """
    partitions, uri = list(known), location.store.uri
    listings = in_parallel(partial(segments_by_id, location), partitions)
    listed = dict(zip(partitions, listings, strict=True))
    missing = dict(_missing(known, listed, local=location.is_local))
    if missing:
        # Brokers may have deleted segments since. They publish a deletion before they delete an object.
        still = set(chain.from_iterable(ask().values()))
        missing = {each: lacking for each, lacking in missing.items() if each in still}
    _log.debug("%d segments are missing in %s", len(missing), uri)
    found = worst_first(MissingSegment(each, each.id.segment_id in ours, lacking) for each, lacking in missing.items())
    elsewhere = None
    if found:
        elsewhere = _other_layout(location, found[0].metadata)
    return Missing(uri, sum(map(len, known.values())), tuple(found), elsewhere)


def _other_layout(location: RemoteLocation, segment: RemoteLogSegmentMetadata) -> str | None:
    other = location.in_other_layout.layout
    if other.inspect(location.store, segment) is StoredState.COMPLETE:
        return other.name
    return None


def read_by_brokers(cluster: Cluster, reader: MetadataReader, is_wanted: Callable[[str], bool]) -> ReadByBrokers:
    """Return the segments of the wanted topics that brokers read now.

    The result has no segments below the log start offset, and no segments that were replaced by others with the same
    offsets.

    Args:
        reader: a reader of the whole metadata topic.
    """
    cache = reader.read_to_end()
    wanted = [each for each in cache.partitions() if is_wanted(each.topic)]
    live = leaders_of(cluster.topics({each.topic for each in wanted}), wanted)
    starts = cluster.log_starts(live)
    found = {}
    for each in live:
        start = starts.get(each, 0)  # without a leader the log start offset is unknown, so all segments count
        segments = _found_from(cache, each, start)
        if segments:
            found[each] = segments
    return ReadByBrokers(found, starts)


def _found_from(cache: MetadataCache, partition: TopicIdPartition, start: int) -> list[RemoteLogSegmentMetadata]:
    """Return the segments that brokers find at or above the offset `start`, ascending."""
    found_ids = cache.index(partition).found()
    finished = cache.in_state(partition, _FINISHED)
    found = [each for each in finished if each.id in found_ids and each.end_offset >= start]
    return sorted(found, key=lambda each: (each.start_offset, each.id.segment_id))


def worst_first(missing: Iterable[MissingSegment]) -> list[MissingSegment]:
    """Return the segments, first those of the partition with the most missing segments.

    The segments of one partition are sorted by offset.
    """
    by_partition: dict[TopicIdPartition, list[MissingSegment]] = {}
    for each in missing:
        by_partition.setdefault(each.metadata.id.topic_id_partition, []).append(each)
    order = sorted(by_partition, key=lambda partition: (-len(by_partition[partition]), partition))
    found: list[MissingSegment] = []
    for partition in order:
        found += sorted(by_partition[partition], key=lambda each: (each.metadata.start_offset, each.metadata.id))
    return found


def _missing(
    known: Known, listed: Mapping[TopicIdPartition, Mapping[str, SegmentObjects]], *, local: bool
) -> Iterable[tuple[RemoteLogSegmentMetadata, tuple[str, ...]]]:
    for partition, segments in known.items():
        for segment in segments:
            there = listed[partition].get(segment.id.segment_id)
            lacking = mandatory(local=local)
            if there is not None:
                lacking = there.missing
            if lacking:
                yield segment, lacking
