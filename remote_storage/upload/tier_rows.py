"""What tiering says of a segment, as rows of plain values: the announcements of KIP-405 and what went wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.upload.bundle import JudgedSegment
from tiersnap.snapshot.errors import TiersnapError, recorded

Row = dict[str, Any]
_LONG, _TEXT = pa.int64(), pa.string()

TIERED = pa.schema(
    [
        ("topic", _TEXT),
        ("topic_id", _TEXT),
        ("partition", pa.int32()),
        ("start_offset", _LONG),
        ("end_offset", _LONG),  # inclusive, as KIP-405 has it
        ("segment_id", _TEXT),  # of the attempt, or of the copy that is there; null where there is neither
        ("segment_size_bytes", _LONG),
        ("max_timestamp", _LONG),  # ms
        ("leader_epochs", pa.list_(pa.struct([("epoch", pa.int32()), ("start_offset", _LONG)]))),
        ("state", _TEXT),  # SegmentState that was entered; null where none was: somebody else's copy, or an error
        ("event_timestamp", _LONG),  # ms
        ("bytes", _LONG),  # of all objects that were sent and are there
        ("rebuilt_indexes", pa.map_(_TEXT, _TEXT)),  # why an index is not the broker's, by its name
        ("error", _TEXT),
        ("error_type", _TEXT),
        ("hint", _TEXT),
        ("is_transient", pa.bool_()),
    ]
)


def row_of(
    partition: TopicIdPartition,
    segment: JudgedSegment,
    *,
    now: int,
    segment_id: str | None = None,
    state: SegmentState | None = None,
    sent: int = 0,
    rebuilt: dict[str, str] | None = None,
    error: TiersnapError | None = None,
) -> Row:
    """A row of TIERED."""
    return {
        "topic": partition.topic,
        "topic_id": partition.topic_id,
        "partition": partition.partition,
        "start_offset": segment.base_offset,
        "end_offset": segment.next_base_offset - 1,
        "segment_id": segment_id,
        "segment_size_bytes": segment.log.size,
        "max_timestamp": segment.max_timestamp,
        "leader_epochs": [{"epoch": epoch, "start_offset": start} for epoch, start in segment.segment_leader_epochs],
        "state": None if state is None else state.name,
        "event_timestamp": now,
        "bytes": sent,
        "rebuilt_indexes": rebuilt or {},
        "error": None if error is None else f"{partition} segment {segment.base_offset}: {error.message}",
        **recorded(error),
    }


def started(metadata: RemoteLogSegmentMetadata, segment: JudgedSegment) -> Row:
    """COPY_SEGMENT_STARTED of an attempt."""
    return row_of(
        metadata.id.topic_id_partition,
        segment,
        now=metadata.event_timestamp,
        segment_id=metadata.id.segment_id,
        state=metadata.state,
    )
