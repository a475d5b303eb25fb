"""Finished remote segments as the manifests in a store tell them: KIP-405 metadata without any table.

A `.rsm-manifest` stands for a complete segment and holds its metadata as `remoteLogSegmentMetadata`; see rsm_manifest
for the rest of it.

    remoteLogSegmentId      topicIdPartition {topicId, topicPartition {topic, partition}}, id
    startOffset, endOffset  inclusive
    maxTimestampMs, brokerId, eventTimestampMs
    segmentLeaderEpochs     {"epoch": start offset}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.remote_storage.stores.object_store import ObjectStore
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
        metadata = decode_metadata(store.get(found.key), name=store.uri + found.key)
        if (metadata.id.topic_id_partition, metadata.id.segment_id) != (key.partition, key.segment_id):
            raise CorruptDataError(f"{store.uri}{found.key}: the manifest of {metadata.id}")
        yield metadata


def decode_metadata(data: bytes, *, name: str) -> RemoteLogSegmentMetadata:
    """The metadata in a manifest, as COPY_SEGMENT_FINISHED.

    Raises:
        CorruptDataError: it has none, or not of this form.
    """
    try:
        manifest = json.loads(data)
        metadata = manifest["remoteLogSegmentMetadata"]
        partition = metadata["remoteLogSegmentId"]["topicIdPartition"]
        epochs = {int(epoch): int(start) for epoch, start in metadata["segmentLeaderEpochs"].items()}
        return RemoteLogSegmentMetadata(
            id=RemoteLogSegmentId(
                partition["topicPartition"]["topic"],
                partition["topicId"],
                int(partition["topicPartition"]["partition"]),
                metadata["remoteLogSegmentId"]["id"],
            ),
            start_offset=int(metadata["startOffset"]),
            end_offset=int(metadata["endOffset"]),
            broker_id=int(metadata["brokerId"]),
            max_timestamp=int(metadata["maxTimestampMs"]),
            event_timestamp=int(metadata["eventTimestampMs"]),
            segment_leader_epochs=tuple(sorted(epochs.items())),
            segment_size=int(manifest["chunkIndex"]["originalFileSize"]),
            state=SegmentState.COPY_SEGMENT_FINISHED,
        )
    except (ValueError, KeyError, TypeError, AttributeError, InvalidKeyError) as error:
        raise CorruptDataError(
            f"{name}: no segment metadata in the manifest: {error!r}",
            hint="publish from the tables of the run that wrote it: --warehouse",
        ) from error
