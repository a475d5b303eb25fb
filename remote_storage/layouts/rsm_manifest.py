"""The `rsm-manifest` of the Aiven plugin: one line of JSON that says where in the other two objects everything is.

    version                       "1"
    chunkIndex                    see chunk_index; ours is "fixed", its chunks the same bytes before and after
    segmentIndexes                offset, timestamp, producerSnapshot, leaderEpoch, transaction: each {position, size}
                                  in the indexes object; transaction is null without one, and the key is there
    compression                   whether each chunk is compressed with zstd; ours are not
    encryption                    left out, or an object where chunks and indexes are encrypted
    remoteLogSegmentMetadata      the plugin writes it and does not read it; here it says which offsets the copy holds

Follows io.aiven.kafka.tieredstorage.manifest.SegmentManifestV1, whose reader refuses any other property.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.layouts import chunk_index
from tiersnap.remote_storage.layouts.chunk_index import MAX_CHUNK_SIZE, MAX_FILE_SIZE, ChunkIndex
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.remote_storage.stores.strict_json import (
    below,
    integer,
    parse_object,
    text,
)
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.units import count_of

NAMES = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}
_LARGEST_OFFSET = (1 << 63) - 1
_EPOCH = re.compile("[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class RsmManifest:
    """What it says of its segment.

    Attributes:
        metadata: as COPY_SEGMENT_FINISHED.
        indexes: position and size in bytes in the indexes object; None for no transaction index.
        chunks: where the chunks lie in the log object.
        is_compressed, is_encrypted: what was done to each chunk; without either the object is the segment file.
    """

    metadata: RemoteLogSegmentMetadata
    indexes: Mapping[IndexType, tuple[int, int] | None]
    chunks: ChunkIndex
    is_compressed: bool
    is_encrypted: bool

    @property
    def file_size(self) -> int:
        """Bytes of the segment file."""
        return self.chunks.file_size

    @property
    def log_size(self) -> int:
        """Bytes of the log object."""
        return self.chunks.object_size

    @property
    def indexes_size(self) -> int:
        """Bytes of the indexes object."""
        return max((place[0] + place[1] for place in self.indexes.values() if place), default=0)


def encode(metadata: RemoteLogSegmentMetadata, index_sizes: Mapping[IndexType, int], *, chunk_size: int) -> bytes:
    """The manifest of an uncompressed, unencrypted segment; an index that is not in `index_sizes` is null."""
    file_size = metadata.segment_size
    if not 0 < file_size <= MAX_FILE_SIZE or not 0 < chunk_size <= MAX_CHUNK_SIZE:
        raise RemoteStorageError(
            f"no manifest for a segment of {count_of(file_size, 'byte')} in chunks of {chunk_size}"
        )
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
    """A manifest of ours or of the plugin; also of a segment that only the plugin can read, since that is a copy, too.

    Raises:
        CorruptDataError: not such a manifest, or its numbers cannot be.
    """
    found = parse_object(data, name=name)
    try:
        is_compressed, is_encrypted = below(found, "compression"), found.get("encryption") is not None
        if not isinstance(is_compressed, bool):
            raise ValueError(f"compression is {str(is_compressed)[:40]!r}")  # noqa: TRY301, TRY004 - of the data
        chunks = chunk_index.decode(below(found, "chunkIndex"))
        if not (is_compressed or is_encrypted) and chunks.object_size != chunks.file_size:
            raise ValueError(f"{count_of(chunks.object_size, 'byte')} of chunks, and {chunks.file_size} of the file")  # noqa: TRY301
        places = {index: _place(found, index) for index in IndexType}
        metadata = _read_metadata(below(found, "remoteLogSegmentMetadata"), chunks.file_size)
    except (ValueError, InvalidKeyError) as error:
        raise CorruptDataError(
            f"{name}: not an rsm-manifest: {error}",
            hint="the copy is not used; look at the object, and copy the segment again if the broker has it still",
        ) from error
    return RsmManifest(metadata, places, chunks, is_compressed, is_encrypted)


def _place(manifest: object, index: IndexType) -> tuple[int, int] | None:
    found = below(manifest, "segmentIndexes", NAMES[index])
    if found is None and index is IndexType.TRANSACTION:
        return None
    position, size = (integer(below(found, name), bits=32, least=0) for name in ("position", "size"))
    return position, size


def _read_metadata(found: object, size: int) -> RemoteLogSegmentMetadata:
    at = below(found, "remoteLogSegmentId", "topicIdPartition")
    start, end = integer(below(found, "startOffset"), least=0), integer(below(found, "endOffset"), least=0)
    if end == _LARGEST_OFFSET:  # its end, exclusive, is no offset
        raise ValueError(f"a segment up to {end}")
    epochs = below(found, "segmentLeaderEpochs")
    if not isinstance(epochs, dict):
        raise ValueError(f"leader epochs {str(epochs)[:40]!r}")  # noqa: TRY004 - of the data
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId(
            text(below(at, "topicPartition", "topic")),
            text(below(at, "topicId")),
            integer(below(at, "topicPartition", "partition"), bits=32, least=0),
            text(below(found, "remoteLogSegmentId", "id")),
        ),
        start_offset=start,
        end_offset=end,
        broker_id=integer(below(found, "brokerId"), bits=32, least=-1),
        max_timestamp=integer(below(found, "maxTimestampMs")),
        event_timestamp=integer(below(found, "eventTimestampMs")),
        segment_leader_epochs=_leader_epochs(epochs, start, end),
        segment_size=size,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )


def _leader_epochs(found: Mapping[str, object], start: int, end: int) -> LeaderEpochs:
    if not all(_EPOCH.fullmatch(epoch) for epoch in found):
        raise ValueError("a leader epoch that is no number")
    epochs = sorted((integer(int(epoch), bits=32), integer(first, least=start)) for epoch, first in found.items())
    if (epochs[-1:] and epochs[-1][1] > end) or any(after[1] < before[1] for before, after in pairwise(epochs)):
        raise ValueError(f"leader epochs {epochs[:4]} of a segment of [{start}, {end}]")
    return tuple(epochs)
