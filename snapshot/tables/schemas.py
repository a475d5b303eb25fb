"""Arrow schemas of tables whose rows Spark makes, column by column, and the names of key columns.

The schemas of all other tables follow from the types of their rows; see `all_tables`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.producer_fold import DELTA_DTYPE

FORMAT_VERSION = 1
VERSION_KEY = "tiersnap.format"  # in the metadata of a table's first column
PART_DELTAS = 2_000

PARTITION_KEY = ("log_dir", "topic", "partition")
SEGMENT_KEY = (*PARTITION_KEY, "base_offset")

_TEXT, _LONG, _INT, _BOOL = pa.string(), pa.int64(), pa.int32(), pa.bool_()


def _schema(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    """Names ending in `?` are nullable."""
    return pa.schema([pa.field(name.rstrip("?"), kind, nullable=name.endswith("?")) for name, kind in fields])


def schema_of(
    *fields: pa.Field[pa.DataType] | tuple[str, pa.DataType], metadata: dict[bytes | str, bytes | str] | None = None
) -> pa.Schema:
    """Return a schema; every column but a field that says otherwise is nullable."""
    return pa.schema([each if isinstance(each, pa.Field) else pa.field(*each) for each in fields], metadata=metadata)


DELTA_FIELDS: tuple[tuple[str, pa.DataType], ...] = tuple(
    # Delta Lake has no unsigned types.
    (name, pa.from_numpy_dtype(DELTA_DTYPE[name]) if DELTA_DTYPE[name].kind == "i" else pa.int16())
    for name in DELTA_DTYPE.names or ()
)
DELTA = pa.struct(DELTA_FIELDS)
RECORD_BATCH_FIELDS: tuple[tuple[str, pa.DataType], ...] = tuple(
    (name, pa.from_numpy_dtype(RECORD_BATCH_DTYPE[name])) for name in RECORD_BATCH_DTYPE.names or ()
)
_PARTITION = (("log_dir", _TEXT), ("topic", _TEXT), ("partition", _INT))

RUNS = _schema(
    ("run", _LONG),
    ("run_id", _TEXT),
    ("tool", _TEXT),
    ("settings", _TEXT),  # JSON
    ("started_at", _LONG),
    ("finished_at", _LONG),
    ("segments_decoded", _LONG),
    ("bytes_decoded", _LONG),
    ("partitions_replayed", _LONG),
    ("snapshots_written", _LONG),
    ("segments_uploaded", _LONG),
    ("bytes_uploaded", _LONG),
    ("segments_published", _LONG),
    ("errors", _LONG),
)

# Batch headers without the identity of their file, as spark.read.format("kafkasegment") and `collect --headers` give.
RECORD_BATCHES = pa.schema(
    [
        *_schema(*_PARTITION, ("segment_base_offset", _LONG)),
        *(pa.field(name, kind, nullable=False) for name, kind in RECORD_BATCH_FIELDS),
    ]
)

# The table, which only `tiersnap decode` writes: a row a batch header, with the identity of the segment file that it
# was read from. Of the rows of one segment (_PARTITION, segment_base_offset) those with the greatest `run` count: a
# segment that grew is decoded again as a whole.
RECORD_BATCHES_TABLE = pa.schema(
    [
        *_schema(
            *_PARTITION,
            ("segment_base_offset", _LONG),
            ("run", _LONG),  # number of the decode, ascending; not that of a run of the pipeline
            ("topic_id?", _TEXT),
            ("segment_size_bytes", _LONG),
            ("segment_modified_ns", _LONG),
        ),
        *(pa.field(name, kind, nullable=False) for name, kind in RECORD_BATCH_FIELDS),
    ]
)

# A row for each partition that an audit looked at, also where it found nothing. `run` numbers the audits.
AUDITS = _schema(
    *_PARTITION,
    ("run", _LONG),
    ("audited_at", _LONG),
    ("batches", _LONG),
    ("first_offset?", _LONG),  # of the first batch, and inclusive of the last; null where there is none
    ("last_offset?", _LONG),
    ("damage_count?", _LONG),  # places behind which nothing was audited
)

# What an audit found, a row each: only `tiersnap audit --to` writes it. `run` is that of AUDITS. Offsets
# and sequences are inclusive; `before_…` is the batch (or marker) before it that the finding is about.
AUDIT_FINDINGS = _schema(
    *_PARTITION,
    ("run", _LONG),
    ("kind", _TEXT),  # models.audit_rules.AuditKind
    ("rule", _TEXT),  # number of the statement in docs/contributing/seeds.md
    ("judgement", _TEXT),  # audit_rules.LossVerdict, UNREAD, or "" where nothing is judged
    ("harm", _TEXT),  # models.audit_rules.Harm
    ("producer_id?", _LONG),
    ("producer_epoch?", pa.int16()),
    ("before_epoch?", pa.int16()),
    ("before_first_offset?", _LONG),
    ("before_last_offset?", _LONG),
    ("first_offset?", _LONG),
    ("last_offset?", _LONG),
    ("before_first_sequence?", _INT),
    ("before_last_sequence?", _INT),
    ("first_sequence?", _INT),
    ("last_sequence?", _INT),
    ("distance?", _LONG),  # sequences, offsets of an OFFSET_GAP, ms of OUT_OF_ORDER_TIMESTAMPS
    ("is_same?", _BOOL),  # of a DUPLICATE_EXACT: both copies have one CRC
    ("batches", _LONG),  # that it stands for
    ("confidence?", _TEXT),  # of a DUPLICATE_RENUMBERED: models.audit_rules.Confidence
    ("before_producer_id?", _LONG),  # of a DUPLICATE_RENUMBERED; all others are about one producer
    ("transactional_id?", _TEXT),  # of the producer; null where none is known
    # Where the batch at `first_offset` lies, and its largest record timestamp, ms.
    ("segment_base_offset?", _LONG),
    ("position?", _LONG),
    ("timestamp?", _LONG),
)


def to_batch(rows: np.ndarray, identity: Mapping[str, object], schema: pa.Schema = RECORD_BATCHES) -> pa.RecordBatch:
    """Decoded batches (RECORD_BATCH_DTYPE) in the columns of `schema`; those that no header has are of `identity`."""
    headers = RECORD_BATCH_DTYPE.names or ()
    columns = [
        pa.array(np.ascontiguousarray(rows[field.name]))
        if field.name in headers
        else pa.repeat(pa.scalar(identity[field.name], field.type), rows.size)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
