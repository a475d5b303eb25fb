"""The `rsm-manifest` of the Aiven plugin: one line of JSON that says where in the other two objects everything is.

    version                       "1"
    chunkIndex                    see chunk_index; ours is "fixed", its chunks the same bytes before and after
    segmentIndexes                offset, timestamp, producerSnapshot, leaderEpoch, transaction: each {position, size}
                                  in the indexes object; transaction is null without one, and the key is there
    compression                   whether each chunk is compressed with zstd; ours are not
    encryption                    left out, or an object where chunks and indexes are encrypted
    remoteLogSegmentMetadata      for people: the plugin writes it and does not read it

Follows io.aiven.kafka.tieredstorage.manifest.SegmentManifestV1, whose reader refuses any other property.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.errors import EncryptedSegmentError
from tiersnap.remote_storage.layouts import chunk_index
from tiersnap.remote_storage.layouts.chunk_index import MAX_CHUNK_SIZE, MAX_FILE_SIZE, ChunkIndex
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.strict_json import below, parse_object, whole
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError

NAMES = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}


@dataclass(frozen=True, slots=True)
class RsmManifest:
    """What a reader needs of it.

    Attributes:
        file_size: bytes of the segment file.
        indexes: position and size in bytes in the indexes object; None for no transaction index.
        chunks: where the compressed chunks lie in the log object; None where the object is the segment file.
    """

    file_size: int
    indexes: Mapping[IndexType, tuple[int, int] | None]
    chunks: ChunkIndex | None = None

    @property
    def log_size(self) -> int:
        """Bytes of the log object."""
        return self.file_size if self.chunks is None else self.chunks.object_size

    @property
    def indexes_size(self) -> int:
        """Bytes of the indexes object."""
        return max((place[0] + place[1] for place in self.indexes.values() if place), default=0)


def encode(metadata: RemoteLogSegmentMetadata, index_sizes: Mapping[IndexType, int], *, chunk_size: int) -> bytes:
    """The manifest of an uncompressed, unencrypted segment; an index that is not in `index_sizes` is null."""
    file_size = metadata.segment_size
    if not 0 < file_size <= MAX_FILE_SIZE or not 0 < chunk_size <= MAX_CHUNK_SIZE:
        raise RemoteStorageError(f"no manifest for a segment of {file_size} bytes in chunks of {chunk_size}")
    position = 0
    indexes: dict[str, dict[str, int] | None] = {}
    for index in IndexType:
        size = index_sizes.get(index)
        indexes[NAMES[index]] = None if size is None else {"position": position, "size": size}
        position += size or 0
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


def decode(data: bytes, *, name: str) -> RsmManifest:
    """A manifest of ours or of the plugin.

    Raises:
        CorruptDataError: not such a manifest, or its numbers contradict each other.
        EncryptedSegmentError: of an encrypted segment, which only the plugin can read.
    """
    manifest = parse_object(data, name=name)
    if manifest.get("encryption") is not None:
        raise EncryptedSegmentError(
            f"{name}: the segment is encrypted by the plugin", hint="read it through a broker that has the plugin's key"
        )
    try:
        is_compressed = below(manifest, "compression")
        chunks = chunk_index.decode_of_copy(below(manifest, "chunkIndex"), is_compressed=is_compressed)
        places = {index: _place(manifest, index) for index in IndexType}
    except ValueError as error:
        raise CorruptDataError(f"{name}: not an rsm-manifest: {error}", hint="the segment is not readable") from error
    return RsmManifest(chunks.file_size, places, chunks if is_compressed else None)


def _place(manifest: object, index: IndexType) -> tuple[int, int] | None:
    found = below(manifest, "segmentIndexes", NAMES[index])
    if found is None and index is IndexType.TRANSACTION:
        return None
    position, size = (whole(below(found, name), bits=32, least=0) for name in ("position", "size"))
    return position, size
