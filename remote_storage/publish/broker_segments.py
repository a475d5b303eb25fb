"""Search a store for the newest segments that a cluster's brokers uploaded.

Segments that tiersnap uploaded are skipped. tiersnap recognises them by the record header `tiersnap` and by claims in
the store. Only the newest segments are evidence, because brokers may have stored older segments in another location.
If the store has such a segment, it is a hint but no proof: a replica of the bucket has the same object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.topics import Topic
from tiersnap.remote_storage.layouts.layout import StoredState
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.publish.location_proof import Evidence, EvidenceKind, EvidenceOutcome
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError

_log = logging.getLogger(__name__)

NEWEST_RECORDS = 1000
MOST_TRIED = 5
_FINISHED, _KIND = SegmentState.COPY_SEGMENT_FINISHED, EvidenceKind.BROKER_SEGMENT


def uploaded_by_brokers(cache: MetadataCache) -> list[RemoteLogSegmentMetadata]:
    """Return the finished segments that no record of tiersnap names, sorted by event timestamp, newest first."""
    return sorted(_finished_by_brokers(cache), key=lambda each: (each.event_timestamp, each.id), reverse=True)


def _finished_by_brokers(cache: MetadataCache) -> Iterator[RemoteLogSegmentMetadata]:
    for partition in cache.partitions():
        for each in cache.in_state(partition, _FINISHED):
            if each.id.segment_id not in cache.ours:
                yield each


@dataclass
class Looked:
    """The result of a search for the newest segments that brokers uploaded."""

    location: RemoteLocation  # the location with `found`; if `found` is None, the first location
    found: RemoteLogSegmentMetadata | None = None  # the newest segment that has an object
    # newer segments without an object, which no broker is deleting; newest first
    missing: list[RemoteLogSegmentMetadata] = field(default_factory=list)

    @property
    def evidence(self) -> Evidence:
        """Return the evidence for or against the location."""
        keys = ", ".join(map(self.location.log_uri, self.missing))
        if self.found is None and self.missing:
            said = f"the location does not have the newest segments that brokers uploaded: {keys}"
            return Evidence(_KIND, EvidenceOutcome.CONTRADICTS, said)
        if self.found is None:
            said = "remote storage has no segment that a broker uploaded"
            return Evidence(_KIND, EvidenceOutcome.SILENT, said)
        if self.missing:
            told = f"the location does not have the newest segment that brokers uploaded ({keys}), but has an older one"
            said = f"{told}: objects were lost, or brokers have switched to another location"
            return Evidence(_KIND, EvidenceOutcome.SILENT, said)
        key, when = self.location.log_uri(self.found), _utc(self.found.event_timestamp)
        said = f"brokers uploaded {key} at {when}. This is no proof: a copy of the location would have this object too"
        return Evidence(_KIND, EvidenceOutcome.HINTS, said)

    def replica_mark(self) -> Evidence | None:
        """Return evidence against the location if S3 replication wrote the found segment, otherwise None.

        If no segment was found, the first object of the store is checked instead.
        """
        store = self.location.store
        if not store.uri.startswith("s3://"):
            return None
        beginning = ""
        if self.found is not None:
            beginning = self.location.layout.stem(self.found)
        first = next(iter(store.list(beginning)), None)
        if first is None:
            return None
        info = store.head(first.key)
        if info is None or not info.is_replica:
            return None
        said = f"S3 replication wrote {store.uri}{info.key} as a copy of an object in another bucket"
        return Evidence(EvidenceKind.REPLICA_MARK, EvidenceOutcome.CONTRADICTS, said)


@dataclass(frozen=True)
class BrokerSegments:
    """Searches for segments that brokers uploaded; `talk` reports slow steps."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    talk: Callable[[str], None]

    def look(self, locations: Sequence[RemoteLocation]) -> Looked:
        """Search for the newest segments in locations of one store.

        The last records of each partition of `__remote_log_metadata` are read. If they name no segment of a broker, for
        example because copy tasks have failed for days, the whole topic is read.

        Raises:
            TransientError: brokers or the store do not answer.
        """
        with self.metadata_topic.read_all(newest=NEWEST_RECORDS) as reader:
            looked = self._look(reader, locations)
            is_all = reader.is_whole or looked.found is not None or looked.missing
        if not is_all:
            self.talk(
                "reading all records of remote segments, because the newest records name no segment that a "
                "broker uploaded"
            )
            with self.metadata_topic.read_all() as reader:
                looked = self._look(reader, locations)
        return looked

    def _look(self, reader: MetadataReader, locations: Sequence[RemoteLocation]) -> Looked:
        living = self._living(reader.read_to_end())
        return look_for(living, locations, lambda each: _is_finished(reader.read_to_end(), each))

    def _living(self, cache: MetadataCache) -> Iterator[RemoteLogSegmentMetadata]:
        theirs = uploaded_by_brokers(cache)
        topics = self.cluster.topics({each.id.topic for each in theirs})
        for each in theirs:
            if _is_of_topic(each, topics.get(each.id.topic)) and _is_finished(cache, each):
                yield each


def look_for(
    newest_first: Iterable[RemoteLogSegmentMetadata],
    locations: Sequence[RemoteLocation],
    is_finished: Callable[[RemoteLogSegmentMetadata], bool],
) -> Looked:
    """Search for segments until one has an object, or until MOST_TRIED segments have none.

    One object suffices, because segment ids are unique. Segments that a claim in the store names are skipped: tiersnap
    uploaded them.

    Args:
        newest_first: segments to search for.
        locations: locations in one store, one for each layout that brokers may read.
        is_finished: returns whether a segment is still COPY_SEGMENT_FINISHED. A segment in another state does not
            count as missing, because a broker may just have deleted its objects.
    """
    looked = Looked(locations[0])
    for segment in newest_first:
        if _is_claimed(looked.location.store, segment):
            continue
        for location in locations:
            if location.layout.inspect(location.store, segment) is not StoredState.ABSENT:
                return replace(looked, location=location, found=segment)
        if is_finished(segment):
            looked.missing.append(segment)
        if len(looked.missing) == MOST_TRIED:
            break
    return looked


def _is_claimed(store: ObjectStore, segment: RemoteLogSegmentMetadata) -> bool:
    epoch = segment.segment_leader_epochs[-1][0]
    claimed = ClaimedSegment(segment.id.topic_id_partition, segment.start_offset, epoch)
    try:
        claim = read_claim(store, claimed)
    except CorruptDataError as error:
        _log.debug("skipped, the claim cannot be read: %s: %s", claimed, error.message)
        return True
    return claim is not None and segment.id.segment_id in claim.segment_ids


def _is_finished(cache: MetadataCache, segment: RemoteLogSegmentMetadata) -> bool:
    known = cache.segments(segment.id.topic_id_partition).get(segment.id.segment_id)
    return known is not None and known.state is _FINISHED


def _is_of_topic(segment: RemoteLogSegmentMetadata, topic: Topic | None) -> bool:
    return topic is not None and topic.topic_id == segment.id.topic_id


def _utc(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError):  # a record may contain any 64-bit number
        return f"{milliseconds} ms"
