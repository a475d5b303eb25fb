"""Arrow schemas of the tables a run keeps, and the names of their key columns.

    segments             one row a decode of a segment file; the newest by `decoded_at` counts
    record_batches       headers of every decoded batch
    producer_deltas      what each run of batches does to each producer (producer_state.DELTA_DTYPE)
    producer_states      the state below the active segment of each partition, to start the next run from
    partition_states     where that state lies and what it was made of
    snapshots            one row a boundary: what was found there and what was written
    remote_log_segments  KIP-405 state changes of remote segments, appended before and after the bytes
    readiness            one row a segment: verdict, reason and next step as of the last run

Offsets named `next_…` and `…_end_offset` are exclusive; times are epoch milliseconds unless named `_ns`.
"""

from __future__ import annotations

import pyarrow as pa

from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_FIELDS
from tiersnap.snapshot.state.producer_state import DELTA_DTYPE

PARTITION_KEY = ("log_dir", "topic", "partition")
SEGMENT_KEY = (*PARTITION_KEY, "base_offset")

_TEXT, _LONG, _INT, _BOOL = pa.string(), pa.int64(), pa.int32(), pa.bool_()


def _schema(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    """Names ending in `?` are nullable."""
    return pa.schema([pa.field(name.rstrip("?"), kind, nullable=name.endswith("?")) for name, kind in fields])


# What the decode says of it.
SEGMENTS = _schema(
    ("log_dir", _TEXT),
    ("topic", _TEXT),
    ("partition", _INT),
    ("base_offset", _LONG),
    ("next_base_offset?", _LONG),
    ("size_bytes", _LONG),
    ("modified_ns", _LONG),
    ("cuts", pa.list_(_LONG)),
    ("crc_checked", _BOOL),
    ("valid_bytes", _LONG),
    ("batch_count", _LONG),
    ("legacy_count", _LONG),
    ("log_end_offset", _LONG),  # last offset + 1
    ("first_timestamp", _LONG),
    ("max_timestamp", _LONG),
    ("has_gaps", _BOOL),
    ("finding_kind?", _TEXT),
    ("finding_position?", _LONG),
    ("finding_message?", _TEXT),
    ("runs", pa.list_(pa.struct([("start_offset", _LONG), ("row_group", _INT)]))),  # row group -1: no producers
    ("deltas_file?", _TEXT),  # path inside producer_deltas
    ("batches_file?", _TEXT),  # path inside record_batches
    ("decoded_at", _LONG),
)

_IDENTITY = (("log_dir", _TEXT), ("topic", _TEXT), ("partition", _INT), ("segment_base_offset", _LONG))

RECORD_BATCHES = pa.schema(
    [
        *_schema(*_IDENTITY),
        *(pa.field(name, kind, nullable=False) for name, kind in RECORD_BATCH_FIELDS),
    ]
)

DELTA_FIELDS: tuple[tuple[str, pa.DataType], ...] = tuple(
    # Delta Lake has no unsigned types.
    (name, pa.from_numpy_dtype(DELTA_DTYPE[name]) if DELTA_DTYPE[name].kind == "i" else pa.int16())
    for name in DELTA_DTYPE.names or ()
)
_DELTA_COLUMNS = [pa.field(name, kind, nullable=False) for name, kind in DELTA_FIELDS]
PRODUCER_DELTAS = pa.schema([*_schema(*_IDENTITY, ("run_offset", _LONG)), *_DELTA_COLUMNS])
PRODUCER_STATES = pa.schema(
    [*_schema(("log_dir", _TEXT), ("topic", _TEXT), ("partition", _INT), ("end_offset", _LONG)), *_DELTA_COLUMNS]
)

# What the carry left of a partition; the newest by `recorded_at` counts.
PARTITION_STATES = _schema(
    ("log_dir", _TEXT),
    ("topic", _TEXT),
    ("partition", _INT),
    ("fingerprint", _TEXT),  # of the listing and the settings it was carried with; "" = carry it again
    ("state_end_offset?", _LONG),  # exclusive; null when there is no state to start from
    ("state_file?", _TEXT),  # path inside producer_states
    ("state_row_group?", _INT),  # -1: no producers
    ("history_from?", _LONG),
    ("has_adopted?", _BOOL),
    ("last_timestamp?", _LONG),
    ("chain?", _TEXT),  # digest of the files below state_end_offset
    ("recorded_at", _LONG),
)

SNAPSHOTS = _schema(
    ("log_dir", _TEXT),
    ("topic", _TEXT),
    ("topic_id?", _TEXT),
    ("partition", _INT),
    ("end_offset", _LONG),
    ("found", _TEXT),  # trust.SnapshotVerdict of the broker's file
    ("found_reason", _TEXT),
    ("provenance", _TEXT),  # of the computed state
    ("folded_from", _LONG),
    ("entry_count?", _LONG),  # of the written object
    ("crc?", _LONG),  # CRC-32C of the written object
    ("object_key?", _TEXT),  # of the written object, null when none was
    ("run_id", _TEXT),
    ("recorded_at", _LONG),
)

REMOTE_LOG_SEGMENTS = _schema(
    ("topic", _TEXT),
    ("topic_id", _TEXT),
    ("partition", _INT),
    ("segment_id", _TEXT),
    ("start_offset", _LONG),
    ("end_offset", _LONG),  # inclusive, as KIP-405 has it
    ("segment_size_bytes", _LONG),
    ("max_timestamp", _LONG),
    ("leader_epochs", pa.list_(pa.struct([("epoch", _INT), ("start_offset", _LONG)]))),
    ("state", _TEXT),
    ("event_timestamp", _LONG),
    ("run_id", _TEXT),
)

READINESS = _schema(
    ("log_dir", _TEXT),
    ("topic", _TEXT),
    ("topic_id?", _TEXT),
    ("partition", _INT),
    ("base_offset", _LONG),
    ("next_base_offset?", _LONG),
    ("size_bytes", _LONG),
    ("max_timestamp", _LONG),
    ("verdict", _TEXT),  # readiness.Verdict
    ("reason", _TEXT),
    ("next_step", _TEXT),
    ("snapshot", _TEXT),  # trust.SnapshotVerdict of the snapshot at next_base_offset, or of the log end's
    ("snapshot_provenance?", _TEXT),
    ("high_watermark?", _LONG),
    ("last_stable_offset?", _LONG),
    ("log_start_offset", _LONG),
    ("finding_count", _LONG),
)
