"""A remote segment: the objects of one copy attempt, if each mandatory object exists in the right size.

In the Aiven layout the rsm-manifest describes the objects. LocalTieredStorage has no manifest. There, the end offset is
read from the last batches of the log object, and the leader epochs from the leader epoch object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tiersnap.remote_storage.errors import InvalidKeyError, ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.chunk_index import ChunkIndex
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.layout import IndexType, Layout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    epochs_in_range,
)
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.log_end import local_end
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.stores.small_object import INDEXES_BYTES, get_small
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError, TiersnapError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs, parse_leader_epochs
from tiersnap.snapshot.log.coverage import CopyFacts
from tiersnap.snapshot.units import count_of

_LARGEST_EPOCHS = 1 << 20
_LARGEST_SEGMENT = (1 << 31) - 1  # bytes: a Java int


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A complete remote segment. `start_offset` is inclusive, `end_offset` exclusive."""

    objects: SegmentObjects  # from the listing
    # without a manifest, broker_id and max_timestamp are -1, and event_timestamp is the last object's time
    metadata: RemoteLogSegmentMetadata
    # position and size of each index in the indexes object; None if each index is an object
    places: Mapping[IndexType, tuple[int, int] | None] | None
    # the chunks of a log object that the plugin compressed; None if the log object is the segment file
    chunks: ChunkIndex | None = None
    is_encrypted: bool = False  # only the plugin can read an encrypted segment
    claim: Claim | None = None  # our claim that names the attempt; None if no such claim was read
    # whether a broker uploaded the segment: no claim of ours names it, and any manifest names a broker
    is_brokers: bool = False

    @property
    def segment_id(self) -> str:
        """Return the segment id, which names one copy attempt."""
        return self.metadata.id.segment_id

    @property
    def start_offset(self) -> int:
        """Return the first offset."""
        return self.metadata.start_offset

    @property
    def end_offset(self) -> int:
        """Return the exclusive end offset."""
        return self.metadata.end_offset + 1

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the first offset and the exclusive end offset."""
        return self.start_offset, self.end_offset

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """Return (epoch, first offset in this segment), ascending."""
        return self.metadata.segment_leader_epochs

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the object keys. Readers see the segment if the object of the first key exists."""
        return self.objects.keys

    @property
    def written_at(self) -> int:
        """Return the newest write time of the objects: ms, by the store's clock."""
        return self.objects.modified

    @property
    def claimed_as(self) -> ClaimedSegment:
        """Return the name of this segment in claims: partition, base offset and last leader epoch."""
        return ClaimedSegment(self.metadata.id.topic_id_partition, self.start_offset, self.leader_epochs[-1][0])

    @property
    def is_unfinished(self) -> bool:
        """Return whether our claim names this segment, is unfinished, and does not list the segment in `kept`."""
        return self.claim is not None and self.claim.finished is None and not self.claim.was_finished(self.segment_id)

    @property
    def attempt(self) -> tuple[int, str]:
        """Return the sort key of attempts: the event timestamp (ms) and the segment id."""
        return self.metadata.event_timestamp, self.segment_id

    @property
    def facts(self) -> CopyFacts:
        """Return the facts from which RemoteCoverage is built."""
        return CopyFacts(self.start_offset, self.end_offset, self.leader_epochs, is_complete=True)

    @property
    def layout(self) -> Layout:
        """Return the layout of the objects: LocalTieredStorage or Aiven."""
        if self.places is None:
            return LocalTieredStorageLayout()
        return AivenLayout()


@dataclass(frozen=True, slots=True)
class IncompleteSegment:
    """Objects of one segment id that do not count as a remote segment; `problem` has the reason."""

    segment_id: str
    start_offset: int
    problem: str  # the reason, for messages
    # from the listing; None if only a record names the segment
    objects: SegmentObjects | None = None
    claim: Claim | None = None  # our claim that names the attempt; None if no such claim was read
    claimed_as: ClaimedSegment | None = None  # the segment of that claim
    end_offset: int | None = None  # exclusive; None if unknown

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the object keys. Readers see the segment if the object of the first key exists."""
        return () if self.objects is None else self.objects.keys

    @property
    def written_at(self) -> int:
        """Return the newest write time of the objects: ms, by the store's clock. 0 without objects."""
        return 0 if self.objects is None else self.objects.modified

    @property
    def is_visible(self) -> bool:
        """Return whether the object that an upload writes last exists. If so, readers see the segment.

        An incomplete segment that is visible is damaged or is being deleted.
        """
        return self.objects is not None and self.objects.is_visible

    @property
    def may_be_of_broker(self) -> bool:
        """Return whether a broker may be copying the segment.

        Callers must also check `written_at`, because a running copy has recent objects.
        """
        return self.claim is None and not self.is_visible


def read_segment(
    store: ObjectStore, objects: SegmentObjects, known: KnownManifests | None = None
) -> RemoteSegment | IncompleteSegment:
    """Return the remote segment of listed objects, or an IncompleteSegment with the problem.

    The Aiven layout needs one request, LocalTieredStorage three. If the manifest is in `known` or an object is missing,
    no request is made.
    """
    try:
        _check_complete(objects)
        if objects.is_local:
            return _local_segment(store, objects)
        return _aiven_segment(objects, known or KnownManifests(store, objects.partition))
    except (CorruptDataError, ObjectNotFoundError, InvalidKeyError) as error:
        return IncompleteSegment(objects.segment_id, objects.start_offset, error.message, objects)


def _aiven_segment(attempt: SegmentObjects, known: KnownManifests) -> RemoteSegment:
    objects = attempt.objects
    listed = objects[KeyKind.RSM_MANIFEST]
    manifest = known.read(attempt.segment_id, listed)
    for kind, size in ((KeyKind.LOG, manifest.log_size), (KeyKind.INDEXES, manifest.indexes_size)):
        if objects[kind].size != size:
            raise CorruptDataError(
                f"{objects[kind].key}: the object has {count_of(objects[kind].size, 'byte')}, but the manifest of "
                f"the segment says {size}"
            )
    metadata = manifest.metadata
    expected = _segment_id(attempt.partition, attempt.segment_id)
    _refuse_prefix_without_slash(known.store, metadata.id, expected)
    if (metadata.id, metadata.start_offset) != (expected, attempt.start_offset):
        raise CorruptDataError(
            f"{known.store.uri}{listed.key}: the manifest describes segment {metadata.id} at offset "
            f"{metadata.start_offset}, but its key names {expected} at offset {attempt.start_offset}"
        )
    chunks = manifest.chunks if manifest.is_compressed else None
    return RemoteSegment(attempt, metadata, manifest.indexes, chunks, manifest.is_encrypted)


def _refuse_prefix_without_slash(
    store: ObjectStore, in_manifest: RemoteLogSegmentId, in_key: RemoteLogSegmentId
) -> None:
    """Raise RemoteStorageError if the plugin's key.prefix does not end with /, as in the key `prefixtopic-…`."""
    prefix = in_key.topic.removesuffix(in_manifest.topic)
    if prefix and prefix != in_key.topic and replace(in_key, topic=in_manifest.topic) == in_manifest:
        raise RemoteStorageError(
            f"{store.uri}: the keys of brokers begin with {prefix!r}, which does not end with /",
            hint="tiersnap can read only a key.prefix that ends with /",
        )


def _local_segment(store: ObjectStore, attempt: SegmentObjects) -> RemoteSegment:
    objects, start_offset = attempt.objects, attempt.start_offset
    log, epochs = objects[KeyKind.LOCAL_LOG], objects[KeyKind.LOCAL_LEADER_EPOCHS]
    if not 0 < log.size <= _LARGEST_SEGMENT:
        raise CorruptDataError(f"{log.key}: the size of the segment, {count_of(log.size, 'byte')}, is not possible")
    end_offset = local_end(store, objects, start_offset)
    text = store.get(epochs.key, limit=_LARGEST_EPOCHS).decode("utf-8", "replace")
    segment_epochs = epochs_in_range(parse_leader_epochs(text, name=epochs.key), start_offset, end_offset)
    metadata = RemoteLogSegmentMetadata(
        id=_segment_id(attempt.partition, attempt.segment_id),
        start_offset=start_offset,
        end_offset=end_offset - 1,
        broker_id=-1,
        max_timestamp=-1,
        event_timestamp=attempt.modified,
        segment_leader_epochs=segment_epochs,
        segment_size=log.size,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )
    return RemoteSegment(attempt, metadata, None)


def _check_complete(attempt: SegmentObjects) -> None:
    if attempt.missing:
        missing = " and no ".join(attempt.missing)
        raise CorruptDataError(f"the segment has no {missing}: its upload was not finished, or an object was lost")


def _segment_id(partition: TopicIdPartition, segment_id: str) -> RemoteLogSegmentId:
    if partition.topic_id is None:
        raise TiersnapError(f"{partition}: the topic id is unknown, and remote segments need one")
    return RemoteLogSegmentId.of(partition, segment_id)


def newest(copies: Sequence[RemoteSegment]) -> RemoteSegment:
    """Return the segment with the highest leader epoch, then the highest end offset, then the newest attempt."""
    return max(copies, key=lambda copy: (copy.metadata.segment_leader_epochs[-1][0], copy.end_offset, *copy.attempt))


def read_indexes(
    store: ObjectStore, copy: RemoteSegment, wanted: Collection[IndexType] = tuple(IndexType)
) -> dict[IndexType, bytes | None]:
    """Return the indexes of a remote segment. This makes one request per index, or one in total in the Aiven layout.

    The value for the transaction index is None if the segment has none.

    Args:
        wanted: the indexes to return. For Aiven, one request reads all bytes from the first to the last of them.

    Raises:
        ObjectNotFoundError: an object of the segment does not exist.
        CorruptDataError: the indexes object is shorter than its manifest says.
    """
    if copy.places is None:
        return {index: copy.layout.fetch_index(store, copy.metadata, index) for index in wanted}
    key = keys.segment(KeyKind.INDEXES, copy.metadata)
    places = {index: copy.places[index] for index in wanted}
    there = list(filter(None, places.values()))
    first = min((start for start, _ in there), default=0)
    size = max((start + length for start, length in there), default=0)
    if len(places) == len(IndexType):
        first, data = 0, get_small(store, ObjectInfo(key, size, None, 0), limit=INDEXES_BYTES)
    else:
        data = store.get_range(key, first, min(size - first, INDEXES_BYTES))

    def cut(index: IndexType, place: tuple[int, int] | None) -> bytes | None:
        if place is None:
            return None
        start, length = place
        found = data[start - first : start - first + length]
        if len(found) != length:
            end = count_of(first + len(data), "byte")
            raise CorruptDataError(
                f"{store.uri}{key}: the object ends after {end}, before the end of its {index}", key=key
            )
        return found

    return {index: cut(index, place) for index, place in places.items()}


def read_lineage(store: ObjectStore, copy: RemoteSegment) -> LeaderEpochs:
    """Return the leader epochs of the partition below the segment's end, from the uploaded leader-epoch-checkpoint.

    For an encrypted segment, return only the segment's own epochs, because tiersnap cannot read the checkpoint.

    Raises:
        CorruptDataError: the data is no leader-epoch-checkpoint, or contradicts the segment's manifest.
    """
    if copy.is_encrypted:
        return copy.metadata.segment_leader_epochs
    name = f"{store.uri}{copy.layout.log_key(copy.metadata)}: leader epochs"
    return decode_lineage(copy, read_indexes(store, copy)[IndexType.LEADER_EPOCH] or b"", name=name)


def decode_lineage(copy: RemoteSegment, data: bytes, *, name: str) -> LeaderEpochs:
    """Return the leader epochs of a remote segment's leader-epoch-checkpoint.

    Raises:
        CorruptDataError: the data is no leader-epoch-checkpoint, or contradicts the segment's manifest.
    """
    lineage = parse_leader_epochs(data.decode("utf-8", "replace"), name=name)
    if epochs_in_range(lineage, *copy.bounds) != copy.leader_epochs:
        raise CorruptDataError(
            f"{name}: the leader epochs {lineage} contradict the manifest, which has {copy.leader_epochs}"
        )
    return lineage
