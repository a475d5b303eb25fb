"""The `rsm-manifest` of the Aiven plugin: one line of JSON with the positions of all parts in the other two objects.

    version                       "1"
    chunkIndex                    see chunk_index; tiersnap writes a "fixed" one, with untransformed chunks
    segmentIndexes                offset, timestamp, producerSnapshot, leaderEpoch, transaction: each {position, size}
                                  in the indexes object; null for a missing transaction index
    compression                   true if each chunk is compressed with zstd; tiersnap writes false
    encryption                    an object if chunks and indexes are encrypted, else absent
    remoteLogSegmentMetadata      the segment's metadata, with its offsets; the plugin writes it and never reads it,
                                  tiersnap reads it

Follows io.aiven.kafka.tieredstorage.manifest.SegmentManifestV1, whose reader refuses unknown properties.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.layouts import chunk_index
from tiersnap.remote_storage.layouts.chunk_index import MAX_CHUNK_SIZE, MAX_FILE_SIZE, ChunkIndex
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentId, RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.stores.small_object import MANIFEST_BYTES
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch, LeaderEpochs
from tiersnap.snapshot.json_decoder import decoder
from tiersnap.snapshot.units import count_of, human_bytes

NAMES = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}
LARGEST_LONG = (1 << 63) - 1
_SHOWN = 200
Int = Annotated[int, Meta(ge=0, lt=1 << 31)]
Long = Annotated[int, Meta(ge=-(1 << 63), le=LARGEST_LONG)]
Offset = Annotated[int, Meta(ge=0, le=LARGEST_LONG)]


@dataclass(frozen=True, slots=True)
class RsmManifest:
    """The content of a manifest."""

    metadata: RemoteLogSegmentMetadata  # in the state COPY_SEGMENT_FINISHED
    # Position and size in bytes in the indexes object; None for a missing transaction index.
    indexes: Mapping[IndexType, tuple[int, int] | None]
    chunks: ChunkIndex  # positions of the chunks in the log object
    # Transformations of each chunk. If both are false, the log object equals the segment file.
    is_compressed: bool
    is_encrypted: bool

    @property
    def file_size(self) -> int:
        """Return the size of the segment file in bytes."""
        return self.chunks.file_size

    @property
    def log_size(self) -> int:
        """Return the size of the log object in bytes."""
        return self.chunks.object_size

    @property
    def indexes_size(self) -> int:
        """Return the size of the indexes object in bytes."""
        places = filter(None, self.indexes.values())  # (position, size) of each index
        return max(map(sum, places), default=0)


def encode(metadata: RemoteLogSegmentMetadata, index_sizes: Mapping[IndexType, int], *, chunk_size: int) -> bytes:
    """Return the manifest of an uncompressed, unencrypted segment. Indexes that are not in `index_sizes` are null."""
    file_size = metadata.segment_size
    if not 0 < file_size <= MAX_FILE_SIZE or not 0 < chunk_size <= MAX_CHUNK_SIZE:
        raise RemoteStorageError(
            f"a manifest of the plugin cannot describe a segment of {count_of(file_size, 'byte')} in chunks of "
            f"{count_of(chunk_size, 'byte')}"
        )
    position = 0
    indexes: dict[str, dict[str, int] | None] = {}
    for index in IndexType:
        indexes[NAMES[index]] = None
        if index in index_sizes:
            indexes[NAMES[index]] = {"position": position, "size": index_sizes[index]}
            position += index_sizes[index]
    manifest = {
        "version": "1",
        "chunkIndex": {
            "type": "fixed",
            "originalChunkSize": chunk_size,
            "originalFileSize": file_size,
            "transformedChunkSize": chunk_size,
            "finalTransformedChunkSize": file_size % chunk_size or chunk_size,
        },
        "segmentIndexes": indexes,
        "compression": False,
        "remoteLogSegmentMetadata": _metadata(metadata),
    }
    return json.dumps(manifest, separators=(",", ":")).encode("utf-8")


def _metadata(metadata: RemoteLogSegmentMetadata) -> dict[str, object]:
    segment_id = metadata.id
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": segment_id.topic_id,
                "topicPartition": {"topic": segment_id.topic, "partition": segment_id.partition},
            },
            "id": segment_id.segment_id,
        },
        "startOffset": metadata.start_offset,
        "endOffset": metadata.end_offset,
        "maxTimestampMs": metadata.max_timestamp,
        "brokerId": metadata.broker_id,
        "eventTimestampMs": metadata.event_timestamp,
        "segmentLeaderEpochs": {str(epoch): start for epoch, start in metadata.segment_leader_epochs},
    }


class _Part(Struct, rename="camel"):
    """A part of a manifest. Unknown properties are ignored."""


class _Place(_Part):
    position: Int
    size: Int


class _TopicPartition(_Part):
    topic: str
    partition: Int


class _TopicIdPartition(_Part):
    topic_id: str
    topic_partition: _TopicPartition


class _SegmentId(_Part):
    topic_id_partition: _TopicIdPartition
    id: str


class _Metadata(_Part):
    remote_log_segment_id: _SegmentId
    start_offset: Offset
    end_offset: Annotated[int, Meta(ge=0, lt=LARGEST_LONG)]  # inclusive; the exclusive end must be an offset, too
    max_timestamp_ms: Long
    broker_id: Annotated[int, Meta(ge=-1, lt=1 << 31)]
    event_timestamp_ms: Long
    segment_leader_epochs: dict[Annotated[str, Meta(pattern="^[0-9]{1,10}$")], Offset]


class _Manifest(_Part):
    chunk_index: dict[str, str | int]
    segment_indexes: dict[str, _Place | None]
    compression: bool
    remote_log_segment_metadata: _Metadata
    encryption: msgspec.Raw = msgspec.Raw(b"null")


def decode(data: bytes, *, name: str) -> RsmManifest:
    """Return the content of a manifest that tiersnap or the plugin wrote. The segment may be compressed or encrypted.

    Raises:
        CorruptDataError: `data` is not a manifest, or contains impossible numbers.
    """
    try:
        return _read(data)
    except (ValueError, RecursionError, InvalidKeyError) as error:
        raise CorruptDataError(
            f"{name}: not a manifest of the plugin (rsm-manifest): {str(error)[:_SHOWN]}",
            hint="tiersnap ignores this remote segment; if a broker still has the local segment, upload it again",
        ) from error


def _read(data: bytes) -> RsmManifest:
    if len(data) > MANIFEST_BYTES:
        raise ValueError(f"the manifest has {human_bytes(len(data))}, more than the limit of {MANIFEST_BYTES} bytes")
    found = decoder(_Manifest).decode(data)
    is_encrypted = bytes(found.encryption) != b"null"
    chunks = chunk_index.decode(found.chunk_index)
    if not (found.compression or is_encrypted) and chunks.object_size != chunks.file_size:
        raise ValueError(f"the chunks have {count_of(chunks.object_size, 'byte')}, but the file has {chunks.file_size}")
    places = {index: _place(found.segment_indexes, index) for index in IndexType}
    metadata = _read_metadata(found.remote_log_segment_metadata, chunks.file_size)
    return RsmManifest(metadata, places, chunks, found.compression, is_encrypted)


def _place(indexes: Mapping[str, _Place | None], index: IndexType) -> tuple[int, int] | None:
    if NAMES[index] not in indexes:
        raise ValueError(f"no {NAMES[index]!r}")
    place = indexes[NAMES[index]]
    if place is None and index is not IndexType.TRANSACTION:
        raise ValueError(f"{NAMES[index]!r} is null")
    if place is None:
        return None
    return place.position, place.size


def _read_metadata(found: _Metadata, size: int) -> RemoteLogSegmentMetadata:
    at = found.remote_log_segment_id.topic_id_partition
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId(
            at.topic_partition.topic, at.topic_id, at.topic_partition.partition, found.remote_log_segment_id.id
        ),
        start_offset=found.start_offset,
        end_offset=found.end_offset,
        broker_id=found.broker_id,
        max_timestamp=found.max_timestamp_ms,
        event_timestamp=found.event_timestamp_ms,
        segment_leader_epochs=_leader_epochs(found.segment_leader_epochs, found.start_offset, found.end_offset),
        segment_size=size,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )


def _leader_epochs(found: Mapping[str, int], start: int, end: int) -> LeaderEpochs:
    epochs = sorted(LeaderEpoch(int(epoch), first) for epoch, first in found.items())
    if any(epoch >= 1 << 31 or first < start for epoch, first in epochs):
        raise ValueError(f"the leader epochs {epochs[:4]} do not fit a segment that starts at offset {start}")
    if (epochs[-1:] and epochs[-1][1] > end) or any(after[1] < before[1] for before, after in pairwise(epochs)):
        raise ValueError(f"the leader epochs {epochs[:4]} do not fit a segment from offset {start} to {end}")
    return tuple(epochs)
