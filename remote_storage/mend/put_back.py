"""Put objects of published segments back under the keys that brokers read.

Segment ids and records do not change: brokers find the objects as soon as they exist. If --from has the layout of the
brokers' location, objects are copied unchanged. Otherwise the uploader builds them from the segment. No object is
overwritten. The object that makes a segment visible is put last, and only if brokers still know the segment. If brokers
have deleted the segment meanwhile, this run deletes the objects that it put. Objects that a failed or killed run put
are kept, and the next run continues.

Each segment is first fetched to this host, read fully and compared. Then the same bytes are put.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from tiersnap.remote_storage.errors import DeletedByClusterError, NotRebuiltError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.make_again import RemoteLogs
from tiersnap.remote_storage.mend.right_segments import RightSegments
from tiersnap.remote_storage.mend.segments_to_mend import Mending, not_from
from tiersnap.remote_storage.mend.staged_segment import ObjectSource, StagedSegment, staged
from tiersnap.remote_storage.mend.stored_files import index_files, not_mended, putting_back
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_segment import read_indexes, read_lineage
from tiersnap.remote_storage.remote_log.segment_bytes import fetch_into
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.send_objects import copy_segment, delete_in_reverse
from tiersnap.remote_storage.upload.snapshot_source import SourceFile, TrustedSnapshot
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError, TransientError
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PutBack:
    """Puts objects from another location back into the location that brokers read.

    Attributes:
        logs: the brokers' location, and the sources of the right content.
        read: returns the current records of the metadata topic.
        apply: whether to write. If not, the segments are only read and compared.
    """

    source: ObjectStore
    logs: RemoteLogs
    read: Callable[[], MetadataCache]
    apply: bool

    @property
    def target(self) -> RemoteLocation:
        """Return the location that brokers read."""
        return self.logs.location

    def each(self, planned: Sequence[Mending]) -> Iterator[Mending]:
        """Put the planned segments back, one after the other. Continue after a failure."""
        for partition, group in groupby(planned, key=lambda each: each.metadata.id.topic_id_partition):
            of_one = list(group)
            if any(each.outcome is MendOutcome.PLANNED for each in of_one):
                of_one = self._of_partition(partition, of_one)
            yield from of_one

    def _of_partition(self, partition: TopicIdPartition, of_one: Sequence[Mending]) -> list[Mending]:
        with self.logs.right_segments(partition, [each.metadata for each in of_one]) as right:
            return [self._ended(each, right) for each in of_one]

    def _ended(self, planned: Mending, right: RightSegments) -> Mending:
        if planned.outcome is not MendOutcome.PLANNED or planned.found is None:
            return planned
        try:
            with staged(self.source, planned.found) as segment:
                segment.check(right, planned)
                if not self.apply:
                    return planned
                if planned.action is MendAction.COPY:
                    segment.check_target(self.target.store)
                self._put_back(planned, segment)
        except DeletedByClusterError:
            return replace(planned, outcome=MendOutcome.DELETED)
        except (CorruptDataError, NotRebuiltError) as error:
            return not_from(self.source, planned.missing, error.message.removeprefix(not_mended(planned.metadata)))
        except TiersnapError as error:
            return replace(planned, outcome=MendOutcome.FAILED, error=error)
        _log.info("put back %s at offset %d", planned.metadata.id, planned.metadata.start_offset)
        return replace(planned, outcome=MendOutcome.MENDED)

    def _put_back(self, planned: Mending, segment: StagedSegment) -> None:
        made: list[str] = []
        try:
            with putting_back(self.target, planned.metadata):
                if planned.action is MendAction.REBUILD:
                    self._rebuild(planned.metadata, segment, made)
                else:
                    self._copy_all(planned.metadata, segment, made)
            check_known(self.read, planned.metadata)
        except DeletedByClusterError:
            delete_in_reverse(self.target.store, made)
            raise

    def _copy_all(self, metadata: RemoteLogSegmentMetadata, segment: StagedSegment, made: list[str]) -> None:
        last, *others = segment.copy.keys  # the first key makes the segment visible
        for key in reversed(others):
            self._copy(key, segment, made)
        check_known(self.read, metadata)
        self._copy(last, segment, made)

    def _copy(self, key: str, segment: StagedSegment, made: list[str]) -> None:
        """Copy one object, and add its key to `made` if this call created it.

        Raises:
            ObjectExistsError: an object with other content exists.
            TransientError: the store lost or changed the object.
        """
        size = segment.copy.objects.sizes[key]
        content, metadata = ObjectSource(segment.store, key, size), segment.user_metadata[key]
        put = self.target.store.put_file_if_absent(key, content, size, metadata=metadata)
        try:
            there = self.target.store.head(key)
            if there is None or there.size != put.size or there.crc32c not in (None, put.crc32c):
                raise TransientError(
                    f"{self.target.store.uri}{key}: the store lost or changed the object after the upload",
                    hint="run the same command again; if this recurs, do not use this store",
                    key=key,
                )
        except TiersnapError:
            # Otherwise the next run could not put the right content.
            if put.outcome.is_ours:
                delete_in_reverse(self.target.store, [key])
            raise
        if put.outcome.is_ours:
            made.append(key)

    def _rebuild(self, metadata: RemoteLogSegmentMetadata, segment: StagedSegment, made: list[str]) -> None:
        """Upload a segment again in the brokers' layout. If the upload fails, the new objects are deleted."""
        started = replace(metadata, state=SegmentState.COPY_SEGMENT_STARTED)
        with tempfile.TemporaryDirectory(prefix="tiersnap-") as scratch:
            ready = _fetched(metadata, segment, Path(scratch))
            done = copy_segment(self.target, ready, started, before_visible=lambda: check_known(self.read, metadata))
        made += done.made


def _fetched(metadata: RemoteLogSegmentMetadata, segment: StagedSegment, folder: Path) -> SegmentBundle:
    """Return a segment with its files in `folder`. The upload checks every batch, and rebuilds wrong indexes."""
    store, copy = segment.store, segment.copy
    log, indexes, end = fetch_into(folder, store, copy), read_indexes(store, copy), copy.end_offset
    files = index_files(folder, indexes)
    return SegmentBundle(
        base_offset=metadata.start_offset,
        next_base_offset=end,
        max_timestamp=metadata.max_timestamp,
        log=SourceFile(LOCAL, log.log.path, log.log.size),
        leader_epochs=read_lineage(store, copy),
        offset_index=files.get(IndexType.OFFSET),
        time_index=files.get(IndexType.TIMESTAMP),
        transaction_index=files.get(IndexType.TRANSACTION),
        # The snapshot was compared with the fold.
        producer_snapshot=TrustedSnapshot(end, indexes[IndexType.PRODUCER_SNAPSHOT] or b"", Provenance.COMPUTED),
    )


def check_known(read: Callable[[], MetadataCache], metadata: RemoteLogSegmentMetadata) -> None:
    """Check that brokers still know a segment. `read` returns the current records.

    Raises:
        DeletedByClusterError: brokers have deleted the segment, or have begun to.
    """
    known = read().segments(metadata.id.topic_id_partition).get(metadata.id.segment_id)
    if known is None or known.state is not SegmentState.COPY_SEGMENT_FINISHED:
        raise DeletedByClusterError(f"{metadata.id}: brokers have deleted it")
