"""The remote segment of one attempt, if all its objects exist in the right sizes.

With the Aiven layout the rsm-manifest describes the objects. LocalTieredStorage has no manifest, so the end offset is
read from the end of the log, and the leader epochs from their file.
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
    """A complete remote segment; offsets are inclusive for the start, exclusive for the end."""

    objects: SegmentObjects  # as they were listed
    # without a manifest broker_id and max_timestamp are -1, and event_timestamp is the last object's time
    metadata: RemoteLogSegmentMetadata
    # position and size of each index in the indexes object; None if each index is an object
    places: Mapping[IndexType, tuple[int, int] | None] | None
    # of a segment that the plugin compressed; None if the log object is the segment file
    chunks: ChunkIndex | None = None
    is_encrypted: bool = False  # only the plugin can read it
    claim: Claim | None = None  # our claim that names the attempt; None without one, or if it was not read
    # whether a broker uploaded it: no claim of ours names it, and its manifest, if it has one, names a broker
    is_brokers: bool = False

    @property
    def segment_id(self) -> str:
        """Return the id of the attempt that wrote it."""
        return self.metadata.id.segment_id

    @property
    def start_offset(self) -> int:
        """Base offset."""
        return self.metadata.start_offset

    @property
    def end_offset(self) -> int:
        """Exclusive."""
        return self.metadata.end_offset + 1

    @property
    def bounds(self) -> tuple[int, int]:
        """First offset and the exclusive end."""
        return self.start_offset, self.end_offset

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """(epoch, first offset in this segment), ascending."""
        return self.metadata.segment_leader_epochs

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of its objects; the first one makes it visible."""
        return self.objects.keys

    @property
    def written_at(self) -> int:
        """Return when its last object was written: ms, by the store's clock."""
        return self.objects.modified

    @property
    def claimed_as(self) -> ClaimedSegment:
        """Return the segment as claims name it."""
        return ClaimedSegment(self.metadata.id.topic_id_partition, self.start_offset, self.leader_epochs[-1][0])

    @property
    def is_unfinished(self) -> bool:
        """Return whether it is ours and was never finished: it does not count before an attempt finishes it."""
        return self.claim is not None and self.claim.finished is None and not self.claim.was_finished(self.segment_id)

    @property
    def attempt(self) -> tuple[int, str]:
        """Return what orders attempts: the time (ms) of the newest event, and the segment id."""
        return self.metadata.event_timestamp, self.segment_id

    @property
    def facts(self) -> CopyFacts:
        """Return the facts that coverage takes."""
        return CopyFacts(self.start_offset, self.end_offset, self.leader_epochs, is_complete=True)

    @property
    def layout(self) -> Layout:
        """Return its layout."""
        return LocalTieredStorageLayout() if self.places is None else AivenLayout()


@dataclass(frozen=True, slots=True)
class IncompleteSegment:
    """Objects of one segment id that are no complete remote segment, or do not count as one."""

    segment_id: str
    start_offset: int
    problem: str  # why
    # as they were listed; None if only a record names the segment
    objects: SegmentObjects | None = None
    claim: Claim | None = None  # of ours that names the attempt; None if none does, or none was read
    claimed_as: ClaimedSegment | None = None  # the segment of that claim
    end_offset: int | None = None  # exclusive; None if it is unknown

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of its objects; the first one makes it visible."""
        return () if self.objects is None else self.objects.keys

    @property
    def written_at(self) -> int:
        """Return when its last object was written: ms, by the store's clock."""
        return 0 if self.objects is None else self.objects.modified

    @property
    def is_visible(self) -> bool:
        """Return whether the object that makes it visible exists: the segment is damaged, or is being deleted."""
        return self.objects is not None and self.objects.is_visible

    @property
    def is_somebodys(self) -> bool:
        """Return whether a broker may be copying it, which its age decides."""
        return self.claim is None and not self.is_visible


def read_segment(
    store: ObjectStore, objects: SegmentObjects, known: KnownManifests | None = None
) -> RemoteSegment | IncompleteSegment:
    """Return the remote segment that consists of listed objects, or why it is incomplete.

    It takes one request, three for LocalTieredStorage, none if the manifest is known or a mandatory object is missing.
    """
    try:
        _check_all_there(objects)
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
                f"{objects[kind].key} has {count_of(objects[kind].size, 'byte')}, its manifest says {size}"
            )
    metadata = manifest.metadata
    expected = _segment_id(attempt.partition, attempt.segment_id)
    _refuse_prefix_without_slash(known.store, metadata.id, expected)
    if (metadata.id, metadata.start_offset) != (expected, attempt.start_offset):
        raise CorruptDataError(
            f"{known.store.uri}{listed.key}: tells of {metadata.id} from offset {metadata.start_offset}"
        )
    chunks = manifest.chunks if manifest.is_compressed else None
    return RemoteSegment(attempt, metadata, manifest.indexes, chunks, manifest.is_encrypted)


def _refuse_prefix_without_slash(store: ObjectStore, told: RemoteLogSegmentId, named: RemoteLogSegmentId) -> None:
    """Raise RemoteStorageError if a key names the plugin's key.prefix and the topic as one word."""
    prefix = named.topic.removesuffix(told.topic)
    if prefix and prefix != named.topic and replace(named, topic=told.topic) == told:
        raise RemoteStorageError(
            f"{store.uri}: the keys of brokers begin with {prefix!r}, which does not end with /",
            hint="tiersnap reads a key.prefix that ends with /",
        )


def _local_segment(store: ObjectStore, attempt: SegmentObjects) -> RemoteSegment:
    objects, start_offset = attempt.objects, attempt.start_offset
    log, epochs = objects[KeyKind.LOCAL_LOG], objects[KeyKind.LOCAL_LEADER_EPOCHS]
    if not 0 < log.size <= _LARGEST_SEGMENT:
        raise CorruptDataError(f"{log.key}: no segment has {count_of(log.size, 'byte')}")
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


def _check_all_there(attempt: SegmentObjects) -> None:
    if attempt.missing:
        missing = " and no ".join(attempt.missing)
        raise CorruptDataError(f"no {missing}: a copy that was not finished, or lost an object")


def _segment_id(partition: TopicIdPartition, segment_id: str) -> RemoteLogSegmentId:
    if partition.topic_id is None:
        raise TiersnapError(f"{partition}: remote segments have a topic id")
    return RemoteLogSegmentId.of(partition, segment_id)


def newest(copies: Sequence[RemoteSegment]) -> RemoteSegment:
    """The copy whose leader epochs are the lineage: of the highest epoch, then the highest end, then the latest."""
    return max(copies, key=lambda copy: (copy.metadata.segment_leader_epochs[-1][0], copy.end_offset, *copy.attempt))


def read_indexes(
    store: ObjectStore, copy: RemoteSegment, wanted: Collection[IndexType] = tuple(IndexType)
) -> dict[IndexType, bytes | None]:
    """Return the indexes of a remote segment by one request, or by one each for LocalTieredStorage.

    The value is None for a transaction index that the segment never had.

    Args:
        wanted: all indexes by default; else only the bytes from the first of these to the last are read.

    Raises:
        ObjectNotFoundError: an object of the segment is gone.
        CorruptDataError: an object is shorter than its manifest says, or differs from the stored one.
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
            raise CorruptDataError(f"{store.uri}{key}: {index} ends after {end}", key=key)
        return found

    return {index: cut(index, place) for index, place in places.items()}


def read_lineage(store: ObjectStore, copy: RemoteSegment) -> LeaderEpochs:
    """Return the leader epochs of the partition below the segment's end, as they were when it was uploaded.

    Only the manifest of an encrypted segment can be read, so it has the epochs of the segment.

    Raises:
        CorruptDataError: not a leader-epoch-checkpoint, or not the epochs that the copy's manifest tells.
    """
    if copy.is_encrypted:
        return copy.metadata.segment_leader_epochs
    name = f"{store.uri}{copy.layout.log_key(copy.metadata)}: leader epochs"
    return decode_lineage(copy, read_indexes(store, copy)[IndexType.LEADER_EPOCH] or b"", name=name)


def decode_lineage(copy: RemoteSegment, data: bytes, *, name: str) -> LeaderEpochs:
    """Return the leader epochs in a copy's leader-epoch-checkpoint.

    Raises:
        CorruptDataError: not a leader-epoch-checkpoint, or not the epochs that the copy's manifest tells.
    """
    lineage = parse_leader_epochs(data.decode("utf-8", "replace"), name=name)
    if epochs_in_range(lineage, *copy.bounds) != copy.leader_epochs:
        raise CorruptDataError(f"{name}: {lineage} are not those of the manifest {copy.leader_epochs}")
    return lineage
