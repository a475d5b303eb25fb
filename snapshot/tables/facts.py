"""Rows of the table `partitions`: facts of one partition by kind, from the core's values and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.snapshot.codecs import Row, RowCodec
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.partition_state import SnapshotAt, StoredAt
from tiersnap.snapshot.replay.snapshot_comparison import Comparison, SnapshotFile
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.tables.deltas import to_lists
from tiersnap.snapshot.tables.schemas import OPEN_TRANSACTION, PARTITION_KEY, PARTITIONS


class FactKind(StrEnum):
    """The kind of a row of `partitions`."""

    REPLAYED = "REPLAYED"  # one a replay: what it was made of, and where the next one may start
    STATE = "STATE"  # a part of the state to start from
    BOUNDARY = "BOUNDARY"  # the state at an offset, beside the file that was found there
    SEGMENT = "SEGMENT"  # what the gate must know of a segment
    GONE = "GONE"  # alone in its run: the partition is not where it was
    FINDING = "FINDING"
    ERROR = "ERROR"


# The column that is set in rows of a kind.
COLUMN_OF = {
    FactKind.REPLAYED: "replayed",
    FactKind.STATE: "state",
    FactKind.BOUNDARY: "boundary",
    FactKind.SEGMENT: "segment",
    FactKind.FINDING: "problem",
    FactKind.ERROR: "problem",
}
# What `readiness` is a view of.
JUDGED = (FactKind.REPLAYED, FactKind.BOUNDARY, FactKind.SEGMENT)

PARTITION = RowCodec(PartitionFacts)
COMPARISON = RowCodec(Comparison, columns={"strict": "found"})
# The snapshot of a segment is a row of its own.
SEGMENT = RowCodec(
    SegmentFacts,
    columns={
        "base_offset": "offset",
        "size": "size_bytes",
        "largest_timestamp": "max_timestamp",
        "damage_kind": "finding_kind",
    },
    without=("snapshot",),
)
FINDING = RowCodec(Finding, columns={"kind": "finding_kind"})
_FILE = RowCodec(SnapshotFile, columns={"size": "file_bytes", "crc32c": "file_crc"})
_STORED = RowCodec(StoredAt, columns={"key": "object_key", "crc32c": "object_crc"})
_SNAPSHOT = RowCodec(
    SnapshotAt, pairs={"open_transactions": OPEN_TRANSACTION}, without=("comparison", "file", "stored")
)
# What is said of a segment whose snapshot nobody asks for.
NOT_READ = Comparison(SnapshotVerdict.UNVERIFIED, "not read from the table")
_COLUMNS = frozenset(COLUMN_OF.values())
_OF_EVERY_KIND = tuple(name for name in PARTITIONS.names if name not in _COLUMNS)


def fact(
    key: Mapping[str, object], kind: FactKind, *, run: int, offset: int = 0, part: int = 0, **values: object
) -> Row:
    """A row of PARTITIONS as a dict, the fields of its kind beside the key; what is not named is null."""
    return {**key, "kind": str(kind), "offset": offset, "part": part, "run": run, **values}


def flat(row: Mapping[str, Any]) -> Row:
    """A row of PARTITIONS as a dict -> the same as `fact` has it."""
    column = COLUMN_OF.get(row["kind"])
    found = {name: value for name, value in row.items() if name not in _COLUMNS}
    return found if column is None else found | (row.get(column) or {})


def nested(row: Mapping[str, Any]) -> Row:
    """The inverse of `flat`."""
    found = {name: row[name] for name in _OF_EVERY_KIND}
    column = COLUMN_OF.get(row["kind"])
    if column is None:
        return found
    return found | {column: {field.name: row.get(field.name) for field in PARTITIONS.field(column).type}}


def snapshot_row(found: SnapshotAt) -> Row:
    """Return the columns of a SnapshotAt."""
    row = COMPARISON.to_row(found.comparison) | _FILE.to_row(found.file) | _SNAPSHOT.to_row(found)
    if found.stored is not None:
        row |= _STORED.to_row(found.stored) | {"is_mended": found.stored.is_mended or None}
    return row


def snapshot_of(row: Mapping[str, Any]) -> SnapshotAt:
    """Return the inverse of `snapshot_row`."""
    is_stored = row["object_key"] is not None
    stored = _STORED.of_row(row, is_mended=bool(row["is_mended"])) if is_stored else None
    return _SNAPSHOT.of_row(row, comparison=COMPARISON.of_row(row), file=_FILE.of_row(row), stored=stored)


def to_batches(rows: Iterable[Row], *, size: int = 4096) -> Iterator[pa.RecordBatch]:
    """Rows as `fact` gives them, `deltas` as arrays (DELTA_DTYPE), as batches of PARTITIONS; each state comes alone."""
    waiting: list[Row] = []
    for row in rows:
        if row["kind"] == FactKind.STATE:
            yield _state(row)
            continue
        waiting.append(nested(row))
        if len(waiting) == size:
            yield pa.RecordBatch.from_pylist(waiting, schema=PARTITIONS)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=PARTITIONS)


def _state(row: Row) -> pa.RecordBatch:
    state = pa.StructArray.from_arrays([to_lists([row["deltas"]])], fields=list(PARTITIONS.field("state").type))
    without = pa.RecordBatch.from_pylist([{name: row[name] for name in _OF_EVERY_KIND}], schema=PARTITIONS)
    columns = [state if name == "state" else without[name] for name in PARTITIONS.names]
    return pa.RecordBatch.from_arrays(columns, schema=PARTITIONS)


def newest_replays(facts: pa.Table) -> pa.Table:
    """Rows of the newest replay of each partition, partition by partition."""
    key = list(PARTITION_KEY)
    # Numbers of rows are joined and not the rows: Arrow joins no lists.
    numbered = facts.select([*key, "run"]).append_column("number", pa.array(range(facts.num_rows), pa.int64()))
    newest = facts.group_by(key).aggregate([("run", "max")])
    joined = numbered.join(newest, keys=key, join_type="inner")
    kept = joined.filter(pc.equal(joined["run"], joined["run_max"]))
    return facts.take(kept.sort_by([(name, "ascending") for name in (*key, "number")])["number"])


def by_partition(facts: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """The rows of each partition as `facts.flat` gives them; those of one must lie side by side."""
    current: list[dict[str, Any]] = []
    for batch in facts.to_batches(max_chunksize=8192):
        for row in batch.to_pylist():
            if current and any(row[name] != current[0][name] for name in PARTITION_KEY):
                yield current
                current = []
            current.append(flat(row))
    if current:
        yield current
