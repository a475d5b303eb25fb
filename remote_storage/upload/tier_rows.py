"""Copy events as rows, as Spark's tasks give them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tiersnap.remote_storage.upload.copy_event import CopyEvent

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


def tiered_row(event: CopyEvent) -> dict[str, Any]:
    """Return a row of TIERED."""
    partition, error = event.partition, event.error
    return {
        "topic": partition.topic,
        "topic_id": partition.topic_id,
        "partition": partition.partition,
        "start_offset": event.start_offset,
        "end_offset": event.end_offset - 1,
        "segment_id": event.segment_id,
        "segment_size_bytes": event.segment_size,
        "max_timestamp": event.max_timestamp,
        "leader_epochs": [{"epoch": epoch, "start_offset": start} for epoch, start in event.leader_epochs],
        "state": None if event.state is None else event.state.name,
        "event_timestamp": event.event_timestamp,
        "bytes": event.bytes,
        "rebuilt_indexes": dict(event.rebuilt_indexes),
        "error": None if error is None else error.message,
        "error_type": None if error is None else error.error_type,
        "hint": None if error is None else error.hint,
        "is_transient": error is not None and error.is_transient,
    }
