"""A partition tiered the short way, for tests of what reads remote storage: no warehouse, no report, no command."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.reference.local_replay import local_replay
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    new_segment_id,
)
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.send_objects import copy_segment
from tiersnap.remote_storage.upload.snapshot_source import SourceFile, TrustedSnapshot
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Checkpoints, FileRef, Partition, read_partition
from tiersnap.snapshot.replay.remote_listing import CopyEvent
from tiersnap.snapshot.tables.remote_log_segments import EVENTS


def aiven(store: ObjectStore) -> RemoteLocation:
    """Return the store as Aiven's plugin reads it."""
    return RemoteLocation(store, AivenLayout())


def tier(
    folder: Path,
    store: ObjectStore,
    *,
    layout: Layout | None = None,
    bases: set[int] | None = None,
    snapshots: dict[int, bytes] | None = None,
    event_timestamp: int = 1_700_000_000_500,
    max_timestamps: dict[int, int] | None = None,
) -> list[RemoteLogSegmentMetadata]:
    """Copy the closed segments of a partition's folder to `store`, ascending.

    Args:
        bases: only these segments.
        snapshots: other bytes for the snapshot at an offset.
        max_timestamps: what the metadata of a segment says; 0 where it is not given.
    """
    partition = read_partition(LOCAL, str(folder), Checkpoints())
    folded = folded_snapshots(partition) | (snapshots or {})
    return [
        _copy(store, layout or AivenLayout(), partition, segment, folded, event_timestamp, max_timestamps or {})
        for segment in partition.segments
        if segment.next_base_offset is not None and (bases is None or segment.base_offset in bases)
    ]


def age(store: DirectoryStore, key: str, milliseconds: int) -> None:
    """Let an object be so much older than it is, by the clock of its file system."""
    path = store.root / key
    modified = path.stat().st_mtime_ns - milliseconds * 1_000_000
    os.utime(path, ns=(modified, modified))


def folded_snapshots(partition: Partition) -> dict[int, bytes]:
    """What the log says at each base offset after the first and at the log end."""
    _, boundaries = local_replay(LOCAL, partition)
    return {boundary.offset: snapshot_file.encode(boundary.entries) for boundary in boundaries}


def _copy(store, layout, partition, segment, folded, event_timestamp, max_timestamps) -> RemoteLogSegmentMetadata:
    following = segment.next_base_offset
    ready = SegmentBundle(
        base_offset=segment.base_offset,
        next_base_offset=following,
        max_timestamp=max_timestamps.get(segment.base_offset, 0),
        log=_source(segment.log),
        offset_index=_source(segment.offset_index),
        time_index=_source(segment.time_index),
        transaction_index=_source(segment.transaction_index),
        leader_epochs=partition.leader_epochs,
        producer_snapshot=TrustedSnapshot(following, folded[following], Provenance.COMPUTED),
    )
    segment_id = RemoteLogSegmentId(partition.topic, partition.topic_id, partition.partition, new_segment_id())
    metadata = ready.metadata(segment_id, broker_id=1, event_timestamp=event_timestamp)
    copy_segment(RemoteLocation(store, layout), ready, metadata)
    return metadata


def _source(ref: FileRef | None) -> SourceFile | None:
    return None if ref is None else SourceFile(LOCAL, ref.path, ref.size)


def rows_of(events: Iterable[CopyEvent]) -> list[dict[str, Any]]:
    """The events as a Spark task gives them."""
    return EVENTS.batch(events).to_pylist()
