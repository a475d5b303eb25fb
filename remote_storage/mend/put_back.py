"""Objects of segments that brokers know, put back under the brokers' keys.

Segment ids stay, and no record changes: brokers find the objects as soon as they are there. In the same layout objects
are copied as they are; in another one they are built again from the segment, by the uploader. Nothing is overwritten.
What readers look for comes last, and only if brokers still know the segment: what they deleted meanwhile is taken back.
What a run that failed or was killed has put there stays: the next one finds it and goes on.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tiersnap.remote_storage.errors import DeletedByClusterError
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment, read_indexes, read_lineage
from tiersnap.remote_storage.inventory.segment_bytes import fetch_into
from tiersnap.remote_storage.inventory.segment_objects import SegmentObjects
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.mending import Mending
from tiersnap.remote_storage.mend.stored_files import index_files, putting_back
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.snapshot_source import SourceFile, TrustedSnapshot
from tiersnap.remote_storage.upload.uploader import copy_segment, delete_in_reverse
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError, TransientError
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.replay.snapshot_verdict import Provenance

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PutBack:
    """From one place to that of the brokers.

    Attributes:
        read: the records of the metadata topic as they are now.
    """

    source: ObjectStore
    target: RemoteLocation
    read: Callable[[], MetadataCache]

    def each(self, planned: Iterable[Mending]) -> Iterator[Mending]:
        """Put back what was planned, one segment after the other; what fails keeps no other from coming back."""
        for each in planned:
            if each.outcome is not MendOutcome.PLANNED:
                yield each
                continue
            try:
                self._put_back(each)
            except DeletedByClusterError:
                yield replace(each, outcome=MendOutcome.DELETED)
            except TiersnapError as error:
                yield replace(each, outcome=MendOutcome.FAILED, error=error)
            else:
                _log.info("put back %s at offset %d", each.metadata.id, each.metadata.start_offset)
                yield replace(each, outcome=MendOutcome.MENDED)

    def _put_back(self, planned: Mending) -> None:
        assert planned.found is not None
        made: list[str] = []
        try:
            with putting_back(self.target, planned.metadata):
                if planned.action is MendAction.REBUILD:
                    self._rebuild(planned.metadata, planned.found, made)
                else:
                    self._copy_all(planned.metadata, planned.found.objects, made)
            check_known(self.read, planned.metadata)
        except DeletedByClusterError:
            delete_in_reverse(self.target.store, made)
            raise

    def _copy_all(self, metadata: RemoteLogSegmentMetadata, attempt: SegmentObjects, made: list[str]) -> None:
        sizes = {info.key: info.size for info in attempt.objects.values()}
        last, *others = attempt.keys  # what makes it visible comes first there
        for key in reversed(others):
            self._copy(key, sizes[key], made)
        check_known(self.read, metadata)
        self._copy(last, sizes[last], made)

    def _copy(self, key: str, size: int, made: list[str]) -> None:
        """Copy one object, and note its key if this call made it.

        Raises:
            CorruptDataError: the source gave other bytes than were stored with it.
            ObjectExistsError: there is an object with other content.
            TransientError: the store has not kept what it was sent.
        """
        found = self.source.head(key)
        metadata = {} if found is None else found.metadata
        put = self.target.store.put_file_if_absent(key, _ObjectSource(self.source, key, size), size, metadata=metadata)
        there = self.target.store.head(key)
        try:
            if found is not None and found.crc32c not in (None, put.crc32c):
                raise CorruptDataError(
                    f"{self.source.uri}{key}: content has CRC {put.crc32c:08x}, {found.crc32c:08x} was stored with it",
                    hint="run the same command again; if it recurs the object is damaged",
                    key=key,
                )
            if there is None or there.size != put.size or there.crc32c not in (None, put.crc32c):
                raise TransientError(
                    f"{self.target.store.uri}{key}: the store has other content than it was sent, or lost it",
                    hint="run the same command again; if it recurs, the store is not to be trusted with this",
                    key=key,
                )
        except TiersnapError:
            # The next run could not put the right content in its place.
            delete_in_reverse(self.target.store, [key] if put.outcome.is_ours else [])
            raise
        made += [key] if put.outcome.is_ours else []

    def _rebuild(self, metadata: RemoteLogSegmentMetadata, copy: RemoteSegment, made: list[str]) -> None:
        """Upload a segment again in the brokers' layout, which takes back what it made where it fails."""
        started = replace(metadata, state=SegmentState.COPY_SEGMENT_STARTED)
        with tempfile.TemporaryDirectory(prefix="tiersnap-") as scratch:
            ready = self._fetched(metadata, copy, Path(scratch))
            done = copy_segment(self.target, ready, started, before_visible=lambda: check_known(self.read, metadata))
        made += done.made

    def _fetched(self, metadata: RemoteLogSegmentMetadata, copy: RemoteSegment, folder: Path) -> SegmentBundle:
        """Fetch a segment's files; the upload checks every batch and makes the indexes right by them."""
        segment, indexes, end = fetch_into(folder, self.source, copy), read_indexes(self.source, copy), copy.end_offset
        files = index_files(folder, indexes)
        return SegmentBundle(
            base_offset=metadata.start_offset,
            next_base_offset=end,
            max_timestamp=metadata.max_timestamp,
            log=SourceFile(LOCAL, segment.log.path, segment.log.size),
            leader_epochs=read_lineage(self.source, copy),
            offset_index=files.get(IndexType.OFFSET),
            time_index=files.get(IndexType.TIMESTAMP),
            transaction_index=files.get(IndexType.TRANSACTION),
            # The gate let it pass when it was uploaded, to the wrong place.
            producer_snapshot=TrustedSnapshot(end, indexes[IndexType.PRODUCER_SNAPSHOT] or b"", Provenance.COMPUTED),
        )


def check_known(read: Callable[[], MetadataCache], metadata: RemoteLogSegmentMetadata) -> None:
    """See that brokers still know a segment; `read` gives the records as they are now.

    Raises:
        DeletedByClusterError: they have deleted it, or begun to.
    """
    known = read().segments(metadata.id.topic_id_partition).get(metadata.id.segment_id)
    if known is None or known.state is not SegmentState.COPY_SEGMENT_FINISHED:
        raise DeletedByClusterError(f"{metadata.id}: brokers have deleted it")


@dataclass
class _ObjectSource:
    """An object as a file to be read."""

    store: ObjectStore
    key: str
    size: int
    position: int = field(default=0)

    def read(self, nbytes: int, /) -> bytes:
        """See ByteSource."""
        wanted = min(nbytes, self.size - self.position)
        data = self.store.get_range(self.key, self.position, wanted) if wanted > 0 else b""
        self.position += len(data)
        return data

    def seek(self, position: int, /) -> int:
        """See ByteSource."""
        self.position = position
        return position
