"""A segment from `--from`: fetched to this host, read fully and compared before any object is put for brokers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.mend.covered_batches import are_among, batches_of
from tiersnap.remote_storage.mend.right_segments import RightSegments
from tiersnap.remote_storage.mend.segments_to_mend import Mending, why_not
from tiersnap.remote_storage.mend.stored_files import not_rebuilt
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, decode_lineage, read_indexes, read_segment
from tiersnap.remote_storage.remote_log.segment_bytes import fetched_segment
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.verify.local_log import LocalLog
from tiersnap.remote_storage.verify.segment_log import read_log
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.remote_check import RemoteVerdict
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.replay.snapshot_comparison import compare

_log = logging.getLogger(__name__)

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class StagedSegment:
    """A segment on this host.

    Attributes:
        store: a directory of this host with copies of the segment's objects, under the same keys.
        user_metadata: the user metadata of each object in the source, by key.
    """

    store: DirectoryStore
    copy: RemoteSegment
    user_metadata: Mapping[str, Mapping[str, str]]

    def check(self, right: RightSegments, planned: Mending) -> None:
        """Check that the segment is right: every batch, the leader epochs, the indexes and the snapshot.

        The log must equal each undamaged log of the same segment, in remote storage or on this host. If the local log
        has no segment with the same bounds, each local batch between the bounds must be in the fetched log.

        Raises:
            CorruptDataError, NotRebuiltError: the segment is wrong. The message contains the reason.
        """
        record, store = planned.metadata, self.store
        copy = read_segment(store, self.copy.objects)
        if why := why_not(record, copy):
            raise CorruptDataError(why)
        assert isinstance(copy, RemoteSegment)
        indexes = read_indexes(store, copy)
        decode_lineage(copy, indexes[IndexType.LEADER_EPOCH] or b"", name="leader epochs")
        log = read_log(store, copy, indexes=indexes)
        if log.faults:
            raise CorruptDataError("; ".join(fault.message for fault in log.faults))
        right.refuse_other_logs(record, right.own(record), log.digest)
        if right.local is not None:
            self._compare_locally(right, right.local, record, log.digest)
        entries = snapshot_file.decode(indexes[IndexType.PRODUCER_SNAPSHOT] or b"", name="snapshot")
        fold, history_from = right.fold_at_end(record, log.runs)
        found, expiry = compare(entries, fold, history_from=history_from), right.rules.broker_expiry
        if not RemoteVerdict(found.verdict(expiry).value).is_sound:
            raise CorruptDataError(f"snapshot: {found.reason(expiry)}")

    def _compare_locally(
        self, right: RightSegments, local: LocalLog, record: RemoteLogSegmentMetadata, digest: str
    ) -> None:
        if local.segment_of(record) is not None:
            right.refuse_diverged_log(record, digest)  # the local segment has the same digest
            return
        if not self.copy.facts.is_of(local.partition.whole_epochs):
            return
        bounds, held = self.copy.bounds, local.partition.segments
        with fetched_segment(self.store, self.copy) as segment:
            theirs = batches_of(LOCAL, [segment], bounds)
        # Files may be missing on this host. The remaining files must have the same batches.
        if not are_among(batches_of(local.filesystem, held, bounds), theirs):
            raise not_rebuilt(record, "the log in LOGDIR has other batches at the offsets of the segment")

    def check_target(self, target: ObjectStore) -> None:
        """Check that the target lacks each of the segment's objects, or has it with the same content.

        Otherwise objects of two segments could be mixed.

        Raises:
            ObjectExistsError: an object has other content.
        """
        for key in self.copy.keys:
            if (there := target.head(key)) is None:
                continue
            size = self.copy.objects.sizes[key]
            own, other = ObjectSource(self.store, key, size), ObjectSource(target, key, size)
            if there.size != size or not _is_same(own, other):
                raise ObjectExistsError(f"{target.uri}{key}: the object exists with other content")


@contextmanager
def staged(source: ObjectStore, found: RemoteSegment) -> Iterator[StagedSegment]:
    """Fetch all objects of a segment unchanged into temporary files. The end of the `with` block deletes them.

    Raises:
        CorruptDataError: the bytes of an object contradict its stored checksum, or an object is missing.
        TransientError: the source does not answer.
        RemoteStorageError: the source refuses a request.
    """
    with TemporaryDirectory(prefix="tiersnap-") as scratch:
        store, user_metadata = DirectoryStore(Path(scratch)), dict[str, Mapping[str, str]]()
        for key in found.keys:
            head, size = source.head(key), found.objects.sizes[key]
            try:
                put = store.put_file_if_absent(key, ObjectSource(source, key, size), size)
            except ObjectNotFoundError as error:
                raise CorruptDataError(error.message) from error
            if head is not None and head.crc32c not in (None, put.crc32c):
                raise CorruptDataError(
                    f"{source.uri}{key}: the content has CRC {put.crc32c:08x}, but CRC {head.crc32c:08x} was "
                    "stored with it",
                    key=key,
                )
            _log.debug("fetched %s%s: %d bytes", source.uri, key, put.size)
            user_metadata[key] = {}
            if head is not None:
                user_metadata[key] = head.metadata
        yield StagedSegment(store, found, user_metadata)


def _is_same(one: ObjectSource, other: ObjectSource) -> bool:
    while piece := one.read(_PIECE):
        if other.read(_PIECE) != piece:
            return False
    return True


@dataclass
class ObjectSource:
    """An object that can be read like a file."""

    store: ObjectStore
    key: str
    size: int
    position: int = field(default=0)

    def read(self, nbytes: int, /) -> bytes:
        """See ByteSource."""
        wanted = min(nbytes, self.size - self.position)
        if wanted <= 0:
            return b""
        data = self.store.get_range(self.key, self.position, wanted)
        self.position += len(data)
        return data

    def seek(self, position: int, /) -> int:
        """See ByteSource."""
        self.position = position
        return position
