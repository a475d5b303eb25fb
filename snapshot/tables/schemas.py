"""Arrow schemas of the tables that a run keeps, and the names of their key columns.

    segments             decodes of segment files: how each ended, and its runs of producer deltas in parts
    partitions           what a replay said of a partition: facts, one row each
    remote_log_segments  KIP-405 states of remote segments: those of our copies, and those that were found
    runs                 one row a run that changed something
    record_batches       headers of batches, written by `tiersnap decode` alone
    audits               which partitions `tiersnap audit --to` looked at, and how far
    audit_findings       what it found in them
    remote_checks        what `tiersnap verify --warehouse` found out about remote segments

All are only appended to, but for stale rows of record_batches. `run` is the number of the run that wrote a row,
ascending; of the rows with one key those with the greatest count. Offsets named `next_...` and `..._end_offset` are
exclusive; times are epoch milliseconds unless named `_ns`. No array grows with segments or producers: deltas lie in
parts of at most PART_DELTAS.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.replay.producer_fold import DELTA_DTYPE

FORMAT_VERSION = 1
VERSION_KEY = "tiersnap.format"  # in the metadata of a table's first column
PART_DELTAS = 2_000

PARTITION_KEY = ("log_dir", "topic", "partition")
SEGMENT_KEY = (*PARTITION_KEY, "base_offset")

_TEXT, _LONG, _INT, _BOOL = pa.string(), pa.int64(), pa.int32(), pa.bool_()


def _schema(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    """Names ending in `?` are nullable."""
    return pa.schema([pa.field(name.rstrip("?"), kind, nullable=name.endswith("?")) for name, kind in fields])


def _struct(*fields: tuple[str, pa.DataType]) -> pa.StructType:
    """One column of several fields; each may be null, as Delta Lake wants it inside a column that may be."""
    return pa.struct(fields)


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
OPEN_TRANSACTION = pa.struct([("producer_id", _LONG), ("first_offset", _LONG)])
LEADER_EPOCH = pa.struct([("epoch", _INT), ("start_offset", _LONG)])
_PARTITION = (("log_dir", _TEXT), ("topic", _TEXT), ("partition", _INT))

# How the decode of a segment file ended; `part` 0 is always there, the others repeat all but the deltas.
SEGMENTS = _schema(
    *_PARTITION,
    ("base_offset", _LONG),
    ("run", _LONG),
    ("part", _INT),  # ascending over all runs of the segment, from 0
    # Identity of the file that was read.
    ("topic_id?", _TEXT),
    ("next_base_offset?", _LONG),
    ("size_bytes", _LONG),
    ("modified_ns", _LONG),
    ("digest", _TEXT),  # over all batch headers, see log.segment_scan
    ("crc_checked", _BOOL),
    # How it ended.
    ("valid_bytes", _LONG),
    ("batch_count", _LONG),
    ("legacy_count", _LONG),
    ("log_end_offset", _LONG),  # last offset + 1
    ("first_timestamp", _LONG),
    ("max_timestamp", _LONG),  # of its batches, -1 without one
    ("has_gaps", _BOOL),
    ("finding_kind?", _TEXT),
    ("finding_position?", _LONG),
    ("finding_message?", _TEXT),
    # One part of one run of batches.
    ("run_start_offset", _LONG),
    ("run_max_timestamp", _LONG),
    ("deltas", pa.list_(DELTA)),
)

# What a replay is made of, and where the next one may start.
REPLAYED = _struct(
    ("fingerprint", _TEXT),  # of the listing and the settings; "" = replay it again
    ("topic_id", _TEXT),
    ("directory_id", _TEXT),
    ("cluster_id", _TEXT),
    ("internal", _TEXT),
    ("compacted", _TEXT),
    ("high_watermark", _LONG),
    ("last_stable_offset", _LONG),
    ("unstable_because", _TEXT),
    ("log_start", _LONG),  # of the whole log, as its files tell it; null where they do not
    ("log_start_unknown", _TEXT),  # why nothing tells where the log begins; "" if it is known
    ("transactions_unknown", _TEXT),  # why nothing tells what is open where a scan window begins; "" if it is known
    ("log_start_offset", _LONG),  # of the local log
    ("log_end_offset", _LONG),
    ("leader_epochs", pa.list_(LEADER_EPOCH)),
    ("encrypted_by", _TEXT),  # key of a manifest that shows that the plugin encrypts; null where none does
    ("state_offset", _LONG),  # exclusive; null when there is no state to start from
    ("state_chain", _TEXT),  # digest of the files below it
    ("history_from", _LONG),
    ("has_adopted", _BOOL),
    ("unread_count", _LONG),  # snapshot files that could not be read
)
# A part of the deltas of everything below state_offset.
STATE = _struct(("deltas", pa.list_(DELTA)))
# The state at `offset` beside the file that was found there, and the object that was written.
BOUNDARY = _struct(
    ("found", _TEXT),  # trust.SnapshotVerdict, strict
    ("says", _TEXT),
    ("lacking", _LONG),
    ("differing", _LONG),
    ("forgotten", _LONG),
    ("unexplained", _LONG),
    ("extending", _LONG),
    ("harmful_until", _LONG),
    ("file_bytes", _LONG),
    ("file_crc", _LONG),  # CRC-32C of the whole file that was compared
    ("not_read", _TEXT),  # why the file could not be read
    ("open_transactions", pa.list_(OPEN_TRANSACTION)),  # null where there are more than PART_DELTAS
    ("provenance", _TEXT),  # of the computed state
    ("folded_from", _LONG),
    ("object_key", _TEXT),
    ("object_crc", _LONG),  # CRC-32C of the whole object
    ("entry_count", _LONG),
    ("written_by", _LONG),  # number of the run that put the object
    ("is_mended", _BOOL),  # that run put it in the place of a damaged one
)
# What the gate must know of the segment at `offset`.
SEGMENT = _struct(
    ("next_base_offset", _LONG),
    ("size_bytes", _LONG),
    ("modified_ns", _LONG),
    ("digest", _TEXT),
    ("crc_checked", _BOOL),
    ("max_timestamp", _LONG),  # the broker's
    ("finding_kind", _TEXT),  # of its damage
    ("damage", _TEXT),
    ("has_gaps", _BOOL),
    ("missing_parts", pa.list_(_TEXT)),
    ("rebuilt_parts", pa.list_(_TEXT)),
    ("index_faults", pa.list_(_TEXT)),
)
# A FINDING or an ERROR.
PROBLEM = _struct(
    ("finding_kind", _TEXT),
    ("path", _TEXT),
    ("position", _LONG),
    ("message", _TEXT),
    ("is_transient", _BOOL),
    ("error_type", _TEXT),
    ("hint", _TEXT),
)

# What one replay found of a partition. `kind` says which struct is set; `offset` and `part` complete the key.
PARTITIONS = _schema(
    *_PARTITION,
    ("kind", _TEXT),  # one of FactKind
    ("offset", _LONG),
    ("part", _INT),
    ("run", _LONG),
    ("replayed?", REPLAYED),
    ("state?", STATE),
    ("boundary?", BOUNDARY),
    ("segment?", SEGMENT),
    ("problem?", PROBLEM),
)

REMOTE_LOG_SEGMENTS = _schema(
    ("topic", _TEXT),
    ("topic_id", _TEXT),
    ("partition", _INT),
    ("segment_id?", _TEXT),  # null for a failure before there was an attempt
    ("start_offset", _LONG),
    ("end_offset", _LONG),  # inclusive, as KIP-405 has it
    ("segment_size_bytes", _LONG),
    ("max_timestamp", _LONG),
    ("leader_epochs", pa.list_(LEADER_EPOCH)),
    ("state?", _TEXT),  # SegmentState that was entered; null for a failure that entered none
    ("is_ours", _BOOL),  # announced by a run of this warehouse; else found in remote storage
    ("event_timestamp", _LONG),
    ("bytes", _LONG),  # of all objects that were sent and are there
    ("error?", _TEXT),
    ("error_type?", _TEXT),
    ("hint?", _TEXT),
    ("is_transient?", _BOOL),
    ("run", _LONG),
    ("is_brokers?", _BOOL),  # no claim of tiersnap names it; null of what was tiered
)

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
    ("segments_tiered", _LONG),
    ("bytes_tiered", _LONG),
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

# A view: deltas one a row, as `transforms.fold` gives them.
PRODUCER_DELTAS = pa.schema(
    [
        *_schema(*_PARTITION, ("segment_base_offset", _LONG), ("run_offset", _LONG)),
        *(pa.field(name, kind, nullable=False) for name, kind in DELTA_FIELDS),
    ]
)

# A view: one verdict a segment, of facts, remote storage and now.
READINESS = _schema(
    *_PARTITION,
    ("topic_id?", _TEXT),
    ("base_offset", _LONG),
    ("next_base_offset?", _LONG),
    ("size_bytes", _LONG),
    ("max_timestamp", _LONG),
    ("verdict", _TEXT),  # readiness.judge.Verdict
    ("reason", _TEXT),
    ("next_step", _TEXT),
    ("snapshot", _TEXT),  # trust.SnapshotVerdict of the snapshot at next_base_offset, or of the log end's
    ("snapshot_provenance?", _TEXT),
    ("compared?", _TEXT),  # what the strict comparison said of the file at next_base_offset; null where there was none
    ("high_watermark?", _LONG),
    ("last_stable_offset?", _LONG),
    ("log_start_offset", _LONG),
    ("finding_count", _LONG),
)

# What `tiersnap verify --warehouse` found out about remote segments. Of the rows of one segment id those with the
# greatest `run` count; a row without a segment id is of offsets that no complete segment holds, and counts while no
# later run looked into that partition.
REMOTE_CHECKS = _schema(
    ("topic", _TEXT),
    ("topic_id", _TEXT),
    ("partition", _INT),
    ("segment_id", _TEXT),
    ("base_offset", _LONG),
    ("next_base_offset?", _LONG),
    ("leader_epoch", _LONG),  # its newest; -1 where nobody can tell
    ("is_of_log", _BOOL),
    ("listed", _LONG),  # segments of the partition that were listed
    ("listed_from", _LONG),  # base offset of the first of them
    ("bytes", _LONG),  # of all its objects
    ("written_at", _LONG),  # ms, by the store's clock
    ("depth", _TEXT),  # readiness.remote_check.CheckDepth
    ("verdict", _TEXT),  # readiness.remote_check.RemoteVerdict
    ("compared_with", _TEXT),  # readiness.remote_check.ComparedWith
    ("reason", _TEXT),
    ("checked_at", _LONG),  # ms
    ("producer_expiration?", _LONG),  # ms; null if every entry was counted
    ("remote", _TEXT),  # URI of what was verified
    ("run", _LONG),  # number of the check, ascending; not that of a run of the pipeline
)

TABLES = {
    "segments": SEGMENTS,
    "partitions": PARTITIONS,
    "remote_log_segments": REMOTE_LOG_SEGMENTS,
    "runs": RUNS,
    "record_batches": RECORD_BATCHES_TABLE,
    "audits": AUDITS,
    "audit_findings": AUDIT_FINDINGS,
    "remote_checks": REMOTE_CHECKS,
}


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
