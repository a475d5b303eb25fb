"""Copy events as rows, as Spark's tasks give them."""

from __future__ import annotations

import pyarrow as pa

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.upload.copy_event import CopyEvent
from tiersnap.snapshot.codecs import Row, RowCodec
from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.tables.schemas import LEADER_EPOCH, LEADER_EPOCH_NAMES, schema_of

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
