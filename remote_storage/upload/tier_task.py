"""READY segments as rows -> TIERED rows: what a Spark task does with one partition; tier_partition over rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile
from tiersnap.remote_storage.upload.tier_job import CopyEvent, Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.codecs import Row, RowCodec
from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict
from tiersnap.snapshot.tables.listed import partition_folder
from tiersnap.snapshot.tables.schemas import LEADER_EPOCH, LEADER_EPOCH_NAMES, OPEN_TRANSACTION, schema_of

_LONG, _TEXT = pa.int64(), pa.string()

TIERED = schema_of(
    ("topic", _TEXT),
    ("topic_id", _TEXT),
    ("partition", pa.int32()),
    ("start_offset", _LONG),
    ("end_offset", _LONG),  # inclusive, as KIP-405 has it
    ("segment_id", _TEXT),  # of the attempt, or of the copy that is there; null where there is neither
    ("segment_size_bytes", _LONG),
    ("max_timestamp", _LONG),  # ms
    ("leader_epochs", pa.list_(LEADER_EPOCH)),
    ("state", _TEXT),  # SegmentState that was entered; null where none was: somebody else's copy, or an error
    ("event_timestamp", _LONG),  # ms
    ("bytes", _LONG),  # of all objects that were sent and are there
    ("rebuilt_indexes", pa.map_(_TEXT, _TEXT)),  # why an index is not the broker's, by its name
    ("error", _TEXT),
    ("error_type", _TEXT),
    ("hint", _TEXT),
    ("is_transient", pa.bool_()),
)


_PARTITION = RowCodec(TopicIdPartition)
_EVENT = RowCodec(
    CopyEvent,
    columns={"segment_size": "segment_size_bytes"},
    pairs={"leader_epochs": LEADER_EPOCH_NAMES},
    without=("partition", "end_offset", "state", "error", "rebuilt_indexes"),
)
_ERROR = RowCodec(RecordedError, columns={"message": "error"})
_NO_ERROR = {"error": None, "error_type": None, "hint": None, "is_transient": False}


def tiered_row(event: CopyEvent) -> Row:
    """Return a row of TIERED."""
    return {
        **_PARTITION.to_row(event.partition),
        **_EVENT.to_row(event),
        **(_NO_ERROR if event.error is None else _ERROR.to_row(event.error)),
        "end_offset": event.end_offset - 1,
        "state": None if event.state is None else event.state.name,
        "rebuilt_indexes": dict(event.rebuilt_indexes),
    }


# One READY segment, with what was recorded of it.
READY = schema_of(
    ("log_dir", _TEXT),
    ("topic", _TEXT),
    ("topic_id", _TEXT),
    ("partition", pa.int32()),
    ("cluster_id", _TEXT),
    ("base_offset", _LONG),
    ("next_base_offset", _LONG),
    ("size_bytes", _LONG),
    ("max_timestamp", _LONG),
    ("digest", _TEXT),  # "" for a segment that needed no decode
    ("offset_index_bytes", _LONG),
    ("time_index_bytes", _LONG),
    ("transaction_index_bytes", _LONG),
    ("leader_epochs", pa.list_(LEADER_EPOCH)),
    ("open_transactions", pa.list_(OPEN_TRANSACTION)),  # at base_offset; null where nobody knows
    # The snapshot at next_base_offset: the broker's file, or the object that was computed.
    ("provenance", _TEXT),
    ("verdict", _TEXT),
    ("comparison", _TEXT),
    ("file_bytes", _LONG),
    ("file_crc", _LONG),
    ("object_key", _TEXT),  # null for the broker's file
    ("object_crc", _LONG),
)


@dataclass(frozen=True)
class TierTask:
    """READY rows of one partition, ascending -> TIERED rows."""

    store: ObjectStore
    layout: Layout
    tierer: Tierer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Tier the partition; every event is a row as soon as it is true."""
        rows = [row for batch in batches for row in batch.to_pylist()]
        if not rows:
            return
        partition = TopicIdPartition(rows[0]["topic"], rows[0]["topic_id"], rows[0]["partition"])
        planned = [planned_segment(row) for row in rows]
        cluster_id = rows[0]["cluster_id"]
        for event in tier_partition(
            self.store, self.layout, ObjectKeys(), partition, planned, self.tierer, cluster_id=cluster_id
        ):
            yield pa.RecordBatch.from_pylist([tiered_row(event)], schema=TIERED)


def planned_segment(row: Mapping[str, Any]) -> PlannedSegment:
    """A row of READY as tier_partition takes it."""
    filesystem, folder = partition_folder(row)
    stem = f"{folder}/{row['base_offset']:020d}"
    opened = row["open_transactions"]
    return PlannedSegment(
        base_offset=row["base_offset"],
        next_base_offset=row["next_base_offset"],
        max_timestamp=row["max_timestamp"],
        log=SourceFile(filesystem, f"{stem}.log", row["size_bytes"]),
        leader_epochs=tuple((epoch["epoch"], epoch["start_offset"]) for epoch in row["leader_epochs"] or ()),
        offset_index=_file(filesystem, f"{stem}.index", row["offset_index_bytes"]),
        time_index=_file(filesystem, f"{stem}.timeindex", row["time_index_bytes"]),
        transaction_index=_file(filesystem, f"{stem}.txnindex", row["transaction_index_bytes"]),
        open_transactions=None
        if opened is None
        else tuple((each["producer_id"], each["first_offset"]) for each in opened),
        header_digest=row["digest"] or None,
        snapshot=_snapshot(row, filesystem, folder),
    )


def _snapshot(row: Mapping[str, Any], filesystem: FileSystem, folder: str) -> SnapshotSource:
    offset = row["next_base_offset"]
    if row["object_key"] is not None:
        return SnapshotSource(
            offset=offset,
            provenance=Provenance(row["provenance"]),
            crc32c=row["object_crc"],
            object_key=row["object_key"],
        )
    return SnapshotSource(
        offset=offset,
        provenance=Provenance(row["provenance"]),
        verdict=SnapshotVerdict(row["verdict"]),
        comparison=SnapshotVerdict(row["comparison"]),
        crc32c=row["file_crc"],
        file=SourceFile(filesystem, f"{folder}/{file_name(offset)}", row["file_bytes"]),
    )


def _file(filesystem: FileSystem, path: str, size: int | None) -> SourceFile | None:
    return None if size is None else SourceFile(filesystem, path, size)
