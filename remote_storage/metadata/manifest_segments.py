"""Finished remote segments as the manifests in a store tell them: KIP-405 metadata without any table.

A `.rsm-manifest` stands for a complete segment and holds its metadata as `remoteLogSegmentMetadata`; see rsm_manifest
for the rest of it.

    remoteLogSegmentId      topicIdPartition {topicId, topicPartition {topic, partition}}, id
    startOffset, endOffset  inclusive
    maxTimestampMs, brokerId, eventTimestampMs
    segmentLeaderEpochs     {"epoch": start offset}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.remote_storage.small_object import get_small
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.strict_json import below, parse_object, text, whole
from tiersnap.snapshot.errors import CorruptDataError


def segments_in_store(
    store: ObjectStore, keys: ObjectKeys, is_wanted: Callable[[str], bool]
) -> Iterator[RemoteLogSegmentMetadata]:
    """Every finished segment of the topics that `is_wanted` takes, in key order.

    Raises:
        CorruptDataError: a manifest that holds no metadata, or that of another segment.
    """
    for found in store.list(keys.prefix):
        key = keys.recognise(found.key)
        if key is None or key.kind is not KeyKind.RSM_MANIFEST or not is_wanted(key.partition.topic):
            continue
        metadata = decode_metadata(get_small(store, found), name=store.uri + found.key)
        if (metadata.id.topic_id_partition, metadata.id.segment_id) != (key.partition, key.segment_id):
            raise CorruptDataError(f"{store.uri}{found.key}: the manifest of {metadata.id}")
        yield metadata


def decode_metadata(data: bytes, *, name: str) -> RemoteLogSegmentMetadata:
    """The metadata in a manifest, as COPY_SEGMENT_FINISHED.

    Raises:
        CorruptDataError: it has none, or not of this form.
    """
    try:
        manifest = parse_object(data, name=name)
        found = below(manifest, "remoteLogSegmentMetadata")
        at = below(found, "remoteLogSegmentId", "topicIdPartition")
        epochs = below(found, "segmentLeaderEpochs")
        if not isinstance(epochs, dict) or not epochs:
            raise ValueError("no leader epochs")  # noqa: TRY301
        return RemoteLogSegmentMetadata(
            id=RemoteLogSegmentId(
                text(below(at, "topicPartition", "topic")),
                text(below(at, "topicId")),
                whole(below(at, "topicPartition", "partition"), bits=32, least=0),
                text(below(found, "remoteLogSegmentId", "id")),
            ),
            start_offset=whole(below(found, "startOffset"), least=0),
            end_offset=whole(below(found, "endOffset"), least=0),
            broker_id=whole(below(found, "brokerId"), bits=32),
            max_timestamp=whole(below(found, "maxTimestampMs")),
            event_timestamp=whole(below(found, "eventTimestampMs")),
            segment_leader_epochs=tuple(
                sorted((_epoch(epoch), whole(start, least=0)) for epoch, start in epochs.items())
            ),
            segment_size=whole(below(manifest, "chunkIndex", "originalFileSize"), bits=32, least=1),
            state=SegmentState.COPY_SEGMENT_FINISHED,
        )
    except (ValueError, InvalidKeyError) as error:
        raise CorruptDataError(
            f"{name}: no segment metadata in the manifest: {error}",
            hint="publish from the tables of the run that wrote it: --warehouse",
        ) from error


def _epoch(key: str) -> int:
    if not key.isascii() or not key.isdecimal() or len(key) > 10:
        raise ValueError(f"{key[:40]!r} is no leader epoch")
    return whole(int(key), bits=32)
