"""Arrow schemas of the tables whose rows Spark makes.

The schemas of all other tables follow from the types of their rows; see `all_tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import numpy as np
import pyarrow as pa
from msgspec import Meta

from tiersnap.snapshot.columns import LogDir, PartitionNumber, Topic, TopicId
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.tables.schema_parts import field_of

_TEXT, _LONG, _INT, _BOOL = pa.string(), pa.int64(), pa.int32(), pa.bool_()


def _schema(*fields: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Return a schema of names, types and comments. A name that ends in `?` is a nullable column."""
    columns = []
    for name, kind, text in fields:
        columns.append(field_of(name.rstrip("?"), kind, text, nullable=name.endswith("?")))
    return pa.schema(columns)


def _text_of(column: object) -> str:
    """Return the comment of an annotated column type of `snapshot.columns`."""
    return next(each.description or "" for each in get_args(column) if isinstance(each, Meta))


RECORD_BATCH_FIELDS: tuple[tuple[str, pa.DataType], ...] = tuple(
    (name, pa.from_numpy_dtype(RECORD_BATCH_DTYPE[name])) for name in RECORD_BATCH_DTYPE.names or ()
)
_HEADER_COMMENTS = {
    "position": "byte position of the batch in the segment file",
    "base_offset": "base offset of the batch",
    "batch_length": "batchLength of the header: bytes of the batch after this field",
    "partition_leader_epoch": "leader epoch in which the batch was appended",
    "magic": "version of the record format",
    "crc": "CRC-32C of the header",
    "attributes": "attributes of the header: codec, timestamp type, transactional and control bits",
    "last_offset_delta": "last offset of the batch minus base_offset",
    "base_timestamp": "ms, timestamp of the first record",
    "max_timestamp": "ms, largest timestamp of the records",
    "producer_id": "producer id; -1 if there is none",
    "producer_epoch": "producer epoch; -1 if there is none",
    "base_sequence": "sequence of the first record; -1 if there is none",
    "record_count": "records in the batch",
    "control_type": "type of a control record: 0 ABORT, 1 COMMIT; -1 in a data batch",
    "coordinator_epoch": "coordinator epoch of a marker; -1 in a data batch",
    "control_timestamp": "ms, timestamp of a control record; -1 in a data batch",
}
_HEADERS = tuple((name, kind, _HEADER_COMMENTS[name]) for name, kind in RECORD_BATCH_FIELDS)
_PARTITION = (
    ("log_dir", _TEXT, _text_of(LogDir)),
    ("topic", _TEXT, _text_of(Topic)),
    ("partition", _INT, _text_of(PartitionNumber)),
)
_SEGMENT_OF_BATCH = ("segment_base_offset", _LONG, "base offset of the segment that contains the batch")

RUNS = _schema(
    ("run", _LONG, "number of the run, ascending"),
    ("run_id", _TEXT, "id of the run; unknown-N if the run was killed before its first commit"),
    ("tool", _TEXT, "name and version of the tool"),
    ("settings", _TEXT, "settings as JSON, without secrets"),
    ("started_at", _LONG, "ms, when the run began"),
    ("finished_at", _LONG, "ms, when the row was written"),
    ("segments_decoded", _LONG, "segments that were decoded"),
    ("bytes_decoded", _LONG, "bytes of the decoded segment files"),
    ("partitions_replayed", _LONG, "partitions that were replayed"),
    ("snapshots_written", _LONG, "snapshots that were uploaded to remote storage"),
    ("segments_uploaded", _LONG, "segments that were uploaded"),
    ("bytes_uploaded", _LONG, "bytes of the uploaded objects"),
    ("segments_published", _LONG, "segments that were published to brokers"),
    ("errors", _LONG, "errors of all kinds"),
)

# Batch headers without size and time of their file. spark.read.format("kafkasegment") and `collect --headers` use it.
RECORD_BATCHES = _schema(*_PARTITION, _SEGMENT_OF_BATCH, *_HEADERS)

# The table `record_batches`: one row per batch header, with size and time of its segment file. Only `tiersnap decode`
# writes it. A segment that grew is decoded again as a whole, so only the rows of a segment (_PARTITION,
# segment_base_offset) with the greatest `run` are valid.
RECORD_BATCHES_TABLE = _schema(
    *_PARTITION,
    _SEGMENT_OF_BATCH,
    ("run", _LONG, "number of the decode, ascending; not the number of a run of the pipeline"),
    ("topic_id?", _TEXT, _text_of(TopicId)),
    ("segment_size_bytes", _LONG, "bytes of the segment file"),
    ("segment_modified_ns", _LONG, "modification time of the segment file, ns since the epoch"),
    *_HEADERS,
)

# One row for each partition that an audit read, with or without findings. `run` numbers the audits.
AUDITS = _schema(
    *_PARTITION,
    ("run", _LONG, "number of the audit, ascending"),
    ("audited_at", _LONG, "ms, when the audit began"),
    ("batches", _LONG, "batches that were read"),
    ("first_offset?", _LONG, "base offset of the first batch; null if there is none"),
    ("last_offset?", _LONG, "last offset of the last batch, inclusive; null if there is none"),
    ("damage_count?", _LONG, "damaged places; the audit skips everything after them"),
)

# One row for each finding of `tiersnap audit --to`. `run` is the number of its audit in AUDITS.
AUDIT_FINDINGS = _schema(
    *_PARTITION,
    ("run", _LONG, "number of the audit, as in audits"),
    ("kind", _TEXT, "kind of the finding: AuditKind"),
    ("rule", _TEXT, "number of the statement in docs/contributing/seeds.md"),
    (
        "judgement",
        _TEXT,
        'whether the missing records are lost: LossVerdict or UNREAD; "" if the finding was not judged',
    ),
    ("harm", _TEXT, "harm that the finding causes: Harm"),
    ("producer_id?", _LONG, "producer id of the batch"),
    ("producer_epoch?", pa.int16(), "producer epoch of the batch"),
    ("before_epoch?", pa.int16(), "producer epoch of the previous batch or marker"),
    ("before_first_offset?", _LONG, "first offset of the previous batch or marker, inclusive"),
    ("before_last_offset?", _LONG, "last offset of the previous batch or marker, inclusive"),
    ("first_offset?", _LONG, "first offset of the batch, inclusive"),
    ("last_offset?", _LONG, "last offset of the batch, inclusive"),
    ("before_first_sequence?", _INT, "first sequence of the previous batch, inclusive"),
    ("before_last_sequence?", _INT, "last sequence of the previous batch, inclusive"),
    ("first_sequence?", _INT, "first sequence of the batch, inclusive"),
    ("last_sequence?", _INT, "last sequence of the batch, inclusive"),
    ("distance?", _LONG, "size of the gap in sequences; of an OFFSET_GAP in offsets; of OUT_OF_ORDER_TIMESTAMPS in ms"),
    ("is_same?", _BOOL, "for DUPLICATE_EXACT: whether both batches have the same CRC"),
    ("batches", _LONG, "number of batches that the finding covers"),
    ("confidence?", _TEXT, "confidence of a DUPLICATE_RENUMBERED"),
    ("before_producer_id?", _LONG, "for DUPLICATE_RENUMBERED: producer id of the earlier batch"),
    ("transactional_id?", _TEXT, "transactional id of the producer; null if unknown"),
    ("segment_base_offset?", _LONG, "base offset of the segment that contains the batch at first_offset"),
    ("position?", _LONG, "byte position of the batch at first_offset in the segment file"),
    ("timestamp?", _LONG, "ms, largest timestamp of the batch at first_offset"),
)


def to_batch(rows: np.ndarray, identity: Mapping[str, object], schema: pa.Schema = RECORD_BATCHES) -> pa.RecordBatch:
    """Return decoded batches (RECORD_BATCH_DTYPE) in the columns of `schema`.

    Args:
        identity: the value of each column that is not a field of the batch header.
    """
    headers = RECORD_BATCH_DTYPE.names or ()
    columns = []
    for field in schema:
        if field.name in headers:
            columns.append(pa.array(np.ascontiguousarray(rows[field.name])))
        else:
            columns.append(pa.repeat(pa.scalar(identity[field.name], field.type), rows.size))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
