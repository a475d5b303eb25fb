"""The upload task: segments with all that KIP-405 demands into remote storage, one result row a segment."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tiersnap.remote_storage.errors import SnapshotChangedError
from tiersnap.remote_storage.layouts.layout import CopyState, Layout
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.ready_segment import ReadySegment
from tiersnap.remote_storage.upload.source_file import SourceFile
from tiersnap.remote_storage.upload.trusted_snapshot import TrustedSnapshot
from tiersnap.remote_storage.upload.uploader import copy_segment, delete_copy, inspect_copy
from tiersnap.snapshot.errors import MissingProducerSnapshotError, TiersnapError, TransientError
from tiersnap.snapshot.log.log_dir import resolve
from tiersnap.snapshot.partition_rows import LEADER_EPOCH, to_table
from tiersnap.snapshot.state.trust import Provenance, SnapshotVerdict

_log = logging.getLogger(__name__)
_LONG, _TEXT = pa.int64(), pa.string()

SEGMENT_COPY = pa.struct(
    [
        ("log_dir", _TEXT),
        ("topic", _TEXT),
        ("topic_id", _TEXT),
        ("partition", pa.int32()),
        ("base_offset", _LONG),
        ("next_base_offset", _LONG),
        ("size_bytes", _LONG),
        ("max_timestamp", _LONG),
        ("offset_index_bytes", _LONG),
        ("time_index_bytes", _LONG),
        ("transaction_index_bytes", _LONG),
        ("leader_epochs", pa.list_(LEADER_EPOCH)),
        ("found", _TEXT),  # verdict on the broker's snapshot at next_base_offset
        ("provenance", _TEXT),
        ("object_key", _TEXT),  # of the computed snapshot, null to take the broker's file
        ("crc", _LONG),  # that its bytes 2 to 5 name
        ("segment_id", _TEXT),
        ("event_timestamp", _LONG),
    ]
)
PLAN = pa.schema([("segments", pa.list_(SEGMENT_COPY))])
COPIED = pa.schema(
    [
        ("segment_id", _TEXT),
        ("state", _TEXT),  # SegmentState that was reached
        ("bytes", _LONG),
        ("error", _TEXT),
        ("is_transient", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class CopySegments:
    """PLAN rows -> COPIED rows; after a failure the rest of that partition waits for the next run."""

    store: ObjectStore
    layout: Layout
    broker_id: int = -1

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Copy the segments of each plan row in order."""
        for batch in batches:
            for plan in batch.to_pylist():
                rows = []
                failed: set[tuple[str, int]] = set()
                for segment in plan["segments"]:
                    partition = (segment["topic_id"], segment["partition"])
                    if partition not in failed:
                        rows.append(self._copy(segment))
                        if rows[-1]["error"] is not None:
                            failed.add(partition)
                yield from to_table(rows, COPIED).to_batches()

    def _copy(self, row: Mapping[str, Any]) -> dict[str, Any]:
        result = {"segment_id": row["segment_id"], "bytes": 0, "error": None, "is_transient": False}
        try:
            segment = self._segment(row)
            segment_id = RemoteLogSegmentId(row["topic"], row["topic_id"], row["partition"], row["segment_id"])
            metadata = segment.metadata(segment_id, broker_id=self.broker_id, event_timestamp=row["event_timestamp"])
            copied = copy_segment(self.store, self.layout, segment, metadata)
        except TiersnapError as error:
            where = f"{row['topic']}-{row['partition']} segment {row['base_offset']}"
            left_behind = error.attrs.get("left_behind")
            state = SegmentState.COPY_SEGMENT_STARTED if left_behind else SegmentState.DELETE_SEGMENT_FINISHED
            message = f"{where}: {error.message}"
            return {**result, "state": state.name, "error": message, "is_transient": isinstance(error, TransientError)}
        return {**result, "state": SegmentState.COPY_SEGMENT_FINISHED.name, "bytes": copied.bytes}

    def _segment(self, row: Mapping[str, Any]) -> ReadySegment:
        filesystem, path = resolve(row["log_dir"])
        folder = f"{path.rstrip('/')}/{row['topic']}-{row['partition']}"
        stem = f"{folder}/{row['base_offset']:020d}"
        snapshot = self._snapshot(filesystem, folder, row)
        if snapshot is None:
            raise MissingProducerSnapshotError(f"no trusted producer snapshot at offset {row['next_base_offset']}")
        return ReadySegment(
            base_offset=row["base_offset"],
            next_base_offset=row["next_base_offset"],
            max_timestamp=row["max_timestamp"],
            log=SourceFile(filesystem, f"{stem}.log", row["size_bytes"]),
            offset_index=_source(filesystem, f"{stem}.index", row["offset_index_bytes"]),
            time_index=_source(filesystem, f"{stem}.timeindex", row["time_index_bytes"]),
            transaction_index=_source(filesystem, f"{stem}.txnindex", row["transaction_index_bytes"]),
            leader_epochs=tuple((epoch["epoch"], epoch["start_offset"]) for epoch in row["leader_epochs"] or ()),
            producer_snapshot=snapshot,
        )

    def _snapshot(self, filesystem: fs.FileSystem, folder: str, row: Mapping[str, Any]) -> TrustedSnapshot | None:
        offset = row["next_base_offset"]
        if row["object_key"] is not None:
            data = self.store.get(row["object_key"])
            if int.from_bytes(data[2:6], "big") != row["crc"]:
                raise SnapshotChangedError(
                    f"{row['object_key']}: is not the snapshot that was computed", hint="run with --replace --apply"
                )
            return TrustedSnapshot(offset, data, Provenance(row["provenance"]))
        if row["found"] is None or not SnapshotVerdict(row["found"]).is_trusted:
            return None
        path = f"{folder}/{offset:020d}.snapshot"
        try:
            with filesystem.open_input_stream(path) as file:
                data = bytes(file.read())
        except OSError as error:
            raise TransientError(f"{path}: {error.strerror or error}", hint="run the same command again") from error
        return TrustedSnapshot(offset, data, Provenance.BROKER, SnapshotVerdict(row["found"]))


def _source(filesystem: fs.FileSystem, path: str, size: int | None) -> SourceFile | None:
    return None if size is None else SourceFile(filesystem, path, size)


@dataclass(frozen=True)
class ResumeCopies:
    """Rows of unfinished attempts -> COPIED rows: a complete copy is finished, anything less is deleted."""

    store: ObjectStore
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Look at each attempt that a run left in COPY_SEGMENT_STARTED or DELETE_SEGMENT_STARTED."""
        for batch in batches:
            for plan in batch.to_pylist():
                yield from to_table([self._resume(row) for row in plan["segments"]], COPIED).to_batches()

    def _resume(self, row: Mapping[str, Any]) -> dict[str, Any]:
        result = {"segment_id": row["segment_id"], "bytes": 0, "error": None, "is_transient": False}
        metadata = to_metadata(row)
        try:
            started = metadata.state is SegmentState.COPY_SEGMENT_STARTED
            if started and inspect_copy(self.store, self.layout, metadata) is CopyState.COMPLETE:
                return {**result, "state": SegmentState.COPY_SEGMENT_FINISHED.name, "bytes": metadata.segment_size}
            left = delete_copy(self.store, self.layout, metadata)
        except TiersnapError as error:
            message = f"{metadata.id}: {error.message}"
            transient = isinstance(error, TransientError)
            return {**result, "state": metadata.state.name, "error": message, "is_transient": transient}
        if left:
            message = f"{metadata.id}: {len(left)} objects could not be deleted: {left[0].key}"
            return {**result, "state": SegmentState.DELETE_SEGMENT_STARTED.name, "error": message}
        return {**result, "state": SegmentState.DELETE_SEGMENT_FINISHED.name}


def to_metadata(row: Mapping[str, Any]) -> RemoteLogSegmentMetadata:
    """A row of REMOTE_LOG_SEGMENTS as KIP-405 metadata."""
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId(row["topic"], row["topic_id"], row["partition"], row["segment_id"]),
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        broker_id=-1,
        max_timestamp=row["max_timestamp"],
        event_timestamp=row["event_timestamp"],
        segment_leader_epochs=tuple((epoch["epoch"], epoch["start_offset"]) for epoch in row["leader_epochs"]),
        segment_size=row["segment_size_bytes"],
        state=SegmentState[row["state"]],
    )
