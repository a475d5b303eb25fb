"""What a store holds of a partition's segments, from its objects alone: no warehouse, no `__remote_log_metadata`.

Every object of one segment id is one copy of one segment. A copy counts only if it is complete: all its objects are
there in the sizes that they must have. With the Aiven layout the rsm-manifest says the rest. LocalTieredStorage has no
manifest: there the end offset is read from the end of the log, and the leader epochs from their file.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tiersnap.remote_storage.errors import EncryptedSegmentError, InvalidKeyError, ObjectNotFoundError
from tiersnap.remote_storage.layouts import rsm_manifest
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.chunk_index import ChunkIndex
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.layouts.layout import IndexType, Layout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.metadata.manifest_segments import decode_metadata
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.small_object import INDEXES_BYTES, get_small
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.upload.bundle import epochs_in_range
from tiersnap.snapshot.errors import CorruptDataError, CorruptIndexError, TiersnapError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs, parse_leader_epochs
from tiersnap.snapshot.formats.indexes import decode_offset_index, position_of

_REQUESTS_AT_ONCE = 8
_KEYS = ObjectKeys()
_AIVEN_KINDS = (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST)
_TAIL_BYTES = 1 << 20
_HEADER = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta


@dataclass(frozen=True, slots=True)
class RemoteCopy:
    """A complete copy of a segment.

    Attributes:
        metadata: broker_id and max_timestamp are -1, and event_timestamp is when the last object was written, where
            there is no manifest to say it.
        places: where each index is in the indexes object; None where each is an object of its own.
        chunks: of a log object that the plugin compressed; None where the object is the segment file.
    """

    metadata: RemoteLogSegmentMetadata
    places: Mapping[IndexType, tuple[int, int] | None] | None
    chunks: ChunkIndex | None = None

    @property
    def segment_id(self) -> str:
        """The attempt that wrote it."""
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
    def layout(self) -> Layout:
        """How it lies in the store."""
        return LocalTieredStorageLayout(_KEYS) if self.places is None else AivenLayout(_KEYS)


@dataclass(frozen=True, slots=True)
class UnusableCopy:
    """Objects of a segment id that are no copy, and why."""

    segment_id: str
    start_offset: int
    problem: str


@dataclass(frozen=True, slots=True)
class RemotePartition:
    """All that a store has of one partition; both in ascending start offset, then segment id."""

    partition: TopicIdPartition
    copies: tuple[RemoteCopy, ...]
    unusable: tuple[UnusableCopy, ...]


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """Objects by segment id and kind, not looked into yet."""

    partition: TopicIdPartition
    is_local: bool
    objects: Mapping[tuple[int, str], Mapping[KeyKind, ObjectInfo]]


def list_partitions(
    store: ObjectStore,
    topic: str,
    *,
    topic_id: str | None = None,
    partition: int | None = None,
    local: bool | None = None,
) -> tuple[ListedPartition, ...]:
    """Partitions of `topic` with any object of a segment, by topic id and number.

    Args:
        local: only LocalTieredStorage's objects, or only the others; None takes both.
    """
    found: dict[tuple[TopicIdPartition, bool], dict[tuple[int, str], dict[KeyKind, ObjectInfo]]] = defaultdict(dict)
    for is_local in (False, True) if local is None else (local,):
        for info in store.list(_prefix(topic, topic_id, partition, local=is_local)):
            key = _KEYS.recognise(info.key)
            if key is None or key.kind.is_local is not is_local or key.offset is None or key.segment_id is None:
                continue
            at = key.partition
            if (at.topic, at.topic_id) == (topic, topic_id or at.topic_id) and partition in (None, at.partition):
                found[at, is_local].setdefault((key.offset, key.segment_id), {})[key.kind] = info
    ordered = sorted(found, key=lambda each: (each[0].topic_id or "", each[0].partition, each[1]))
    return tuple(ListedPartition(at, is_local, found[at, is_local]) for at, is_local in ordered)


def _prefix(topic: str, topic_id: str | None, partition: int | None, *, local: bool) -> str:
    if topic_id is None or partition is None:
        return _KEYS.topic(topic, local=local)
    return _KEYS.partition_segments(TopicIdPartition(topic, topic_id, partition), local=local)


def read_copies(store: ObjectStore, listed: ListedPartition) -> RemotePartition:
    """Look into what was listed: which copies are complete, and what offsets they hold."""
    look = _local_copy if listed.is_local else _aiven_copy
    attempts = sorted(listed.objects)

    def read(attempt: tuple[int, str]) -> RemoteCopy | UnusableCopy:
        start_offset, segment_id = attempt
        try:
            return look(store, listed, start_offset, segment_id)
        except (CorruptDataError, EncryptedSegmentError, ObjectNotFoundError, InvalidKeyError) as error:
            return UnusableCopy(segment_id, start_offset, error.message)

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        results = list(pool.map(read, attempts))
    return RemotePartition(
        listed.partition,
        tuple(each for each in results if isinstance(each, RemoteCopy)),
        tuple(each for each in results if isinstance(each, UnusableCopy)),
    )


def read_indexes(store: ObjectStore, copy: RemoteCopy) -> dict[IndexType, bytes | None]:
    """All indexes of a copy; None for a transaction index that it never had.

    Raises:
        ObjectNotFoundError: an object of the copy is gone.
        CorruptDataError: it is shorter than its manifest says, or not what was stored.
    """
    if copy.places is None:
        return {index: copy.layout.fetch_index(store, copy.metadata, index) for index in IndexType}
    key = _KEYS.segment(KeyKind.INDEXES, copy.metadata)
    size = max(place[0] + place[1] for place in copy.places.values() if place)
    data = get_small(store, ObjectInfo(key, size, None, 0), limit=INDEXES_BYTES)
    indexes: dict[IndexType, bytes | None] = {}
    for index, place in copy.places.items():
        indexes[index] = None if place is None else data[place[0] : place[0] + place[1]]
        if place is not None and len(indexes[index] or b"") != place[1]:
            raise CorruptDataError(f"{store.uri}{key}: {index} ends after {len(data)} bytes", key=key)
    return indexes


def read_lineage(store: ObjectStore, copy: RemoteCopy) -> LeaderEpochs:
    """The leader epochs of the partition as they were when the copy was made, all that began below its end.

    Raises:
        CorruptDataError: not a leader-epoch-checkpoint, or not the epochs that the copy's manifest tells.
    """
    name = f"{store.uri}{copy.layout.log_key(copy.metadata)}: leader epochs"
    data = read_indexes(store, copy)[IndexType.LEADER_EPOCH] or b""
    lineage = parse_leader_epochs(data.decode("utf-8", "replace"), name=name)
    if epochs_in_range(lineage, copy.start_offset, copy.end_offset) != copy.metadata.segment_leader_epochs:
        raise CorruptDataError(f"{name} {lineage} are not those of the manifest {copy.metadata.segment_leader_epochs}")
    return lineage


def _aiven_copy(store: ObjectStore, listed: ListedPartition, start_offset: int, segment_id: str) -> RemoteCopy:
    objects = listed.objects[start_offset, segment_id]
    _check_all_there(objects, _AIVEN_KINDS)
    manifest = objects[KeyKind.RSM_MANIFEST]
    name, data = store.uri + manifest.key, get_small(store, manifest)
    decoded = rsm_manifest.decode(data, name=name)
    for kind, size in ((KeyKind.LOG, decoded.log_size), (KeyKind.INDEXES, decoded.indexes_size)):
        if objects[kind].size != size:
            raise CorruptDataError(f"{objects[kind].key} has {objects[kind].size} bytes, its manifest says {size}")
    metadata = decode_metadata(data, name=name)
    expected = _segment_id(listed.partition, segment_id)
    if (metadata.id, metadata.start_offset) != (expected, start_offset):
        raise CorruptDataError(f"{name}: tells of {metadata.id} from offset {metadata.start_offset}")
    return RemoteCopy(metadata, decoded.indexes, decoded.chunks)


def _local_copy(store: ObjectStore, listed: ListedPartition, start_offset: int, segment_id: str) -> RemoteCopy:
    objects = listed.objects[start_offset, segment_id]
    mandatory = [kind for kind in KeyKind if kind.is_local and kind is not KeyKind.LOCAL_TRANSACTION_INDEX]
    _check_all_there(objects, mandatory)
    log, epochs = objects[KeyKind.LOCAL_LOG], objects[KeyKind.LOCAL_LEADER_EPOCHS]
    end_offset = _last_offset(store, objects, start_offset) + 1
    text = get_small(store, epochs).decode("utf-8", "replace")
    segment_epochs = epochs_in_range(parse_leader_epochs(text, name=epochs.key), start_offset, end_offset)
    metadata = RemoteLogSegmentMetadata(
        id=_segment_id(listed.partition, segment_id),
        start_offset=start_offset,
        end_offset=end_offset - 1,
        broker_id=-1,
        max_timestamp=-1,
        event_timestamp=max(info.modified for info in objects.values()),
        segment_leader_epochs=segment_epochs,
        segment_size=log.size,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )
    return RemoteCopy(metadata, None)


def _last_offset(store: ObjectStore, objects: Mapping[KeyKind, ObjectInfo], start_offset: int) -> int:
    """Last offset of a segment, by its offset index and the batches behind the last indexed one."""
    log, index = objects[KeyKind.LOCAL_LOG], objects[KeyKind.LOCAL_OFFSET_INDEX]
    try:
        data = get_small(store, index, limit=INDEXES_BYTES)
        entries = decode_offset_index(data, base_offset=start_offset, name=index.key)
        position = position_of(entries, (1 << 63) - 1)
    except CorruptIndexError:
        position = 0
    last_offset, begins, window = -1, position, b""
    while position < log.size:
        if position + _HEADER.size > begins + len(window):
            begins, window = position, store.get_range(log.key, position, _TAIL_BYTES)
        if len(window) - (position - begins) < _HEADER.size:
            break
        base_offset, length, magic, delta = _HEADER.unpack_from(window, position - begins)
        last_offset = base_offset + (delta if magic >= 2 else 0)
        position += 12 + max(length, 0)
    if position != log.size or last_offset < start_offset:
        raise CorruptDataError(f"{log.key}: its last batch ends at byte {position} of {log.size}")
    return int(last_offset)


def _check_all_there(objects: Mapping[KeyKind, ObjectInfo], kinds: Iterable[KeyKind]) -> None:
    missing = [kind.suffix for kind in kinds if kind not in objects]
    if missing:
        raise CorruptDataError(f"no {' and no '.join(missing)}: a copy that was not finished, or lost an object")


def _segment_id(partition: TopicIdPartition, segment_id: str) -> RemoteLogSegmentId:
    if partition.topic_id is None:
        raise TiersnapError(f"{partition}: remote segments have a topic id")
    return RemoteLogSegmentId(partition.topic, partition.topic_id, partition.partition, segment_id)
